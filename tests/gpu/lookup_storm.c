/* Many threads whose first call of all is dlsym, at once, while libcuda.so.1 is already there: each
 * must get every answer right. Linked with the parts of the shim, so that a thread checker sees
 * into them. argv[1]: the driver. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "gpu/driver.h"
#include "gpu/lookup.h"

#define THREADS 8

static pthread_barrier_t gate;
static void *driver;
static int wrong;

static void *ask(void *unused)
{
	int bad = 0;

	(void)unused;
	pthread_barrier_wait(&gate);
	for (int i = 0; i < 300; i++) {
		bad += dlsym(driver, "cuMemFree_v2") !=
		       mt_lookup_entry(mt_lookup_index("cuMemFree_v2"));
		bad += !dlsym(RTLD_NEXT, "strtol");
		bad += dlsym(driver, "cuInit") == NULL;
		bad += dlvsym(driver, "cuNothing", "NONE_1") != NULL;
		bad += !mt_driver() || !mt_driver_usable();
	}
	__atomic_fetch_add(&wrong, bad, __ATOMIC_RELAXED);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];

	driver = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
	pthread_barrier_init(&gate, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, ask, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%d wrong\n", wrong);
	return wrong != 0;
}
