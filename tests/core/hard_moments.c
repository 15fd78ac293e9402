/* hard_moments.c MOMENT [NUMBER] -- one program in one of the moments that have broken the shim;
 * prints what it saw.
 *   atfork       forks with the handlers of hard_atfork.c (compiled with -DWITH_ATFORK and linked
 *     with it)
 *   leave        main ends by pthread_exit, a thread writes its last line later, unflushed
 *   detached     hundreds of detached threads that never use the heap end together
 *   descriptors  NUMBER times the lowest free descriptor, beside the worker
 *   raw_child    a _Fork child calls exit()
 *   late         512 MB are touched long after they were allocated, then freed; NUMBER 1 asks by
 *     SIGUSR1
 *   wake         only wakes the worker (compiled with -DTLS_BYTES=n for a large static TLS)
 *   pairs        NUMBER pairs of malloc and free, for a tool that counts
 *   pending      a thread with a cancellation pending allocates
 *   cancel       threads are cancelled while they allocate and trim, with a fork after each
 *   sized        free_sized and free_aligned_sized, found by dlsym */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mtshim.h"

#define MIB (1024 * 1024)

#ifdef TLS_BYTES
static __thread volatile char thread_local_bytes[TLS_BYTES];
#endif

/* A function's address as data: in a program that is not position-independent malloc is then the
 * program's own stub. */
void *(*const hard_malloc_address)(size_t) = malloc;

static unsigned entries_count(const char *path)
{
	DIR *folder = opendir(path);
	unsigned count = 0;

	if (!folder)
		return 0;
	for (struct dirent *entry; (entry = readdir(folder));)
		count += entry->d_name[0] != '.';
	closedir(folder);
	return count;
}

static char *touched(size_t bytes)
{
	char *block = malloc(bytes);

	if (!block)
		abort();
	memset(block, 1, bytes);
	return block;
}

/* Grows past any threshold, and goes on when the worker is there and has its files. Without it, the
 * moment is not the one that is meant: then the program ends. */
static void wake(void)
{
	touched(64 * MIB);
	for (unsigned i = 0; i < 400; i++) {
		free(touched(MIB));
		if (entries_count("/proc/self/task") == 2 && entries_count(getenv("MT_DIR")) == 2)
			return;
		usleep(25000);
	}
	puts("the worker did not wake");
	exit(3);
}

/* Not by stdio: it must not allocate. */
static long rss_mib(void)
{
	char text[128] = "";
	int fd = open("/proc/self/statm", O_RDONLY);
	long pages = -1;

	if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0)
		sscanf(text, "%*d %ld", &pages);
	close(fd);
	return pages * sysconf(_SC_PAGESIZE) / MIB;
}

static int child_status(pid_t child)
{
	int status = -1;

	if (child < 0 || waitpid(child, &status, 0) != child)
		return -1;
	return status;
}

/* A child that allocates: a lock that it inherits as held makes it hang. */
static bool forks_well(void)
{
	pid_t child = fork();

	if (child == 0) {
		free(touched(100000));
		_exit(0);
	}
	return child_status(child) == 0;
}

/* ---- the moments; each answers the exit status ---- */

#ifdef WITH_ATFORK
int hard_atfork_used(void);

static int atfork(long forks)
{
	long good = 0;

	for (long i = 0; i < forks; i++)
		good += forks_well();
	/* Two of the three handlers run in this process. */
	printf("%ld forks, %d handlers\n", good, hard_atfork_used());
	return 0;
}
#endif

static void *end_later(void *unused)
{
	(void)unused;
	usleep(300000);
	printf("the last thread is done\n"); /* stays in the buffer until exit */
	return NULL;
}

static int leave(long unused)
{
	pthread_t thread;

	(void)unused;
	wake();
	if (pthread_create(&thread, NULL, end_later, NULL) != 0)
		return 2;
	pthread_detach(thread);
	pthread_exit(NULL);
}

static pthread_barrier_t gate;

static void *pass_gate(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&gate);
	return NULL;
}

static bool end_together(unsigned count)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_barrier_init(&gate, NULL, count + 1);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (unsigned i = 0; i < count; i++)
		if (pthread_create(&thread, &attr, pass_gate, NULL) != 0)
			return false;
	pthread_attr_destroy(&attr);
	pthread_barrier_wait(&gate);
	usleep(20000);
	return true;
}

/* Their stacks are gone: whoever still asks them what they hold crashes, walks in a circle or sums
 * up noise. */
static int detached(long rounds)
{
	int (*figures)(struct mt_stats *) =
		(int (*)(struct mt_stats *))dlsym(RTLD_DEFAULT, "mt_stats");
	struct mt_stats before = {.size_bytes = sizeof(before)};
	struct mt_stats after = {.size_bytes = sizeof(after)};

	if (!figures || figures(&before) != 0)
		return 2;
	for (long i = 0; i < rounds; i++)
		if (!end_together(30) || figures(&after) != 0)
			return 2;
	int64_t more = (int64_t)(after.live_bytes - before.live_bytes);
	printf("live bytes stay: %s\n", more > -MIB && more < MIB ? "yes" : "no");
	return 0;
}

