/* cuda_puppet.c -- a CUDA program that does what it is told on stdin: one command a line, one
 * answer line each. Answers are the driver's results unless said otherwise.
 *
 *   alloc SLOT BYTES   cuMemAlloc into a slot         free SLOT    cuMemFree of what the slot last
 *     held, also again
 *   churn N BYTES      N alloc+free pairs
 *   storm SECONDS N    four threads alloc, fill, check, free; answers what was wrong; meanwhile N
 *     children are forked, one after
 *                      another, each frees the slots 0 to 9 and ends
 *   vmm SLOT BYTES     cuMemCreate                    release SLOT cuMemRelease
 *   map SLOT SLOT BYTES addresses into the first slot, and the second one's cuMemCreate memory
 *     mapped there
 *   unmap SLOT BYTES   takes both away again
 *   managed SLOT BYTES cuMemAllocManaged              async SLOT BYTES  cuMemAllocAsync, and a wait
 *   asyncfree SLOT     cuMemFreeAsync, and a wait     pitch SLOT BYTES  cuMemAllocPitch of one row
 *   array SLOT BYTES   cuArrayCreate                  unarray SLOT cuArrayDestroy
 *   capture MODE       begins on its own stream       uncapture    ends it
 *   replay             runs the captured graph once   record SLOT BYTES  a memset of the slot into
 *     the open capture
 *   fill SLOT BYTES V  writes                         check SLOT BYTES V  how many bytes differ
 *     from V
 *   same SLOT SLOT     1 where both hold one pointer  info         free bytes, as cuMemGetInfo says
 *   used DEVICE        bytes that the driver itself has lent of a device; misuses, refused: of its
 *     ledger (fake driver only)
 *   calls SYMBOL       how often the driver was entered there (fake driver only)
 *   deinit             the driver is from now on as at the end of a process (fake driver only)
 *   illegal            work that touches memory that is not there, and a wait
 *   delay US           work that takes so long, without a wait
 *   new                another context, made current  destroy      ends it; the primary one is
 *     current again
 *   reset RELEASES     cuDevicePrimaryCtxReset, or the last release, then a new primary context
 *   fork SLOT          the child's cuMemFree of the slot (its result), after which the child
 *     allocates nothing and ends
 *   ipc SLOT           cuIpcGetMemHandle              sync         cuCtxSynchronize
 *   raise N            raises signal N                exit N       exit(N) at once, with whatever
 *     lives */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../fakecuda/fakecuda.h"
#include "cuda_client.h"

#define SLOTS_COUNT 4096

static uint64_t slots[SLOTS_COUNT];
static void *stream, *graph, *executable, *primary, *other;
static unsigned char page[1 << 20];

/* ---- storm ---- */

static _Atomic bool is_over;
static _Atomic unsigned long stale_count;

static void *storm_thread(void *argument)
{
	unsigned char value = (unsigned char)(uintptr_t)argument, seen[4096];
	uint64_t blocks[8];

	cu.cuCtxSetCurrent(primary);
	while (!atomic_load(&is_over)) {
		for (int i = 0; i < 8; i++)
			if (cu.cuMemAlloc_v2(&blocks[i], 4096) != 0 ||
			    cu.cuMemsetD8_v2(blocks[i], value, 4096) != 0)
				atomic_fetch_add(&stale_count, 1);
		for (int i = 0; i < 8; i++) {
			int result = cu.cuMemcpyDtoH_v2(seen, blocks[i], 4096);

			for (int j = 0; j < 4096; j++)
				result |= seen[j] != value;
			atomic_fetch_add(&stale_count, result != 0);
			if (cu.cuMemFree_v2(blocks[i]) != 0)
				atomic_fetch_add(&stale_count, 1);
		}
	}
	return NULL;
}

/* A child of a program in the middle of everything: what the driver answers there is its own
 * business. */
static int forked_child(void)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		for (int i = 0; i < 10; i++)
			cu.cuMemFree_v2(slots[i]);
		free(malloc(1000));
		exit(0);
	}
	waitpid(child, &status, 0);
	return status != 0;
}

