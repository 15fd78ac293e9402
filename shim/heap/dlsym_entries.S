/* heap/dlsym_entries.S -- dlsym and dlvsym, exported without a version, so that they catch callers bound to any. The real
 * ones read their caller's return address (RTLD_NEXT and RTLD_DEFAULT depend on it): so they are jumped to, with the
 * registers and the stack of the call. In assembler, since a compiler makes that jump a call in some build types.
 * Nothing here needs a relocation: an ifunc resolver of another library may call before the loader has come to ours. */
#include "sys/asm.h"

	.hidden mt_elf_real_dlsym
	.hidden mt_elf_real_dlvsym
	.hidden mt_loader_discover
	.hidden mt_dlsym_replace

#if defined(__x86_64__)

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
	/* RTLD_NEXT is -1: the next one's own, for who hooks it as we do. */
1:	cmpq $-1, %rdi
	je 2f
	movq (%rsp), %rcx
	save
	\version
	call mt_dlsym_replace
	restore
	testq %rax, %rax
	jnz 4f
	movq \real(%rip), %rax
2:	jmp *%rax

	/* The first call of the process. */
3:	save
	call mt_loader_discover
	restore
	movq \real(%rip), %rax
	testq %rax, %rax
	jnz 1b
4:	ret                             /* replaced; or no libc that has a dlsym: NULL */
	.cfi_endproc
	.size \name, . - \name
.endm

	lookup dlsym, mt_elf_real_dlsym, "xorl %edx, %edx"
	lookup dlvsym, mt_elf_real_dlvsym
#else

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
	bl mt_loader_discover
	restore
	load_real \real
	cbnz x16, 1b
	mov x17, xzr
4:	mov x0, x17
	ret
	.cfi_endproc
	.size \name, . - \name
.endm

	lookup dlsym, mt_elf_real_dlsym, "mov x2, xzr"
	lookup dlvsym, mt_elf_real_dlvsym
#endif
