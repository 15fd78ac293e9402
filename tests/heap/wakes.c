/* wakes.c HOW [COUNT] -- a process that begins asleep, and grows. Says at each step which allocator
 * serves.
 *   small    3 MB of small blocks, and malloc_trim, mallinfo2 and mallopt
 *   large    one block of 2 MB
 *   pace     40 MB in small blocks, one at a time, within 2 s; the same at once
 *   buffer   a buffer that grows to 600 kB by doubling, and one of 950 kB, freed, 500 times; one
 *            that grows to 1.25 MB by 16 kB, 200 times
 *   mapped   the same within 2 s, after the program has mapped 32 MB itself
 *   one      one block of 40 MB, after which malloc is not called: how many threads there are
 *   crowd    COUNT children in turn: in each, two threads make their first large block at the same
 *            moment; how many children are on jemalloc then
 *   live     8 MB of small blocks; old ones are moved, all are freed: the live bytes counted
 *   old      3.5 MB of small blocks, freed before and after it has woken up: resident memory then
 *   threads  COUNT children in turn: in each, threads make, move and free each other's blocks,
 *            while the process wakes up. Every block is checked. In half of the children a thread
 *            forks meanwhile, and its children allocate.
 *   break    the program moves the program break itself, between calls of malloc
 *   handler  a handler of a raised signal allocates while the process wakes up
 *   inside   libc's malloc faults, and the handler of SIGSEGV wakes the process up by a large block
 *   mallopt  the program tells libc to give large blocks mappings of their own
 *   blocked  the program break cannot be moved any more
 *   early    it cannot be moved from before libc is initialised on */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rollup.h"

#define THREADS 6u
#define PLACES  64u
#define TURNS   2000u
#define HOARD   60u

struct block {
	unsigned char *at;
	size_t bytes;
};

static _Atomic(struct block *) shared[PLACES];
static pthread_barrier_t barrier;
static _Atomic unsigned failures;
static int hoards;
static void *volatile from_handler;

static struct block *make(unsigned *seed)
{
	struct block *block = malloc(sizeof(*block));
	unsigned draw = (unsigned)rand_r(seed);
	void *out = NULL;

	if (!block)
		_exit(80);
	block->bytes = draw % 100 < 97 ? 1 + draw % 900 : 1 + draw % 60000;
	switch (draw / 1000 % 5) {
	case 0:
		out = calloc(1, block->bytes);
		break;
	case 1:
		out = memalign(64, block->bytes);
		break;
	case 2:
		if (posix_memalign(&out, 32, block->bytes) != 0)
			_exit(81);
		break;
	default:
		out = malloc(block->bytes);
	}
	if (!out || malloc_usable_size(out) < block->bytes)
		_exit(82);
	block->at = out;
	memset(block->at, (int)(block->bytes % 251), block->bytes);
	return block;
}

static void check(const struct block *block)
{
	for (size_t i = 0; i < block->bytes; i++)
		if (block->at[i] != (unsigned char)(block->bytes % 251))
			failures++;
}

static void drop(struct block *block)
{
	if (!block)
		return;
	check(block);
	free(block->at);
	free(block);
}

static struct block *move(struct block *block, unsigned *seed)
{
	size_t bytes = 1 + (size_t)rand_r(seed) % 2000;

	if (!block)
		return NULL;
	block->at = realloc(block->at, bytes);
	if (!block->at)
		_exit(83);
	if (bytes < block->bytes)
		for (size_t i = 0; i < bytes; i++)
			failures += block->at[i] != (unsigned char)(block->bytes % 251);
	else
		check(block);
	block->bytes = bytes;
	memset(block->at, (int)(bytes % 251), bytes);
	return block;
}

/* Nearly each of these moves the program break: several threads wait in libc's malloc while one of
 * them wakes the process up. */
static void hoard(unsigned number)
{
	struct block large[HOARD];

	for (unsigned i = 0; i < HOARD; i++) {
		large[i].bytes = 60000 + 1000 * ((i + number) % 70);
		large[i].at = malloc(large[i].bytes);
		if (!large[i].at)
			_exit(99);
		memset(large[i].at, (int)(large[i].bytes % 251), large[i].bytes);
	}
	for (unsigned i = 0; i < HOARD; i++) {
		check(&large[i]);
		free(large[i].at);
	}
}