static double now_s(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static long storm(double seconds, long forks)
{
	pthread_t threads[4];
	double end = now_s() + seconds;
	long bad = 0;

	atomic_store(&is_over, false);
	for (uintptr_t i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, storm_thread, (void *)(i + 1));
	for (; forks > 0; forks--)
		bad += forked_child();
	while (now_s() < end)
		usleep(5000);
	atomic_store(&is_over, true);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	return (long)atomic_load(&stale_count) + bad;
}

/* ---- commands ---- */

static long churn(long count, size_t bytes)
{
	uint64_t block;
	long bad = 0;

	for (long i = 0; i < count; i++)
		bad += cu.cuMemAlloc_v2(&block, bytes) != 0 || cu.cuMemFree_v2(block) != 0;
	return bad;
}

static long vmm(uint64_t *slot, size_t bytes)
{
	const struct cuda_allocation_prop prop = {.type = 1, .location = {1, 0}};
	unsigned long long handle = 0;
	int result = cu.cuMemCreate(&handle, bytes, &prop, 0);

	*slot = handle;
	return result;
}

static long map(uint64_t *slot, unsigned long long handle, size_t bytes)
{
	int result = cu.cuMemAddressReserve(slot, bytes, 0, 0, 0);

	return result != 0 ? result : cu.cuMemMap(*slot, bytes, 0, handle, 0);
}

static long unmap(uint64_t dptr, size_t bytes)
{
	int result = cu.cuMemUnmap(dptr, bytes);

	return result != 0 ? result : cu.cuMemAddressFree(dptr, bytes);
}

static long array(uint64_t *slot, size_t bytes)
{
	const struct cuda_array description = {1024, bytes / 1024, 1, 1};
	void *made = NULL;
	int result = cu.cuArrayCreate_v2(&made, &description);

	*slot = (uint64_t)(uintptr_t)made;
	return result;
}

static long pitch(uint64_t *slot, size_t bytes)
{
	size_t unused;

	return cu.cuMemAllocPitch_v2(slot, &unused, bytes, 1, 4);
}

static long with_wait(int result)
{
	return result != 0 ? result : cu.cuStreamSynchronize(stream);
}

static long replay(void)
{
	int result = executable != NULL ? 0 : cu.cuGraphInstantiateWithFlags(&executable, graph, 0);

	return result != 0 ? result : with_wait(cu.cuGraphLaunch(executable, stream));
}

static long check(uint64_t dptr, size_t bytes, unsigned char value)
{
	long bad = 0;
	int result = cu.cuMemcpyDtoH_v2(page, dptr, bytes);

	for (size_t i = 0; i < bytes; i++)
		bad += page[i] != value;
	return result != 0 ? -result : bad;
}

static long info(void)
{
	size_t free_bytes = 0, total = 0;

	cu.cuMemGetInfo_v2(&free_bytes, &total);
	return (long)free_bytes;
}

static long new_context(void)
{
	return cu.cuCtxCreate_v2(&other, 0, 0);
}

static long destroy(void)
{
	int result = cu.cuCtxDestroy_v2(other);

	cu.cuCtxSetCurrent(primary);
	return result;
}

static long reset(bool releases)
{
	int result =
		releases ? cu.cuDevicePrimaryCtxRelease_v2(0) : cu.cuDevicePrimaryCtxReset_v2(0);

	cu.cuDevicePrimaryCtxRetain(&primary, 0);
	cu.cuCtxSetCurrent(primary);
	return result;
}

static long forked_free(uint64_t dptr)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0)
		exit(cu.cuMemFree_v2(dptr) & 0x7f);
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* ---- the fake driver's own figures ---- */

static struct {
	uint64_t (*used_bytes)(int device);
	uint64_t (*calls)(const char *symbol);
	void (*deinitialize)(void);
	void (*ledger)(struct fakecuda_ledger *out);
} fake;

static void find_fake(void)
{
	*(void **)&fake.used_bytes = dlsym(RTLD_DEFAULT, "fakecuda_used_bytes");
	*(void **)&fake.calls = dlsym(RTLD_DEFAULT, "fakecuda_calls");
	*(void **)&fake.deinitialize = dlsym(RTLD_DEFAULT, "fakecuda_deinitialize");
	*(void **)&fake.ledger = dlsym(RTLD_DEFAULT, "fakecuda_ledger");
}

static long obey_fake(const char *word, const char *symbol, long a)
{
	struct fakecuda_ledger ledger;

	fake.ledger(&ledger);
	if (strcmp(word, "used") == 0)
		return (long)fake.used_bytes((int)a);
	if (strcmp(word, "calls") == 0)
		return (long)fake.calls(symbol);
	if (strcmp(word, "misuses") == 0)
		return (long)ledger.misuses;
	if (strcmp(word, "refused") == 0)
		return (long)ledger.refused_frees;
	fake.deinitialize();
	return 0;
}

static bool is_fake_word(const char *word)
{
	static const char *const words[] = {"used", "calls", "misuses", "refused", "deinit"};
	bool found = false;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		found |= strcmp(word, words[i]) == 0;
	return found && fake.ledger != NULL;
}

