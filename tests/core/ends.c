/* ends.c END [NUMBER] -- a process, or a thread, that ends while memory is still asked for. Prints
 * what it saw.
 *   handlers   atexit, on_exit and a destructor of the program, each of which allocates and frees
 *     what main made
 *   quick      at_quick_exit, the same
 *   keys       NUMBER threads with ten keys whose destructors allocate, free and set themselves
 *     again
 *   cleanup    NUMBER threads that end by pthread_exit below cleanup handlers that allocate
 *   alive      main returns while four threads allocate
 *   twice      two threads call exit at the same time
 *   suddenly   _exit while four threads allocate
 *   abort      abort with a handler of SIGABRT that allocates, amid blocks in use
 *   blind      main ends by pthread_exit, and there is no descriptor to read /proc by; a thread
 *     works on */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define BLOCKS 500
#define KEYS   10

static char *blocks[BLOCKS];
static atomic_uint handled;
static int shows_handlers;
static volatile int exits_now = 1;

static char *filled(unsigned number)
{
	size_t bytes = 1 + number * 37 % 9000;
	char *block = malloc(bytes);

	if (!block)
		_exit(91);
	memset(block, (int)number, bytes);
	return block;
}

static void take(unsigned from)
{
	for (unsigned i = from; i < BLOCKS; i += 3) {
		if (!blocks[i])
			continue;
		if (blocks[i][0] != (char)i)
			_exit(92);
		free(blocks[i]);
		blocks[i] = NULL;
		free(filled(i + 1));
	}
	atomic_fetch_add(&handled, 1);
}

static void make(void)
{
	for (unsigned i = 0; i < BLOCKS; i++)
		blocks[i] = filled(i);
}

/* ---- handlers ---- */

static void at_exit(void)
{
	take(0);
}

static void on_exit_too(int status, void *argument)
{
	(void)status;
	(void)argument;
	take(1);
}

__attribute__((destructor)) static void at_the_end(void)
{
	if (!shows_handlers)
		return;
	take(2);
	printf("%u handlers\n", atomic_load(&handled));
	fflush(stdout);
}

static int handlers(long unused)
{
	(void)unused;
	shows_handlers = 1;
	make();
	return atexit(at_exit) || on_exit(on_exit_too, NULL);
}

static void show(void)
{
	printf("%u handlers\n", atomic_load(&handled));
	fflush(stdout);
}

static int quick(long unused)
{
	(void)unused;
	make();
	if (at_quick_exit(show) || at_quick_exit(at_exit))
		return 2;
	quick_exit(0);
}

/* ---- threads ---- */

static pthread_key_t keys[KEYS];

/* As often as POSIX lets it: the last round leaves what it made. */
static void again(void *value)
{
	unsigned at = 0;

	free(value);
	free(filled(77));
	while (at < KEYS - 1 && pthread_getspecific(keys[at]))
		at++;
	pthread_setspecific(keys[at], filled(at));
	atomic_fetch_add(&handled, 1);
}

static void *with_keys(void *unused)
{
	for (unsigned i = 0; i < KEYS; i++)
		pthread_setspecific(keys[i], filled(i));
	return unused;
}

static int in_threads(long count, void *(*run)(void *))
{
	for (long i = 0; i < count; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, run, NULL) != 0 ||
		    pthread_join(thread, NULL) != 0)
			return 2;
	}
	show();
	return 0;
}

static int with_destructors(long count)
{
	for (unsigned i = 0; i < KEYS; i++)
		if (pthread_key_create(&keys[i], again) != 0)
			return 2;
	return in_threads(count, with_keys);
}

static void clean(void *block)
{
	free(block);
	free(filled(300));
	atomic_fetch_add(&handled, 1);
}

static void leave_by_exit(unsigned depth)
{
	pthread_cleanup_push(clean, filled(depth));
	if (depth)
		leave_by_exit(depth - 1);
	if (exits_now)
		pthread_exit(NULL);
	pthread_cleanup_pop(0);
}

static void *exits(void *unused)
{
	leave_by_exit(4);
	return unused;
}

static int with_cleanup(long count)
{
	return in_threads(count, exits);
}

/* ---- others that live on ---- */

static void *churn(void *unused)
{
	for (unsigned i = 0;; i++) {
		char *one = filled(i), *other = filled(i * 7);
		free(one);
		free(realloc(other, 20000));
	}
	return unused;
}

static void start_threads(void)
{
	for (unsigned i = 0; i < 4; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, churn, NULL) != 0)
			exit(2);
	}
	usleep(2000);
}

static int alive(long unused)
{
	(void)unused;
	make();
	start_threads();
	puts("returns");
	return atexit(at_exit);
}

static pthread_barrier_t gate;

static void *end_too(void *unused)
{
	pthread_barrier_wait(&gate);
	exit(0);
	return unused;
}

static int twice(long unused)
{
	pthread_t thread;

	(void)unused;
	make();
	atexit(at_exit);
	pthread_barrier_init(&gate, NULL, 2);
	if (pthread_create(&thread, NULL, end_too, NULL) != 0)
		return 2;
	pthread_barrier_wait(&gate);
	exit(0);
}

static int suddenly(long unused)
{
	(void)unused;
	start_threads();
	(void)!write(1, "now\n", 4);
	_exit(7);
}

static void last_words(int sig)
{
	(void)sig;
	take(0);
	(void)!write(1, "aborts\n", 7);
}

static int aborts(long unused)
{
	(void)unused;
	make();
	signal(SIGABRT, last_words);
	abort();
}

static void *work_on(void *unused)
{
	for (unsigned i = 0; i < 40; i++) {
		usleep(50000);
		free(filled(i));
	}
	printf("worked to its end\n"); /* stays in the buffer until exit */
	return unused;
}

static int blind(long unused)
{
	const struct rlimit none = {3, 3};
	pthread_t thread;

	(void)unused;
	make();
	/* The first pthread_exit of a process opens libgcc_s. */
	if (pthread_create(&thread, NULL, exits, NULL) != 0 || pthread_join(thread, NULL) != 0)
		return 2;
	usleep(300000);
	if (pthread_create(&thread, NULL, work_on, NULL) != 0 ||
	    setrlimit(RLIMIT_NOFILE, &none) != 0)
		return 2;
	pthread_detach(thread);
	pthread_exit(NULL);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(long number);
	} ends[] = {
		{"handlers", handlers},    {"quick", quick},  {"keys", with_destructors},
		{"cleanup", with_cleanup}, {"alive", alive},  {"twice", twice},
		{"suddenly", suddenly},    {"abort", aborts}, {"blind", blind},
	};

	for (unsigned i = 0; argc > 1 && i < sizeof(ends) / sizeof(ends[0]); i++)
		if (strcmp(argv[1], ends[i].name) == 0)
			return ends[i].run(argc > 2 ? atol(argv[2]) : 0);
	return 2;
}
