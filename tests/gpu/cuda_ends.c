/* cuda_ends.c -- contexts that begin and end while the pool keeps blocks and the device works: the
 * fake driver's orders make the moments. Usage: cuda_ends WORD. Exit 0 and `fine`; 4 with what went
 * wrong; 1 where the driver answers an error. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "cuda_client.h"

#define HOLD_MS 600
#define BYTES   ((size_t)4 << 20)

static int (*set_latency)(const char *symbol, unsigned int us);
static uint64_t (*count_calls)(const char *symbol);
static unsigned char page[BYTES];
static void *ours, *other;
static _Atomic bool is_let_go;

static void hold(void *unused)
{
	(void)unused;
	for (int i = 0; i < HOLD_MS && !atomic_load(&is_let_go); i++)
		usleep(1000);
}

static uint64_t allocate(void)
{
	uint64_t dptr = 0;

	OK(cu.cuMemAlloc_v2(&dptr, BYTES));
	return dptr;
}

static void *destroy_other(void *unused)
{
	(void)unused;
	OK(cu.cuCtxDestroy_v2(other));
	return NULL;
}

static void expect_free(uint64_t block, bool is_drivers)
{
	uint64_t before = count_calls("cuMemFree_v2");

	OK(cu.cuMemFree_v2(block));
	EXPECT(count_calls("cuMemFree_v2") == before + is_drivers);
}

/* Work of another context may use our blocks, also if that context allocates nothing, and no event
 * of ours sees it. A free while another context is current is the driver's, too. */
static void beside_another(void)
{
	uint64_t block;

	OK(cu.cuDevicePrimaryCtxRetain(&ours, 0));
	OK(cu.cuCtxSetCurrent(ours));
	expect_free(allocate(), false);
	OK(cu.cuCtxCreate_v2(&other, 0, 0));
	OK(cu.cuCtxSetCurrent(ours));
	expect_free(allocate(), true);
	OK(cu.cuCtxDestroy_v2(other));
	block = allocate();
	OK(cu.cuCtxCreate_v2(&other, 0, 1));
	expect_free(block, true);
	OK(cu.cuCtxSetCurrent(ours));
	expect_free(allocate(), false);
	OK(cu.cuCtxSetCurrent(other));
	OK(cu.cuCtxEnablePeerAccess(ours, 0));
	OK(cu.cuCtxSetCurrent(ours));
	expect_free(allocate(), true);
}

/* The worker's thread asks for the device's primary context, and meanwhile ours ends. */
static void destroyed_under_the_worker(void)
{
	uint64_t block, calls;

	OK(cu.cuCtxCreate_v2(&ours, 0, 0));
	block = allocate();
	OK(cu.cuDevicePrimaryCtxRetain(&other, 0));
	set_latency("cuDevicePrimaryCtxRetain", 100000);
	calls = count_calls("cuDevicePrimaryCtxRetain");
	OK(cu.cuMemFree_v2(block));
	for (int i = 0; i < 25000 && count_calls("cuDevicePrimaryCtxRetain") == calls; i++)
		usleep(200);
	EXPECT(count_calls("cuDevicePrimaryCtxRetain") != calls);
	OK(cu.cuCtxDestroy_v2(ours));
}

static void *release_primary(void *unused)
{
	(void)unused;
	OK(cu.cuDevicePrimaryCtxRelease_v2(0));
	return NULL;
}

/* One thread releases the primary context for good while another one's cuCtxDestroy makes the shim
 * ask which one is primary. */
static void released_while_asked_for(void)
{
	uint64_t block, second, later;
	pthread_t thread;
	void *popped;

	OK(cu.cuDevicePrimaryCtxRetain(&ours, 0));
	OK(cu.cuCtxSetCurrent(ours));
	block = allocate();
	second = allocate();
	OK(cu.cuMemFree_v2(block));
	OK(cu.cuMemFree_v2(second));
	later = allocate(); /* asks for both: the other one is ready */
	EXPECT(later == block || later == second);
	OK(cu.cuCtxCreate_v2(&other, 0, 0));
	OK(cu.cuCtxPopCurrent_v2(&popped));
	OK(cu.cuCtxSetCurrent(NULL));
	set_latency("cuDevicePrimaryCtxRelease_v2", 200000);
	pthread_create(&thread, NULL, release_primary, NULL);
	usleep(300000);
	OK(cu.cuCtxDestroy_v2(other));
	pthread_join(thread, NULL);
	set_latency("cuDevicePrimaryCtxRelease_v2", 0);
	OK(cu.cuDevicePrimaryCtxRetain(&ours, 0));
	OK(cu.cuCtxSetCurrent(ours));
	later = allocate();
	EXPECT(later != block && later != second);
	OK(cu.cuMemcpyHtoD_v2(later, page, BYTES));
}

