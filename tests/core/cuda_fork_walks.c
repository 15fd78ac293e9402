/* cuda_fork_walks.c FORKS -- uses CUDA, keeps the heap moving, and forks again and again; each
 * child goes through the loaded objects, as a dlopen or an exception would. Prints how many of them
 * came back. */
#include <dlfcn.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int visit(struct dl_phdr_info *info, size_t bytes, void *count)
{
	(void)info;
	(void)bytes;
	++*(int *)count;
	return 0;
}

static int call(void *driver, const char *name, uintptr_t first, uintptr_t second)
{
	int (*function)(uintptr_t, uintptr_t) =
		(int (*)(uintptr_t, uintptr_t))(uintptr_t)dlsym(driver, name);

	return function ? function(first, second) : -1;
}

int main(int argc, char **argv)
{
	const struct timespec pause = {.tv_nsec = 7000000};
	int forks = argc > 1 ? atoi(argv[1]) : 50, well = 0;
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	uint64_t dptr = 0;
	void *context = NULL;

	if (!driver || call(driver, "cuInit", 0, 0) != 0 ||
	    call(driver, "cuDevicePrimaryCtxRetain", (uintptr_t)&context, 0) != 0 ||
	    call(driver, "cuCtxSetCurrent", (uintptr_t)context, 0) != 0 ||
	    call(driver, "cuMemAlloc_v2", (uintptr_t)&dptr, 1 << 20) != 0)
		return 2;
	for (int i = 0; i < forks; i++) {
		char *block = malloc(3 << 20);
		int status = -1, objects = 0;
		pid_t child;

		memset(block, i, 3 << 20);
		free(block);
		child = fork();
		if (child == 0) {
			alarm(5);
			(void)dl_iterate_phdr(visit, &objects);
			_exit(objects > 1 ? 0 : 1);
		}
		while (waitpid(child, &status, 0) < 0)
			;
		well += status == 0;
		nanosleep(&pause, NULL);
	}
	printf("%d of %d\n", well, forks);
	return 0;
}
