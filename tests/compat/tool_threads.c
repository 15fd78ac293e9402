/* Threads that allocate and call what the shim wraps, for a thread checker. There is a Python in
 * the program, as far as the shim can see. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int Py_IsInitialized(void);

int Py_IsInitialized(void)
{
	return 0;
}

static void handle(int number)
{
	(void)number;
}

static void *work(void *argument)
{
	const struct sigaction action = {.sa_handler = handle};

	for (size_t i = 1; i < 50; i++) {
		char *block = malloc(i * 1000);

		memset(block, 1, i * 1000);
		block = realloc(block, i * 2000);
		free(block);
		(void)getenv("HOME");
		(void)sigaction(SIGUSR2, &action, NULL);
	}
	fclose(fopen("/proc/self/stat", "r"));
	return argument;
}

int main(void)
{
	const struct timespec pause = {.tv_nsec = 200 * 1000 * 1000};
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, work, NULL);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	nanosleep(&pause, NULL);
	puts("ends");
	return 0;
}