/* What a context had is forgotten with the last detach, and not before. */
static void detached(void)
{
	uint64_t block, before;

	OK(cu.cuCtxCreate_v2(&ours, 0, 0));
	OK(cu.cuCtxCreate_v2(&other, 0, 1));
	block = allocate();
	OK(cu.cuMemFree_v2(block));
	EXPECT(allocate() == block);
	OK(cu.cuMemFree_v2(block));
	OK(cu.cuCtxAttach(&other, 0));
	OK(cu.cuCtxDetach(other));
	before = count_calls("cuMemAlloc_v2");
	EXPECT(allocate() == block && count_calls("cuMemAlloc_v2") == before);
	OK(cu.cuCtxDetach(other));
	OK(cu.cuCtxSetCurrent(ours));
	EXPECT(cu.cuMemFree_v2(block) == 1); /* the driver's answer: it is nobody's */
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void hold_until_let_go(void *unused)
{
	(void)unused;
	for (int i = 0; i < 6000 && !atomic_load(&is_let_go); i++)
		usleep(1000);
}

/* The worker gives an idle block back, in a driver whose cuMemFree waits for all work of the
 * context; the work waits for us. */
static void destroyed_beside_a_decay(void)
{
	uint64_t first, second;
	double began;
	void *stream;

	OK(cu.cuCtxCreate_v2(&other, 0, 1));
	OK(cu.cuCtxCreate_v2(&ours, 0, 0));
	OK(cu.cuStreamCreate(&stream, 1));
	first = allocate();
	second = allocate();
	OK(cu.cuMemFree_v2(first));
	OK(cu.cuMemFree_v2(second));
	/* one of the two; with it the other is known to be ready, before the work begins */
	(void)allocate();
	OK(cu.cuLaunchHostFunc(stream, hold_until_let_go, NULL));
	usleep(1200000);
	began = seconds();
	OK(cu.cuCtxDestroy_v2(other));
	EXPECT(seconds() - began < 2);
	atomic_store(&is_let_go, true);
}

/* The same in a primary context that somebody else has retained too: its release ends nothing. */
static void released_beside_a_decay(void)
{
	uint64_t first, second;
	double began;
	void *stream;

	OK(cu.cuDevicePrimaryCtxRetain(&ours, 0));
	OK(cu.cuDevicePrimaryCtxRetain(&other, 0));
	OK(cu.cuCtxSetCurrent(ours));
	OK(cu.cuStreamCreate(&stream, 1));
	first = allocate();
	second = allocate();
	OK(cu.cuMemFree_v2(first));
	OK(cu.cuMemFree_v2(second));
	(void)allocate();
	OK(cu.cuLaunchHostFunc(stream, hold_until_let_go, NULL));
	usleep(1200000);
	began = seconds();
	OK(cu.cuDevicePrimaryCtxRelease_v2(0));
	EXPECT(seconds() - began < 1);
	atomic_store(&is_let_go, true);
	OK(cu.cuStreamSynchronize(stream));
	first = allocate();
	OK(cu.cuMemFree_v2(first));
	OK(cu.cuDevicePrimaryCtxRelease_v2(0));
	OK(cu.cuDevicePrimaryCtxRetain(&ours, 0));
	OK(cu.cuCtxSetCurrent(ours));
	EXPECT(cu.cuMemFree_v2(first) == 1); /* it went with the last release */
}

static int (*release_slowly)(int device);

static void *release_first(void *unused)
{
	(void)unused;
	OK(release_slowly(0));
	return NULL;
}

/* Two releases in two threads, and the one that began as the last but one reaches the driver last.
 */
static void released_in_two_threads(void)
{
	uint64_t block, later;
	pthread_t thread;

	*(void **)&release_slowly =
		dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuDevicePrimaryCtxRelease");
	OK(cu.cuDevicePrimaryCtxRetain(&ours, 0));
	OK(cu.cuDevicePrimaryCtxRetain(&other, 0));
	OK(cu.cuCtxSetCurrent(ours));
	block = allocate();
	OK(cu.cuMemFree_v2(block));
	EXPECT(allocate() == block);
	OK(cu.cuMemFree_v2(block));
	set_latency("cuDevicePrimaryCtxRelease", 300000);
	pthread_create(&thread, NULL, release_first, NULL);
	usleep(100000);
	OK(cu.cuDevicePrimaryCtxRelease_v2(0));
	pthread_join(thread, NULL);
	OK(cu.cuDevicePrimaryCtxRetain(&ours, 0));
	OK(cu.cuCtxSetCurrent(ours));
	later = allocate();
	EXPECT(later != block);
	OK(cu.cuMemcpyHtoD_v2(later, page, BYTES));
}

/* A release that is not the last has its thread cancelled in the driver: the last one returns. */
static void released_by_a_cancelled_thread(void)
{
	pthread_t thread;

	*(void **)&release_slowly =
		dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuDevicePrimaryCtxRelease");
	OK(cu.cuDevicePrimaryCtxRetain(&ours, 0));
	OK(cu.cuDevicePrimaryCtxRetain(&other, 0));
	set_latency("cuDevicePrimaryCtxRelease", 300000);
	pthread_create(&thread, NULL, release_first, NULL);
	usleep(100000);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	OK(cu.cuDevicePrimaryCtxRelease_v2(0));
}

static void *begin_capture(void *stream)
{
	OK(cu.cuCtxSetCurrent(ours));
	OK(cu.cuStreamBeginCapture_v2(stream, 2));
	return NULL;
}

/* A thread is cancelled in the driver when it begins a capture: after its end blocks are cached. */
static void captured_by_a_cancelled_thread(void)
{
	uint64_t block;
	pthread_t thread;
	void *stream, *graph;

	OK(cu.cuDevicePrimaryCtxRetain(&ours, 0));
	OK(cu.cuCtxSetCurrent(ours));
	OK(cu.cuStreamCreate(&stream, 1));
	block = allocate();
	set_latency("cuStreamBeginCapture_v2", 300000);
	pthread_create(&thread, NULL, begin_capture, stream);
	usleep(100000);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	OK(cu.cuStreamEndCapture(stream, &graph));
	expect_free(block, false);
}

static void *make_by_gl(void *unused)
{
	(void)unused;
	OK(cu.cuGLCtxCreate_v2(&other, 0, 0));
	return NULL;
}

static void *make_by_vdpau(void *unused)
{
	(void)unused;
	OK(cu.cuVDPAUCtxCreate_v2(&other, 0, 0, 1, NULL));
	return NULL;
}

static void made_otherwise(void *(*make)(void *))
{
	OK(cu.cuDevicePrimaryCtxRetain(&ours, 0));
	OK(cu.cuCtxSetCurrent(ours));
	make(NULL);
	OK(cu.cuCtxSetCurrent(ours));
	expect_free(allocate(), true);
}

static void made_by_gl(void)
{
	made_otherwise(make_by_gl);
}

static void made_by_vdpau(void)
{
	made_otherwise(make_by_vdpau);
}

static void out_of_memory_beside_an_end(void)
{
	uint64_t half, rest;
	pthread_t thread;
	void *stream;

	OK(cu.cuCtxCreate_v2(&other, 0, 1));
	OK(cu.cuStreamCreate(&stream, 1));
	OK(cu.cuCtxCreate_v2(&ours, 0, 0));
	OK(cu.cuMemAlloc_v2(&half, 20 << 20));
	OK(cu.cuMemAlloc_v2(&rest, 20 << 20));
	OK(cu.cuMemFree_v2(rest));
	OK(cu.cuMemFree_v2(half));
	OK(cu.cuMemAlloc_v2(&half, 20 << 20));
	OK(cu.cuLaunchHostFunc(stream, hold, NULL));
	pthread_create(&thread, NULL, destroy_other, NULL);
	usleep(200000);
	OK(cu.cuMemAlloc_v2(&rest, 40 << 20)); /* of 64: what is cached has to go first */
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *word;
		void (*run)(void);
	} words[] = {
		{"beside_another", beside_another},
		{"destroyed_under_the_worker", destroyed_under_the_worker},
		{"released_while_asked_for", released_while_asked_for},
		{"detached", detached},
		{"destroyed_beside_a_decay", destroyed_beside_a_decay},
		{"released_beside_a_decay", released_beside_a_decay},
		{"released_in_two_threads", released_in_two_threads},
		{"released_by_a_cancelled_thread", released_by_a_cancelled_thread},
		{"captured_by_a_cancelled_thread", captured_by_a_cancelled_thread},
		{"made_by_gl", made_by_gl},
		{"made_by_vdpau", made_by_vdpau},
		{"out_of_memory_beside_an_end", out_of_memory_beside_an_end},
	};
	void *driver;

	if (argc < 2 || cuda_client_start("local") != 0)
		return 3;
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	*(void **)&set_latency = dlsym(driver, "fakecuda_latency");
	*(void **)&count_calls = dlsym(driver, "fakecuda_calls");
	OK(cu.cuInit(0));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(argv[1], words[i].word) != 0)
			continue;
		words[i].run();
		puts("fine");
		return 0;
	}
	return 2;
}
