/* sys/saved_x86_64.h -- for assembler alone: the arguments of a call that is handed on, kept over a
 * call of ours. Three registers, the most that any of them has; with the return address the stack
 * is aligned again. */
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
