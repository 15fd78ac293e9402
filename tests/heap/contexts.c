/* contexts.c CONTEXT [NUMBER] -- code that runs on a stack, or at a moment, of its own. Prints what
 * it saw.
 *   handlers    NUMBER times a handler that allocates, for a signal that the only thread raises
 *     itself; SIGUSR1 in turn
 *   longjmp     NUMBER times out of such a handler by siglongjmp, with blocks in use
 *   altstack    the least room on a signal stack, in steps of 64 bytes, in which an empty handler
 *     of SIGUSR1 survives
 *   threads     NUMBER threads on stacks of PTHREAD_STACK_MIN, each with every call of the heap
 *     family
 *   coroutines  64 of them (makecontext) on 16 kB each, passing NUMBER times from one to the next
 */
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static unsigned long done;

static void use_heap(unsigned number)
{
	size_t bytes = 1 + number * 91 % 30000;
	char *block = malloc(bytes), *other = calloc(3, 1 + bytes / 3);

	if (!block || !other || other[bytes / 2])
		_exit(91);
	memset(block, (int)number, bytes);
	block = realloc(block, bytes * 2);
	if (!block || block[bytes - 1] != (char)number)
		_exit(92);
	free(other);
	free(block);
}

/* ---- signals ---- */

static void allocate(int sig)
{
	use_heap((unsigned)done + (unsigned)sig);
	done++;
}

static int handlers(long count)
{
	signal(SIGUSR1, allocate);
	signal(SIGUSR2, allocate);
	for (long i = 0; i < count; i++) {
		char *held = malloc(1000);
		raise(i % 2 ? SIGUSR1 : SIGUSR2);
		free(held);
	}
	printf("%lu handled\n", done);
	return 0;
}

static sigjmp_buf back;

static void leave(int sig)
{
	allocate(sig);
	siglongjmp(back, 1);
}

static int out_of_handlers(long count)
{
	static char *volatile held;
	static volatile long i;

	signal(SIGUSR1, leave);
	for (i = 0; i < count; i++) {
		held = malloc(1000);
		if (sigsetjmp(back, 1) == 0) {
			raise(SIGUSR1);
			return 2;
		}
		free(held);
	}
	printf("%lu handled\n", done);
	return 0;
}

static void nothing(int sig)
{
	(void)sig;
}

/* The page below the stack is not there. */
static void on_stack_of(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	char *area =
		mmap(NULL, 17 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const stack_t stack = {.ss_sp = area + page, .ss_size = bytes};
	const struct sigaction act = {.sa_handler = nothing, .sa_flags = SA_ONSTACK};

	if (area == MAP_FAILED || mprotect(area, page, PROT_NONE) != 0)
		_exit(2);
	if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &act, NULL) != 0)
		_exit(errno == ENOMEM ? 3 : 2);
	raise(SIGUSR1);
	_exit(0);
}

static int altstack(long unused)
{
	/* the kernel's own least */
	long least = sysconf(_SC_MINSIGSTKSZ) > 2048 ? sysconf(_SC_MINSIGSTKSZ) : 2048;

	(void)unused;
	for (long more = 0; more < 16384; more += 64) {
		pid_t child = fork();
		int status = -1;

		if (child == 0)
			on_stack_of((size_t)(least + more));
		if (child < 0 || waitpid(child, &status, 0) != child)
			return 2;
		if (status == 0) {
			printf("%ld\n", more);
			return 0;
		}
		if (!WIFSIGNALED(status))
			return 3;
	}
	return 4;
}

/* ---- small stacks ---- */

static void *use_family(void *number)
{
	unsigned n = (unsigned)(uintptr_t)number;
	void *blocks[6] = {malloc(n), calloc(n + 1, 3),       memalign(64, n),
			   valloc(n), aligned_alloc(32, 320), NULL};

	use_heap(n);
	if (posix_memalign(&blocks[5], 128, n) != 0)
		_exit(93);
	for (unsigned i = 0; i < 6; i++)
		if (!blocks[i] || malloc_usable_size(blocks[i]) < (i == 4 ? 320 : n))
			_exit(94);
	for (unsigned i = 0; i < 6; i++)
		free(reallocarray(blocks[i], 10, 100));
	malloc_trim(0);
	return number;
}

static int small_threads(long count)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	if (pthread_attr_setstacksize(&attr, (size_t)sysconf(_SC_THREAD_STACK_MIN)) != 0)
		return 2;
	for (long i = 0; i < count; i++) {
		pthread_t thread;
		void *answer = NULL;
		int code = pthread_create(&thread, &attr, use_family, (void *)(i * 37 % 5000 + 1));

		if (code) {
			printf("refused: %s\n", strerror(code));
			return 0;
		}
		pthread_join(thread, &answer);
		done += answer != NULL;
	}
	printf("%lu ended\n", done);
	return 0;
}

#define COROUTINES 64

static ucontext_t contexts[COROUTINES], home;
static long rounds_left;

static void coroutine(int number)
{
	char *kept = malloc((size_t)number + 100);

	memset(kept, number, (size_t)number + 100);
	while (rounds_left-- > 0) {
		use_heap((unsigned)rounds_left);
		done++;
		swapcontext(&contexts[number], &contexts[(number + 1) % COROUTINES]);
		if (kept[number] != (char)number)
			_exit(95);
	}
	free(kept);
	setcontext(&home);
}

static int make_coroutine(int number)
{
	ucontext_t *context = &contexts[number];

	if (getcontext(context) != 0)
		return 0;
	context->uc_stack.ss_size = 16384;
	context->uc_stack.ss_sp = malloc(16384);
	makecontext(context, (void (*)(void))coroutine, 1, number);
	return 1;
}

static int coroutines(long count)
{
	rounds_left = count;
	for (int i = 0; i < COROUTINES; i++)
		if (!make_coroutine(i))
			return 2;
	if (swapcontext(&home, &contexts[0]) != 0)
		return 2;
	printf("%lu passed\n", done);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(long number);
	} all[] = {
		{"handlers", handlers},     {"longjmp", out_of_handlers}, {"altstack", altstack},
		{"threads", small_threads}, {"coroutines", coroutines},
	};

	for (unsigned i = 0; argc > 1 && i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(argv[1], all[i].name) == 0)
			return all[i].run(argc > 2 ? atol(argv[2]) : 0);
	return 2;
}
