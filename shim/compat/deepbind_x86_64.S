/* compat/deepbind_x86_64.S -- dlopen, exported without a version as dlsym is. heap/dlsym_x86_64.S says
 * why it is in assembler, compat/compat.h what it is for. rdi: file, esi: mode. */
#include "sys/asm.h"

#if defined(__x86_64__)

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

	.hidden mt_deepbind_next
	.hidden mt_deepbind_init
	.hidden mt_deepbind_mode
#endif