static void *work(void *number)
{
	struct block *kept[TURNS / 4] = {NULL};
	unsigned seed = (unsigned)(uintptr_t)number * 7919u + (unsigned)getpid();

	pthread_barrier_wait(&barrier);
	if (hoards)
		hoard((unsigned)(uintptr_t)number);
	for (unsigned turn = 0; turn < TURNS; turn++) {
		struct block *mine = make(&seed);
		unsigned place = (unsigned)rand_r(&seed) % PLACES;

		if (turn % 4 == 0)
			kept[turn / 4] = make(&seed);
		if (turn % 3 == 0)
			mine = move(mine, &seed);
		mine = atomic_exchange(&shared[place], mine);
		if (turn % 5 == 0)
			mine = move(mine, &seed);
		drop(mine);
	}
	for (unsigned i = 0; i < TURNS / 4; i++)
		drop(kept[i]);
	return NULL;
}

static void *fork_often(void *unused)
{
	(void)unused;
	pthread_barrier_wait(&barrier);
	for (unsigned i = 0; i < 20; i++) {
		pid_t child = fork();
		int status = -1;

		if (child == 0) {
			unsigned seed = i;

			for (unsigned turn = 0; turn < 300; turn++)
				drop(move(make(&seed), &seed));
			free(malloc(2000000));
			_exit(failures != 0);
		}
		if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
			failures++;
	}
	return NULL;
}

static int run_threads(int with_fork, int with_hoards)
{
	pthread_t threads[THREADS + 1];
	unsigned count = THREADS + (with_fork ? 1 : 0);

	hoards = with_hoards;
	pthread_barrier_init(&barrier, NULL, count);
	for (unsigned i = 0; i < count; i++)
		if (pthread_create(&threads[i], NULL, i < THREADS ? work : fork_often,
				   (void *)(uintptr_t)(i + 1)) != 0)
			return 84;
	for (unsigned i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 0; i < PLACES; i++)
		drop(shared[i]);
	return failures ? 85 : 0;
}

static int many_processes(unsigned count)
{
	unsigned well = 0;

	for (unsigned i = 0; i < count; i++) {
		pid_t child = fork();
		int status = -1;

		if (child == 0)
			_exit(run_threads(i % 2, i % 3));
		if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
			printf("child %u: status %#x\n", i, (unsigned)status);
			return 1;
		}
		well++;
	}
	printf("%u well\n", well);
	return 0;
}

static const char *allocator(void)
{
	const char *(*type)(void);

	*(void **)&type = dlsym(RTLD_DEFAULT, "mt_allocator_type");
	return type ? type() : "none";
}

/* ---- woken up by two threads at the same moment ---- */

static void *make_large(void *argument)
{
	static _Atomic unsigned arrived;
	char *volatile block;

	(void)argument;
	for (arrived++; arrived < 2;)
		continue;
	block = malloc((size_t)40 << 20);
	block[0] = 1;
	free(block);
	return NULL;
}

static int in_a_crowd(unsigned count)
{
	unsigned awake = 0;

	for (unsigned i = 0; i < count; i++) {
		pid_t child = fork();
		pthread_t threads[2];
		int status = -1;

		for (unsigned j = 0; child == 0 && j < 2; j++)
			pthread_create(&threads[j], NULL, make_large, NULL);
		for (unsigned j = 0; child == 0 && j < 2; j++)
			pthread_join(threads[j], NULL);
		if (child == 0)
			_exit(strcmp(allocator(), "jemalloc") != 0);
		waitpid(child, &status, 0);
		awake += status == 0;
	}
	printf("%u on jemalloc\n", awake);
	return 0;
}

/* ---- woken up inside libc's malloc ---- */

static char *top_page;

static void wake_in_fault(int sig)
{
	(void)sig;
	if (from_handler || mprotect(top_page, 4096, PROT_READ | PROT_WRITE) != 0)
		_exit(79);
	from_handler = malloc(2 << 20);
}

static void say(const char *text)
{
	printf("%s: %s\n", text, allocator());
}

static int by_break(void)
{
	static char *blocks[3000];

	for (unsigned i = 0; i < 3000; i++) {
		blocks[i] = malloc(2000);
		memset(blocks[i], (int)i, 2000);
		if (i % 100 == 0 && sbrk(4099 + i) == (void *)-1)
			return 86;
	}
	for (unsigned i = 0; i < 3000; i++) {
		if (blocks[i][1999] != (char)i)
			return 87;
		free(blocks[i]);
	}
	say("grown");
	return 0;
}

static void allocate(int sig)
{
	(void)sig;
	free(from_handler);
	from_handler = calloc(1, 3000);
}

