/* sys/saved_x86_64.h -- assembler macros: save and restore the argument registers of a forwarded
 * call around a call of the shim. Three registers suffice; with the return address they align the
 * stack to 16 bytes. */
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
