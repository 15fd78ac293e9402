/* pressure_frames.c ROUNDS -- a decoder's buffers of 1 to 12 MB: in each round all are taken,
 * filled and freed. Prints blocks, MB held at once and page faults. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define MB (1ul << 20)

static char *filled(size_t bytes)
{
	char *block = malloc(bytes);

	if (!block)
		exit(1);
	return memset(block, 1, bytes);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1;
	struct rusage use;

	for (int i = 0; i < rounds; i++) {
		char *frame = filled(6 * MB), *line = filled(2 * MB + (size_t)i * 3000);
		char *picture = filled(12 * MB), *small;

		free(frame);
		small = filled(MB);
		free(picture);
		free(line);
		free(small);
	}
	getrusage(RUSAGE_SELF, &use);
	printf("%d 20 %ld\n", 4 * rounds, use.ru_minflt);
	return 0;
}
