/* Prints the faults of a child that is forked and ends. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	struct rusage usage;

	free(malloc(1000));
	for (int i = 0; i < 50; i++) {
		if (fork() == 0)
			_exit(0);
		wait(NULL);
	}
	getrusage(RUSAGE_CHILDREN, &usage);
	printf("%ld", usage.ru_minflt / 50);
	return 0;
}
