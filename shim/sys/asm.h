/* sys/asm.h -- macros of the assembler files: the landing pad of an indirect jump, the jump, and
 * the notes of an object. Code that may be reached through a pointer begins with LANDING; it is a
 * no-op without branch protection. */
#ifndef MT_SYS_ASM_H
#define MT_SYS_ASM_H

#if defined(__x86_64__)
#define LANDING endbr64
#define BRANCH  jmp
#elif defined(__aarch64__)
#define LANDING hint 34 /* bti c */
#define BRANCH  b
#else
#error "lookup: no assembler for this architecture"
#endif

/* The note declares branch protection. The linker keeps it only if every object of the library has
 * it, so it follows the compiler's flags. */
#if defined(__CET__)
#define PROPERTY_TYPE  0xc0000002 /* GNU_PROPERTY_X86_FEATURE_1_AND */
#define PROPERTY_VALUE __CET__    /* 1: IBT, 2: SHSTK */
#elif defined(__ARM_FEATURE_BTI_DEFAULT)
#define PROPERTY_TYPE  0xc0000000 /* GNU_PROPERTY_AARCH64_FEATURE_1_AND */
#define PROPERTY_VALUE 1          /* BTI */
#endif
#ifdef PROPERTY_TYPE
	.section .note.gnu.property, "a", %note
	.balign 8
	.long 4
	.long 16
	.long 5 /* NT_GNU_PROPERTY_TYPE_0 */
	.asciz "GNU"
	.long PROPERTY_TYPE
	.long 4
	.long PROPERTY_VALUE
	.long 0
#endif

	.section .note.GNU-stack, "", %progbits
	.text

/* save and restore keep the argument registers of a forwarded call over a call of the shim. x86-64:
 * three registers suffice; with the return address they align the stack to 16 bytes. aarch64:
 * load_real loads the word with the target into x16, since a branch by x16 may enter a `bti c`
 * landing pad. */
#if defined(__x86_64__)
.macro save
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	pushq %rdx
	.cfi_adjust_cfa_offset 8
.endm

.macro restore
	popq %rdx
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
.endm
#else
.macro load_real real
	adrp x16, \real
	ldr x16, [x16, #:lo12:\real]
.endm

.macro save
	stp x29, x30, [sp, #-48]!
	.cfi_adjust_cfa_offset 48
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	stp x0, x1, [sp, #16]
	str x2, [sp, #32]
	mov x29, sp
.endm

.macro restore
	ldr x2, [sp, #32]
	ldp x0, x1, [sp, #16]
	ldp x29, x30, [sp], #48
	.cfi_adjust_cfa_offset -48
	.cfi_restore x29
	.cfi_restore x30
.endm
#endif

#endif