static int descriptors(long tries)
{
	long others = 0;

	wake();
	for (long i = 0; i < tries; i++) {
		close(0);
		int fd = open("/dev/null", O_RDONLY);
		if (fd != 0) {
			others++;
			dup2(fd, 0);
			close(fd);
		}
		if (i % 500 == 0)
			free(touched(MIB)); /* something for the worker to look at */
	}
	printf("%ld tries, %ld got another descriptor\n", tries, others);
	return 0;
}

static int raw_child(long unused)
{
	const char *folder = getenv("MT_DIR");

	(void)unused;
	wake();
	pid_t child = _Fork();
	if (child == 0)
		exit(0);
	int status = child_status(child);
	printf("child %d, %u files left\n", status, entries_count(folder));
	return 0;
}

static int late(long asked)
{
	const size_t bytes = (size_t)512 * MIB;
	char *block = malloc(bytes);
	long least = rss_mib();

	if (!block)
		return 2;
	free(malloc(10)); /* the last call for now: nothing is mapped when the block is touched */
	usleep(500000);
	memset(block, 1, bytes);
	printf("touched: %s\n", rss_mib() >= least + 500 ? "yes" : "no");
	free(block);
	usleep(200000);
	if (asked)
		kill(getpid(), SIGUSR1);
	for (unsigned i = 0; i < (asked ? 100 : 400) && rss_mib() > least + 64; i++)
		usleep(50000);
	printf("returned: %s\n", rss_mib() <= least + 64 ? "yes" : "no");
	return 0;
}

static int only_wake(long unused)
{
	(void)unused;
	wake();
#ifdef TLS_BYTES
	thread_local_bytes[TLS_BYTES - 1] = 1;
#endif
	printf("%u threads\n", entries_count("/proc/self/task"));
	return 0;
}

static int pairs(long count)
{
	if (!hard_malloc_address)
		return 2;
	for (long i = 0; i < count; i++)
		free(malloc(64));
	return 0;
}

static atomic_bool may_go;
static atomic_uint passed_count;

static void *allocate_with_cancel_pending(void *unused)
{
	while (!atomic_load(&may_go))
		;
	for (unsigned i = 0; i < 400; i++) {
		char *block = malloc(MIB);
		if (!block)
			abort();
		block[0] = 1;
		atomic_fetch_add(&passed_count, 1);
	}
	pthread_testcancel();
	return unused;
}

static int pending(long unused)
{
	pthread_t thread;
	void *answer = NULL;

	(void)unused;
	if (pthread_create(&thread, NULL, allocate_with_cancel_pending, NULL) != 0)
		return 2;
	pthread_cancel(thread);
	atomic_store(&may_go, true);
	pthread_join(thread, &answer);
	printf("%u mallocs, then %s\n", atomic_load(&passed_count),
	       answer == PTHREAD_CANCELED ? "cancelled" : "not");
	return 0;
}

static void *allocate_and_trim(void *unused)
{
	for (unsigned i = 0;; i++) {
		for (unsigned k = 0; k < 20; k++)
			free(touched(20000 + k * 10000));
		if (i % 4 == 0)
			malloc_trim(0);
		pthread_testcancel();
	}
	return unused;
}

static int cancel(long threads)
{
	long good = 0;

	wake();
	for (long i = 0; i < threads; i++) {
		pthread_t thread;
		void *answer = NULL;

		if (pthread_create(&thread, NULL, allocate_and_trim, NULL) != 0)
			return 2;
		usleep((useconds_t)(300 + i * 17));
		pthread_cancel(thread);
		pthread_join(thread, &answer);
		good += answer == PTHREAD_CANCELED && forks_well();
	}
	printf("%ld cancelled\n", good);
	return 0;
}

/* What they do not free shows: each block has one page touched. */
static int sized(long rounds)
{
	void (*by_size)(void *, size_t) =
		(void (*)(void *, size_t))dlsym(RTLD_DEFAULT, "free_sized");
	void (*by_both)(void *, size_t, size_t) =
		(void (*)(void *, size_t, size_t))dlsym(RTLD_DEFAULT, "free_aligned_sized");
	long before = rss_mib();

	if (!by_size || !by_both) {
		puts("not found");
		return 0;
	}
	by_size(NULL, 0);
	by_both(NULL, 64, 0);
	for (long i = 0; i < rounds; i++) {
		char *plain = malloc(20000);
		char *aligned = aligned_alloc(256, 25600);
		if (!plain || !aligned || (uintptr_t)aligned % 256)
			return 2;
		plain[0] = aligned[0] = 1;
		by_size(plain, 20000);
		by_both(aligned, 256, 25600);
	}
	printf("freed: %s\n", rss_mib() < before + 16 ? "yes" : "no");
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*live)(long number);
	} moments[] = {
#ifdef WITH_ATFORK
		{"atfork", atfork},
#endif
		{"leave", leave},         {"detached", detached}, {"descriptors", descriptors},
		{"raw_child", raw_child}, {"late", late},         {"wake", only_wake},
		{"pairs", pairs},         {"pending", pending},   {"cancel", cancel},
		{"sized", sized},
	};

	for (unsigned i = 0; argc > 1 && i < sizeof(moments) / sizeof(moments[0]); i++)
		if (strcmp(argv[1], moments[i].name) == 0)
			return moments[i].live(argc > 2 ? atol(argv[2]) : 0);
	return 2;
}