static int with_handler(void)
{
	static char *blocks[4000];

	signal(SIGUSR2, allocate);
	for (unsigned i = 0; i < 4000; i++) {
		blocks[i] = malloc(2000);
		raise(SIGUSR2);
	}
	for (unsigned i = 0; i < 4000; i++)
		free(blocks[i]);
	free(from_handler);
	say("grown");
	return 0;
}

/* libc's malloc faults where it looks at the free rest of its heap, which is too small. Since the
 * program has moved the break the block then lies beyond what was libc's heap when the process woke
 * up. */
static int inside(void)
{
	char *last, *block;

	say("before"); /* its buffer is made */
	last = malloc(100000);
	top_page = (char *)((uintptr_t)(last + malloc_usable_size(last)) & ~(uintptr_t)4095);
	signal(SIGSEGV, wake_in_fault);
	if (sbrk(65536) == (void *)-1 || mprotect(top_page, 4096, PROT_NONE) != 0)
		return 77;
	block = malloc(250000);
	if (!from_handler)
		return 76;
	memset(block, 3, 250000);
	block = realloc(block, 300000);
	if (block[249999] != 3)
		return 75;
	free(block);
	free(from_handler);
	free(last);
	say("inside");
	return 0;
}

static void pairs(unsigned megabytes, unsigned pause_us)
{
	for (unsigned i = 0; i < megabytes; i++) {
		for (unsigned j = 0; j < 10000; j++)
			free(malloc(100));
		usleep(pause_us);
	}
}

static int pace(void)
{
	pairs(40, 50000);
	say("slow");
	pairs(40, 0);
	say("fast");
	return 0;
}

static int buffer(void)
{
	struct rusage used;

	for (unsigned i = 0; i < 500; i++) {
		char *grows = NULL;

		for (size_t bytes = 4096; bytes <= 600000; bytes *= 2) {
			grows = realloc(grows, bytes);
			memset(grows + bytes / 2, 1, bytes / 2);
		}
		free(grows);
		grows = malloc(950000);
		memset(grows, 1, 950000);
		free(grows);
	}
	for (unsigned i = 0; i < 200; i++) {
		char *grows = NULL;

		for (size_t bytes = 16384; bytes <= 1250000; bytes += 16384) {
			grows = realloc(grows, bytes);
			memset(grows + bytes - 16384, 1, 16384);
		}
		free(grows);
	}
	getrusage(RUSAGE_SELF, &used);
	puts(used.ru_minflt < 5000 ? "few page faults" : "many page faults");
	return 0;
}

