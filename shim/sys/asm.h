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

#endif
