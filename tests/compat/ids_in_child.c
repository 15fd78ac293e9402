/* ids_in_child.c -- while one thread opens and closes libraries without rest, the other makes
 * children by _Fork, which runs no handlers and makes no lock of the loader's again. Each sets its
 * group id to what it is, which any child may do. argv: how many. Prints how many of them came
 * back, and how the first that did not has ended, as waitpid says it. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_S 20

static atomic_bool loads;

static void *load(void *unused)
{
	loads = 1;
	for (;;) {
		void *library = dlopen("libutil.so.1", RTLD_NOW);

		if (library)
			dlclose(library);
	}
	return unused;
}

static int end_of_a_child(void)
{
	int status = -1;
	pid_t child = _Fork();

	if (child == 0) {
		alarm(PATIENCE_S);
		_exit(setgid(getgid()) != 0);
	}
	return waitpid(child, &status, 0) == child ? status : -1;
}

int main(int argc, char **argv)
{
	int wanted = argc > 1 ? atoi(argv[1]) : 1;
	int well = 0, end = 0;
	pthread_t thread;

	if (pthread_create(&thread, NULL, load, NULL) != 0)
		return 2;
	/* libc waits, in such a child for ever, for a thread that is just being born. */
	while (!loads)
		usleep(1000);
	while (well < wanted && (end = end_of_a_child()) == 0)
		well++;
	if (end)
		printf("status %d after ", end);
	printf("%d of %d\n", well, wanted);
	fflush(stdout);
	_exit(0);
}
