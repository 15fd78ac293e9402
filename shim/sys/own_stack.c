#include "sys/own_stack.h"

#include <errno.h>
#include <stdint.h>
#include <stddef.h>
#include <sys/mman.h>

#include "sys/attr.h"

#define STACK_BYTES (256u << 10)

/* The stack pointer of the caller is kept in a register that the function preserves. The use of the
 * frame's address makes the compiler keep a frame pointer, by which unwinders find the caller: by
 * the stack pointer they would read what lies above the new stack. */
static __attribute__((noinline)) void call_on(void *top, void (*function)(void *), void *argument)
{
	__asm__ volatile("" : : "r"(__builtin_frame_address(0)));
#if defined(__x86_64__)
	__asm__ volatile("movq %%rsp, %%rbx\n\t"
			 "movq %[top], %%rsp\n\t"
			 "callq *%[function]\n\t"
			 "movq %%rbx, %%rsp"
			 : "+D"(argument)
			 : [top] "r"(top), [function] "r"(function)
			 : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "xmm0",
			   "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
			   "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc", "memory");
#elif defined(__aarch64__)
	register void *first __asm__("x0") = argument;

	__asm__ volatile("mov x19, sp\n\t"
			 "mov sp, %[top]\n\t"
			 "blr %[function]\n\t"
			 "mov sp, x19"
			 : "+r"(first)
			 : [top] "r"(top), [function] "r"(function)
			 : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11",
			   "x12", "x13", "x14", "x15", "x16", "x17", "x19", "x30", "v0", "v1", "v2",
			   "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13",
			   "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23",
			   "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "cc", "memory");
#else
	(void)top;
	function(argument);
#endif
}

MT_COLD void mt_own_stack_call(void (*function)(void *), void *argument)
{
	int kept = errno;
	char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, -1, 0);

	errno = kept;
	if (stack == MAP_FAILED) {
		function(argument);
		return;
	}
	mt_assert((uintptr_t)(stack + STACK_BYTES) % 16 == 0); /* the ABI's alignment */
	call_on(stack + STACK_BYTES, function, argument);
	kept = errno;
	(void)munmap(stack, STACK_BYTES);
	errno = kept;
}
