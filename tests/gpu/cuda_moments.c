/* cuda_moments.c -- awkward moments of a CUDA program's life. Linked to nothing of the driver's.
 *
 *   constructor PLUGIN  the process's first allocations: one in the constructor of a library that
 *     is being opened, the other in
 *                       another thread that comes first and so has to wait for the loader; answers
 *                         both results
 *   exit                ends with blocks that will soon be due to go back
 *   inside              ends while they do
 *                       Both answer how often the driver was entered for it once the exit handlers
 *                         have come to those that were there
 *                       before the first allocation: by then it takes itself down. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "../fakecuda/fakecuda.h"
#include "cuda_client.h"

static void *context;
static _Atomic bool is_inside;

static int allocate(void)
{
	uint64_t block;

	cu.cuCtxSetCurrent(context);
	return cu.cuMemAlloc_v2(&block, 4096);
}

/* Called by the plugin's constructor. */
void cuda_moments_constructor(void);
void cuda_moments_constructor(void)
{
	atomic_store(&is_inside, true);
	usleep(200000);
	printf("constructor: %d\n", allocate());
}

static void *open_plugin(void *path)
{
	if (dlopen(path, RTLD_NOW) == NULL)
		fprintf(stderr, "%s\n", dlerror());
	return NULL;
}

static void in_constructor(char *path)
{
	pthread_t thread;

	pthread_create(&thread, NULL, open_plugin, path);
	while (!atomic_load(&is_inside))
		usleep(100);
	printf("thread: %d\n", allocate());
	pthread_join(thread, NULL);
}

static uint64_t (*calls)(const char *symbol);

static uint64_t driver_calls(void)
{
	return calls("cuMemFree_v2") + calls("cuMemFreeAsync") + calls("cuStreamQuery") +
	       calls("cuCtxSetCurrent") + calls("cuCtxPushCurrent_v2") + calls("cuMemGetInfo_v2") +
	       calls("cuEventQuery") + calls("cuThreadExchangeStreamCaptureMode") +
	       calls("cuDevicePrimaryCtxGetState");
}

/* Where the driver takes itself down. */
static void tear_down(void)
{
	uint64_t before = driver_calls();

	usleep(600000);
	printf("late calls: %d\n", (int)(driver_calls() - before));
}

static void at_exit(bool inside)
{
	uint64_t blocks[64];

	*(void **)&calls = dlsym(RTLD_DEFAULT, "fakecuda_calls");
	atexit(tear_down);
	for (int i = 0; i < 64; i++)
		cu.cuMemAlloc_v2(&blocks[i], 4 << 20);
	for (int i = 0; i < 64; i++)
		cu.cuMemFree_v2(blocks[i]);
	while (inside && calls("cuMemFreeAsync") == 0)
		usleep(1000);
}

int main(int count, char **words)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (count < 2 || cuda_client_start("global") != 0 || cu.cuInit(0) != 0 ||
	    cu.cuDevicePrimaryCtxRetain(&context, 0) != 0 || cu.cuCtxSetCurrent(context) != 0)
		return 2;
	if (strcmp(words[1], "constructor") == 0)
		in_constructor(words[2]);
	else
		at_exit(strcmp(words[1], "inside") == 0);
	return 0;
}
