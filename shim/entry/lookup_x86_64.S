/* entry/lookup_x86_64.S -- dlsym and dlvsym, exported without a version, so that they catch callers bound to any. The real
 * ones read their caller's return address (RTLD_NEXT and RTLD_DEFAULT depend on it): so they are jumped to, with the
 * registers and the stack of the call. In assembler, since a compiler makes that jump a call in some build types.
 * Nothing here needs a relocation: an ifunc resolver of another library may call before the loader has come to ours. */
#include "entry/lookup_asm.h"

#if defined(__x86_64__)
#include "entry/saved_x86_64.h"

/* rdi handle, rsi name, rdx version. */
.macro lookup name, real, version
	.globl \name
	.type \name, @function
	.balign 16
\name:
	.cfi_startproc
	endbr64
	movq \real(%rip), %rax
	testq %rax, %rax
	jz 3f
1:	cmpb $'c', (%rsi)
	jne 2f
	cmpb $'u', 1(%rsi)
	je 4f
2:	jmp *%rax

	/* The first call of the process. */
3:	save
	call mt_elf_discover
	restore
	movq \real(%rip), %rax
	testq %rax, %rax
	jnz 1b
	ret                             /* no libc that has one: NULL */

	/* Perhaps a name of the driver's. RTLD_NEXT is -1: libcuda's own, for who hooks it as we do. */
4:	cmpq $-1, %rdi
	je 2b
	movq (%rsp), %rcx
	save
	\version
	call mt_lookup_replace
	restore
	testq %rax, %rax
	jnz 5f
	movq \real(%rip), %rax
	jmp *%rax
5:	ret
	.cfi_endproc
	.size \name, . - \name
.endm

	.hidden mt_elf_real_dlsym
	.hidden mt_elf_real_dlvsym
	.hidden mt_elf_discover
	.hidden mt_lookup_replace

	lookup dlsym, mt_elf_real_dlsym, "xorl %edx, %edx"
	lookup dlvsym, mt_elf_real_dlvsym
#endif
