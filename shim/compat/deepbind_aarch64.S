/* compat/deepbind_aarch64.S -- as deepbind_x86_64.S. x0 file, w1 mode. */
#include "sys/asm.h"

#if defined(__aarch64__)

	.globl dlopen
	.type dlopen, %function
	.balign 16
dlopen:
	.cfi_startproc
	hint 34                         /* bti c */
	tbnz w1, #3, 3f                 /* RTLD_DEEPBIND */
1:	load_real mt_deepbind_next
	cbz x16, 2f
	br x16

2:	save
	bl mt_deepbind_init
	restore
	load_real mt_deepbind_next
	cbz x16, 4f
	br x16
4:	mov x0, xzr
	ret

3:	save
	mov w0, w1
	bl mt_deepbind_mode
	mov w9, w0
	restore
	mov w1, w9
	b 1b
	.cfi_endproc
	.size dlopen, . - dlopen

	.hidden mt_deepbind_next
	.hidden mt_deepbind_init
	.hidden mt_deepbind_mode
#endif