static int mapped(void)
{
	memset(mmap(NULL, 32 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1,
	       32 << 20);
	pairs(40, 50000);
	say("slow");
	return 0;
}

static int small(void)
{
	static char *blocks[3000];
	struct mallinfo2 before = mallinfo2(), full;

	for (unsigned i = 0; i < 3000; i++)
		memset(blocks[i] = malloc(1000), 1, 1000);
	full = mallinfo2();
	say("3 MB");
	if (full.uordblks < before.uordblks + 3000000 || mallopt(M_TOP_PAD, 65536) != 1)
		return 88;
	for (unsigned i = 0; i < 3000; i++)
		free(blocks[i]);
	if (malloc_trim(0) != 1 || mallinfo2().uordblks > before.uordblks + 30000)
		return 89;
	say("trimmed");
	return 0;
}

static int large(void)
{
	void *block;

	say("before");
	block = malloc(2 << 20);
	say("2 MB");
	free(block);
	return 0;
}

/* As mt_stats writes them: the size, live, allocated and freed bytes. */
static uint64_t live_bytes(void)
{
	int (*stats)(uint64_t *);
	uint64_t now[4] = {sizeof(now)};

	*(void **)&stats = dlsym(RTLD_DEFAULT, "mt_stats");
	if (!stats || stats(now) != 0 || now[1] != now[2] - now[3])
		_exit(90);
	return now[1];
}

static int live(void)
{
	enum { COUNT = 8000, BYTES = 1000 };
	static char *blocks[COUNT];
	uint64_t before = live_bytes();
	const char *old;

	say("before");
	for (unsigned i = 0; i < COUNT; i++)
		memset(blocks[i] = malloc(BYTES), (int)i, BYTES);
	say("8 MB");
	printf("live %d\n", (int)((live_bytes() - before + 500000) / 1000000));
	old = blocks[0];
	if (old > (char *)sbrk(0) || blocks[COUNT - 1] < (char *)sbrk(0))
		return 91;
	for (unsigned i = 0; i < COUNT; i += 2) {
		blocks[i] = realloc(blocks[i], 2 * BYTES);
		if (blocks[i][BYTES - 1] != (char)i || malloc_usable_size(blocks[i]) < 2 * BYTES)
			return 92;
	}
	if (blocks[0] < (char *)sbrk(0))
		return 93;
	printf("live %d\n", (int)((live_bytes() - before + 500000) / 1000000));
	for (unsigned i = 0; i < COUNT; i++)
		free(blocks[i]);
	printf("live %d\n", (int)((live_bytes() - before + 500000) / 1000000));
	return 0;
}

/* Some are free before the process wakes up, inside libc's heap: the last one stays. */
static int old_blocks(void)
{
	enum { COUNT = 3500, BEFORE = 1300 };
	static char *blocks[COUNT];
	long full_kb, less_kb;

	for (unsigned i = 0; i < COUNT; i++)
		memset(blocks[i] = malloc(1000), 1, 1000);
	from_handler = malloc(100);
	for (unsigned i = 0; i < BEFORE; i++)
		free(blocks[i]);
	free(malloc(2 << 20));
	say("2 MB");
	full_kb = rollup_kb("Rss:");
	free(blocks[BEFORE]);
	less_kb = rollup_kb("Rss:");
	puts(full_kb - less_kb > 1000 ? "returned" : "kept");
	for (unsigned i = BEFORE + 1; i < COUNT; i++)
		free(blocks[i]);
	puts(less_kb - rollup_kb("Rss:") > 1000 ? "returned" : "kept");
	return 0;
}

static int with_mallopt(void)
{
	char *block;

	if (mallopt(M_MMAP_THRESHOLD, 16384) != 1)
		return 94;
	say("before");
	block = malloc(400000);
	memset(block, 7, 400000);
	say("400 kB");
	block = realloc(block, 600000);
	if (block[399999] != 7)
		return 95;
	free(block);
	return 0;
}

/* A page behind the heap's end, beyond which it cannot grow. */
static void block_break(void)
{
	uintptr_t end = ((uintptr_t)sbrk(0) + 4095) & ~(uintptr_t)4095;

	if (mmap((void *)end, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
		 -1, 0) != (void *)end)
		_exit(96);
}

static int grow_blocked(void)
{
	static char *blocks[3000];

	for (unsigned i = 0; i < 3000; i++) {
		blocks[i] = malloc(300 + i);
		memset(blocks[i], (int)i, 300 + i);
	}
	for (unsigned i = 0; i < 3000; i++) {
		blocks[i] = realloc(blocks[i], 600 + i);
		if (blocks[i][299 + i] != (char)i)
			return 97;
	}
	for (unsigned i = 0; i < 3000; i++)
		free(blocks[i]);
	say("grown");
	return 0;
}

static char *made_early;

static void at_preinit(int argc, char **argv, char **environment)
{
	(void)environment;
	if (argc < 2 || strcmp(argv[1], "early") != 0)
		return;
	block_break();
	made_early = malloc(3000);
	memset(made_early, 5, 3000);
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char **,
									      char **) = at_preinit;

static int early(void)
{
	made_early = realloc(made_early, 5000);
	if (made_early[2999] != 5)
		return 98;
	free(made_early);
	return grow_blocked();
}

static int blocked(void)
{
	block_break();
	return grow_blocked();
}

/* One block, and never a call of malloc again. */
static int one(void)
{
	char *volatile block = calloc(1, (size_t)40 << 20);
	struct stat tasks = {0};

	memset(block, 1, (size_t)40 << 20);
	stat("/proc/self/task", &tasks);
	free(block);
	printf("%u threads\n", (unsigned)tasks.st_nlink - 2);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} all[] = {
		{"small", small},    {"inside", inside},
		{"large", large},    {"live", live},
		{"break", by_break}, {"blocked", blocked},
		{"early", early},    {"handler", with_handler},
		{"old", old_blocks}, {"mallopt", with_mallopt},
		{"one", one},        {"pace", pace},
		{"mapped", mapped},  {"buffer", buffer},
	};
	const char *how = argc > 1 ? argv[1] : "";

	if (strcmp(how, "threads") == 0)
		return many_processes((unsigned)atoi(argv[2]));
	if (strcmp(how, "crowd") == 0)
		return in_a_crowd((unsigned)atoi(argv[2]));
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(how, all[i].name) == 0)
			return all[i].run();
	return 2;
}
