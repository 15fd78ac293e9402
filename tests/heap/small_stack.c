/* small_stack.c -- allocates until the process has grown, on a stack of 8 kB.
 *
 *   small_stack coroutine|handler  large|many
 *
 * large: a block of 1 MB; many: 40,000 blocks of 1,000 bytes. A guard page lies below the stack.
 * Prints "well". */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define PAGE        4096
#define STACK_BYTES 8192

static void *blocks[40000];
static int is_large;

static void allocate(void)
{
	if (is_large)
		blocks[0] = malloc(1 << 20);
	else
		for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++)
			blocks[i] = malloc(1000);
}

static void handle(int sig)
{
	(void)sig;
	allocate();
}

int main(int argc, char **argv)
{
	static ucontext_t back, coroutine;
	char *area = mmap(NULL, PAGE + STACK_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t stack = {.ss_sp = area + PAGE, .ss_size = STACK_BYTES};
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};

	if (argc != 3 || area == MAP_FAILED || mprotect(area, PAGE, PROT_NONE) != 0)
		return 2;
	is_large = strcmp(argv[2], "large") == 0;
	if (strcmp(argv[1], "handler") == 0) {
		if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR2, &action, NULL) != 0)
			return 2;
		raise(SIGUSR2);
	} else {
		getcontext(&coroutine);
		coroutine.uc_stack = stack;
		coroutine.uc_link = &back;
		makecontext(&coroutine, allocate, 0);
		swapcontext(&back, &coroutine);
	}
	puts(blocks[0] ? "well" : "no block");
	return 0;
}
