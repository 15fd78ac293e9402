/* sys/saved_aarch64.h -- as saved_x86_64.h. load_real loads the word with the target into x16: a
 * branch by x16 may enter a `bti c` landing pad. */
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
