/* small_stack.c -- allocates on a small stack: a coroutine's of 4 kB, or a signal handler's of 8,
 * of which the kernel takes more than 3 for the registers. A guard page lies below the stack.
 *
 *   small_stack coroutine|thread|handler  large|many|family|trim|limit
 *
 * large: a block of 1 MB; many: 40,000 blocks of 1,000 bytes; family: blocks of all sizes up to
 * 64 MB by all functions, moved and freed; trim: many, freed, and malloc_trim; limit: turns over
 * 60 MB three times. Linked with -z now: the loader needs 3 kB to bind a name. Prints
 * "well". */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define PAGE  4096
#define COUNT 60000

static void *blocks[COUNT];
static const char *what;

static void fill(size_t count)
{
	for (size_t i = 0; i < count; i++)
		memset(blocks[i] = malloc(1000), 1, 1000);
}

static void empty(size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(blocks[i]);
}

static void use_family(void)
{
	for (size_t size = 8; size < 64u << 20; size += size / 2) {
		char *block = malloc(size);
		char *zeroed = calloc(1, size);
		char *aligned = memalign(PAGE, size);

		block = realloc(block, size * 2);
		memset(block, 1, size * 2 < 1u << 20 ? size * 2 : 1u << 20);
		free(block);
		free(zeroed);
		free(aligned);
	}
}

static void turn_over(void)
{
	for (int round = 0; round < 3; round++) {
		fill(COUNT);
		empty(COUNT);
		blocks[0] = memset(malloc(60u << 20), 1, 60u << 20);
		free(blocks[0]);
	}
}

static void allocate(void)
{
	if (strcmp(what, "large") == 0)
		blocks[0] = malloc(1 << 20);
	else if (strcmp(what, "family") == 0)
		use_family();
	else if (strcmp(what, "limit") == 0)
		turn_over();
	else
		fill(40000);
	if (strcmp(what, "trim") == 0) {
		empty(40000);
		(void)malloc_trim(0);
	}
}

static void handle(int sig)
{
	(void)sig;
	allocate();
}

static char *make_stack(size_t bytes)
{
	char *area = mmap(NULL, PAGE + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	if (area == MAP_FAILED || mprotect(area, PAGE, PROT_NONE) != 0)
		exit(2);
	return area + PAGE;
}

static void run_on_signal_stack(void)
{
	const stack_t stack = {.ss_sp = make_stack(2 * PAGE), .ss_size = 2 * PAGE};
	const struct sigaction action = {.sa_handler = handle, .sa_flags = SA_ONSTACK};

	if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR2, &action, NULL) != 0)
		exit(2);
	raise(SIGUSR2);
}

static void run_coroutine(void)
{
	static ucontext_t back, coroutine;

	getcontext(&coroutine);
	coroutine.uc_stack = (stack_t){.ss_sp = make_stack(PAGE), .ss_size = PAGE};
	coroutine.uc_link = &back;
	makecontext(&coroutine, allocate, 0);
	swapcontext(&back, &coroutine);
}

static void *run_in_thread(void *argument)
{
	run_coroutine();
	return argument;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc != 3)
		return 2;
	what = argv[2];
	if (strcmp(argv[1], "handler") == 0)
		run_on_signal_stack();
	else if (strcmp(argv[1], "coroutine") == 0)
		run_coroutine();
	else if (pthread_create(&thread, NULL, run_in_thread, NULL) == 0)
		pthread_join(thread, NULL);
	puts("well");
	return 0;
}
