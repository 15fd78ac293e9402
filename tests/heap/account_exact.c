/* account_exact.c -- 200 threads hand blocks to each other, allocate and free in the destructors of
 * their last rounds, and die with live blocks. Every block is entered into a table of our own, by
 * its usable size; the difference of mt_stats between a quiet start and a quiet end must be that
 * sum to the byte. Prints "live LIVE own OWN difference D".
 *
 * The stacks are ours and every thread but main is joined before either look, so that libc's own
 * allocations (stacks' dtv, thread structures) are either gone or counted on both sides: a first
 * generation of threads fills its caches. */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define THREADS_COUNT 200
#define MAILBOXES     4096
#define ROUNDS        1000
#define STACK_BYTES   (256 << 10)

struct stats_start {
	uint64_t size_bytes;
	uint64_t live_bytes;
	uint64_t rest[62];
};

static _Atomic(void *) mailbox[MAILBOXES];
static atomic_llong own_live;
static pthread_key_t keys[3];
static char *stacks;
static int (*get_stats)(struct stats_start *);

static void *take(size_t bytes, int how)
{
	void *block = NULL;

	if (how == 0)
		block = malloc(bytes);
	else if (how == 1)
		block = calloc(1, bytes);
	else if (posix_memalign(&block, 256, bytes) != 0)
		abort();
	memset(block, 1, bytes < 64 ? bytes : 64);
	atomic_fetch_add(&own_live, (long long)malloc_usable_size(block));
	return block;
}

static void give(void *block)
{
	if (block)
		atomic_fetch_sub(&own_live, (long long)malloc_usable_size(block));
	free(block);
}

static void *grow(void *block, size_t bytes)
{
	atomic_fetch_sub(&own_live, (long long)malloc_usable_size(block));
	block = realloc(block, bytes);
	atomic_fetch_add(&own_live, (long long)malloc_usable_size(block));
	return block;
}

/* Runs in every destructor round: each sets its key again, until the library stops asking (four
 * rounds). */
static void at_thread_end(void *value)
{
	uintptr_t round = (uintptr_t)value & 7;
	unsigned which = (unsigned)((uintptr_t)value >> 3);

	for (unsigned i = 0; i < 20; i++) {
		void *block = take(100 + 1000 * round + i, (int)(i % 3));
		give(atomic_exchange(&mailbox[(which * 37 + i * 11 + round) % MAILBOXES], block));
	}
	if (round < 7)
		pthread_setspecific(keys[which % 3],
				    (void *)(((uintptr_t)which << 3) | (round + 1)));
}

static void *work(void *argument)
{
	unsigned which = (unsigned)(uintptr_t)argument;
	uint64_t state = which * 2654435761u + 12345;

	for (unsigned k = 0; k < 3; k++)
		if (k == which % 3)
			pthread_setspecific(keys[k], (void *)(((uintptr_t)which << 3) | 1));
	for (unsigned i = 0; i < ROUNDS; i++) {
		state = state * 6364136223846793005ull + 1442695040888963407ull;
		size_t bytes = (state >> 33) % (i % 100 == 0 ? 300000 : 3000) + 1;
		void *block = take(bytes, (int)((state >> 50) % 3));
		if (i % 7 == 0)
			block = grow(block, bytes * 2);
		give(atomic_exchange(&mailbox[(state >> 40) % MAILBOXES], block));
	}
	return NULL;
}

static void generation(void)
{
	pthread_t threads[THREADS_COUNT];
	pthread_attr_t attributes;

	for (unsigned i = 0; i < THREADS_COUNT; i++) {
		pthread_attr_init(&attributes);
		pthread_attr_setstack(&attributes, stacks + (size_t)i * STACK_BYTES, STACK_BYTES);
		if (pthread_create(&threads[i], &attributes, work, (void *)(uintptr_t)(i + 1)) != 0)
			abort();
		pthread_attr_destroy(&attributes);
	}
	for (unsigned i = 0; i < THREADS_COUNT; i++)
		pthread_join(threads[i], NULL);
}

static uint64_t live_bytes(void)
{
	static struct stats_start now;

	now.size_bytes = sizeof(now);
	if (get_stats(&now) != 0) {
		fprintf(stderr, "mt_stats refused\n");
		exit(4);
	}
	return now.live_bytes;
}

int main(int argc, char **argv)
{
	unsigned generations = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	static char out[4096];

	setvbuf(stdout, out, _IOFBF, sizeof(out));
	get_stats = (int (*)(struct stats_start *))(uintptr_t)dlsym(RTLD_DEFAULT, "mt_stats");
	if (!get_stats) {
		printf("no mt_stats\n");
		return 3;
	}
	stacks = mmap(NULL, (size_t)THREADS_COUNT * STACK_BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (unsigned k = 0; k < 3; k++)
		pthread_key_create(&keys[k], at_thread_end);
	generation();

	long long own_before = atomic_load(&own_live);
	uint64_t before = live_bytes();
	for (unsigned i = 0; i < generations; i++)
		generation();
	/* Some of what dead threads left is freed by main, the rest stays live. */
	for (unsigned i = 0; i < MAILBOXES; i += 2)
		give(atomic_exchange(&mailbox[i], NULL));
	void *large = take(50 << 20, 0);
	uint64_t after = live_bytes();
	long long own_after = atomic_load(&own_live);

	long long live = (long long)(after - before), own = own_after - own_before;
	printf("live %lld own %lld difference %lld\n", live, own, live - own);
	give(large);
	return live == own ? 0 : 1;
}