/* A kernel of the fake driver's. */
static long launch(const char *kernel, unsigned int delay_us)
{
	void *module = NULL, *function = NULL, *parameters[] = {&delay_us};

	if (cu.cuModuleLoadData(&module, "any") != 0 ||
	    cu.cuModuleGetFunction(&function, module, kernel) != 0)
		return -1;
	return cu.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL);
}

static long obey(const char *word, long a, long b, long c)
{
	uint64_t *slot = &slots[(unsigned long)a % SLOTS_COUNT];
	struct cuda_ipc handle;

	if (strcmp(word, "alloc") == 0)
		return cu.cuMemAlloc_v2(slot, (size_t)b);
	if (strcmp(word, "free") == 0)
		return cu.cuMemFree_v2(*slot);
	if (strcmp(word, "churn") == 0)
		return churn(a, (size_t)b);
	if (strcmp(word, "vmm") == 0)
		return vmm(slot, (size_t)b);
	if (strcmp(word, "release") == 0)
		return cu.cuMemRelease(*slot);
	if (strcmp(word, "map") == 0)
		return map(slot, slots[(unsigned long)b % SLOTS_COUNT], (size_t)c);
	if (strcmp(word, "unmap") == 0)
		return unmap(*slot, (size_t)b);
	if (strcmp(word, "managed") == 0)
		return cu.cuMemAllocManaged(slot, (size_t)b, 1);
	if (strcmp(word, "async") == 0)
		return with_wait(cu.cuMemAllocAsync(slot, (size_t)b, stream));
	if (strcmp(word, "asyncfree") == 0)
		return with_wait(cu.cuMemFreeAsync(*slot, stream));
	if (strcmp(word, "pitch") == 0)
		return pitch(slot, (size_t)b);
	if (strcmp(word, "array") == 0)
		return array(slot, (size_t)b);
	if (strcmp(word, "unarray") == 0)
		return cu.cuArrayDestroy((void *)(uintptr_t)*slot);
	if (strcmp(word, "capture") == 0)
		return cu.cuStreamBeginCapture_v2(stream, (int)a);
	if (strcmp(word, "record") == 0)
		return cu.cuMemsetD8Async(*slot, (unsigned char)c, (size_t)b, stream);
	if (strcmp(word, "uncapture") == 0)
		return cu.cuStreamEndCapture(stream, &graph);
	if (strcmp(word, "replay") == 0)
		return replay();
	if (strcmp(word, "fill") == 0)
		return cu.cuMemsetD8_v2(*slot, (unsigned char)c, (size_t)b);
	if (strcmp(word, "check") == 0)
		return check(*slot, (size_t)b, (unsigned char)c);
	if (strcmp(word, "same") == 0)
		return *slot == slots[(unsigned long)b % SLOTS_COUNT];
	if (strcmp(word, "info") == 0)
		return info();
	if (strcmp(word, "new") == 0)
		return new_context();
	if (strcmp(word, "destroy") == 0)
		return destroy();
	if (strcmp(word, "reset") == 0)
		return reset(a != 0);
	if (strcmp(word, "fork") == 0)
		return forked_free(*slot);
	if (strcmp(word, "ipc") == 0)
		return cu.cuIpcGetMemHandle(&handle, *slot);
	if (strcmp(word, "illegal") == 0)
		return launch(FAKECUDA_KERNEL_ILLEGAL, 0) ? -1 : cu.cuStreamSynchronize(stream);
	if (strcmp(word, "delay") == 0)
		return launch(FAKECUDA_KERNEL_DELAY, (unsigned int)a);
	if (strcmp(word, "sync") == 0)
		return cu.cuCtxSynchronize();
	if (strcmp(word, "raise") == 0)
		return raise((int)a);
	if (strcmp(word, "exit") == 0)
		exit((int)a);
	return -1000;
}

int main(void)
{
	char line[128], word[32], symbol[64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (cuda_client_start("global") != 0 || cu.cuInit(0) != 0 ||
	    cu.cuDevicePrimaryCtxRetain(&primary, 0) != 0 || cu.cuCtxSetCurrent(primary) != 0 ||
	    cu.cuStreamCreate(&stream, 1) != 0)
		return 2;
	find_fake();
	while (fgets(line, sizeof(line), stdin) != NULL) {
		double seconds = 0;
		long a = 0, b = 0, c = 0;

		symbol[0] = 0;
		sscanf(line, "%31s %63s", word, symbol);
		sscanf(line, "%*s %ld %ld %ld", &a, &b, &c);
		if (strcmp(word, "storm") == 0 && sscanf(line, "%*s %lf %ld", &seconds, &b) >= 1)
			printf("%ld\n", storm(seconds, b));
		else if (is_fake_word(word))
			printf("%ld\n", obey_fake(word, symbol, a));
		else
			printf("%ld\n", obey(word, a, b, c));
	}
	return 0;
}
