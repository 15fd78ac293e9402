/* ids_in_child.c -- while one thread opens and closes libraries without rest, the other makes children by _Fork, which runs
 * no handlers and makes no lock of the loader's anew. Each sets its group id to what it is, which any child may do. argv: how
 * many. Prints how many of them came back. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_S 5

static void *load(void *unused)
{
	for (;;) {
		void *library = dlopen("libutil.so.1", RTLD_NOW);

		if (library)
			dlclose(library);
	}
	return unused;
}

static int comes_back(void)
{
	int status = -1;
	pid_t child = _Fork();

	if (child == 0) {
		alarm(PATIENCE_S);
		_exit(setgid(getgid()) != 0);
	}
	return waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv)
{
	int wanted = argc > 1 ? atoi(argv[1]) : 1;
	int well = 0;
	pthread_t thread;

	if (pthread_create(&thread, NULL, load, NULL) != 0)
		return 2;
	usleep(20000); /* libc waits, in such a child for ever, for a thread that is just being born */
	while (well < wanted && comes_back())
		well++;
	printf("%d of %d\n", well, wanted);
	fflush(stdout);
	_exit(0);
}
