/* dlsym.c -- what one dlsym costs, by the fastest of many batches: of a name of libc, and of one
 * that begins like the driver's (cuserid, which libc has too). By libc's handle: with RTLD_DEFAULT
 * the loader would look through one library more under any preload, whatever that does. */
#include <dlfcn.h>

#include "workload.h"

#define BATCH 2000u

static double fastest_ns(void *handle, const char *name, size_t batches)
{
	double fastest = 1e9;

	for (size_t i = 0; i < batches; i++) {
		uint64_t began = now_ns();
		double each;

		for (size_t call = 0; call < BATCH; call++)
			keep_block(dlsym(handle, name));
		each = (double)(now_ns() - began) / BATCH;
		if (each < fastest)
			fastest = each;
	}
	return fastest;
}

int main(int argc, char **argv)
{
	size_t batches = option_count(argc, argv, "--batches", 300);
	void *libc = dlopen("libc.so.6", RTLD_NOW);

	if (!libc || !dlsym(libc, "strtol") || !dlsym(libc, "cuserid"))
		return 1;
	printf("{\"ns_plain\": %.2f, ", fastest_ns(libc, "strtol", batches));
	printf("\"ns_cu\": %.2f}\n", fastest_ns(libc, "cuserid", batches));
	return 0;
}
