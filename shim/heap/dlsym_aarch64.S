/* heap/dlsym_aarch64.S -- as dlsym_x86_64.S, where the reasons are. */
#include "sys/asm.h"

#if defined(__aarch64__)

/* x0 handle, x1 name, x2 version. */
.macro lookup name, real, version
	.globl \name
	.type \name, %function
	.balign 16
\name:
	.cfi_startproc
	hint 34                         /* bti c */
	load_real \real
	cbz x16, 3f
1:	cmn x0, #1                      /* RTLD_NEXT */
	b.eq 2f
	save
	\version
	mov x3, x30
	bl mt_dlsym_replace
	mov x17, x0
	restore
	cbnz x17, 4f
	load_real \real
2:	br x16

3:	save
	bl mt_elf_discover
	restore
	load_real \real
	cbnz x16, 1b
	mov x17, xzr
4:	mov x0, x17
	ret
	.cfi_endproc
	.size \name, . - \name
.endm

	.hidden mt_elf_real_dlsym
	.hidden mt_elf_real_dlvsym
	.hidden mt_elf_discover
	.hidden mt_dlsym_replace

	lookup dlsym, mt_elf_real_dlsym, "mov x2, xzr"
	lookup dlvsym, mt_elf_real_dlvsym
#endif
