/* compat/dlopen.S -- dlopen, exported without a version as dlsym is. heap/dlsym_entries.S says why it is in
 * assembler, compat/compat.c what it is for. */
#include "sys/asm.h"

	.hidden mt_deepbind_next
	.hidden mt_deepbind_init
	.hidden mt_deepbind_mode

#if defined(__x86_64__)

/* rdi file, esi mode. */
	.globl dlopen
	.type dlopen, @function
	.balign 16
dlopen:
	.cfi_startproc
	endbr64
	testb $8, %sil                  /* RTLD_DEEPBIND */
	jnz 3f
1:	movq mt_deepbind_next(%rip), %rax
	testq %rax, %rax
	jz 2f
	jmp *%rax

2:	save
	call mt_deepbind_init
	restore
	movq mt_deepbind_next(%rip), %rax
	testq %rax, %rax
	jz 4f
	jmp *%rax
4:	ret                             /* NULL */

3:	save
	movl %esi, %edi
	call mt_deepbind_mode
	restore
	movl %eax, %esi
	jmp 1b
	.cfi_endproc
	.size dlopen, . - dlopen
#else

/* x0 file, w1 mode. */
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
#endif
