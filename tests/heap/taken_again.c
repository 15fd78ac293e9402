/* taken_again HOW BYTES: takes 192 MB in blocks of so many bytes, writes and frees them, and takes
 * as many again by malloc or calloc (HOW), of which it uses one byte each. Prints the MB by which
 * the resident memory is larger than at the start.
 * HOW fill: all are taken before the first is written, 12 times. Prints the page faults of the last
 * 4 rounds. HOW part: one block is taken, 40 % of it written, and freed, again and again. Prints
 * the page faults. HOW queue: the oldest block is freed, a new one taken, and its first 4 kB
 * written, 100 times for each block. Prints the page faults of the second half. HOW rounds: as
 * malloc, but after 12 rounds of either use. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define TOTAL_BYTES (192 << 20)
#define ROUNDS      12
#define LAST        4

static char **blocks;
static size_t count, bytes;

static long rss_kb(void)
{
	char line[256];
	long kb = 0;
	FILE *rollup = fopen("/proc/self/smaps_rollup", "r");

	while (rollup && !kb && fgets(line, sizeof line, rollup))
		sscanf(line, "Rss: %ld", &kb);
	if (rollup)
		fclose(rollup);
	return kb;
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

static void take(int zeroed)
{
	for (size_t i = 0; i < count; i++) {
		blocks[i] = zeroed ? calloc(1, bytes) : malloc(bytes);
		if (!blocks[i])
			exit(1);
	}
}

static void fill(void)
{
	for (size_t i = 0; i < count; i++)
		memset(blocks[i], (int)i | 1, bytes);
}

static void check(void)
{
	for (size_t i = 0; i < count; i++)
		for (size_t at = 0; at < bytes; at += 64)
			if (blocks[i][at] != (char)(i | 1))
				exit(3);
}

static void drop(void)
{
	for (size_t i = count; i-- > 0;)
		free(blocks[i]);
}

static void print_queue(void)
{
	long before = 0;

	take(0);
	for (size_t i = 0; i < 100 * count; i++) {
		if (i == 50 * count)
			before = faults();
		free(blocks[i % count]);
		blocks[i % count] = malloc(bytes);
		if (!blocks[i % count])
			exit(1);
		memset(blocks[i % count], 1, 4096);
	}
	printf("%ld\n", faults() - before);
}

static void print_part(void)
{
	long before = faults();

	for (size_t i = 0; i < 20 * count; i++) {
		char *block = malloc(bytes);

		if (!block)
			exit(1);
		memset(block, 1, bytes / 5 * 2);
		free(block);
	}
	printf("%ld\n", faults() - before);
}

int main(int argc, char **argv)
{
	long before = rss_kb(), before_last = 0;
	int zeroed = argc > 1 && !strcmp(argv[1], "calloc");

	bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000000;
	count = TOTAL_BYTES / bytes;
	blocks = calloc(count, sizeof *blocks);
	if (!strcmp(argv[1], "fill")) {
		for (int round = 0; round < ROUNDS; round++) {
			if (round == ROUNDS - LAST)
				before_last = faults();
			take(0);
			fill();
			check();
			drop();
		}
		printf("%ld\n", faults() - before_last);
		return 0;
	}
	take(0);
	fill();
	drop();
	for (int round = 0; round < ROUNDS && !strcmp(argv[1], "rounds"); round++) {
		take(0);
		for (size_t i = 0; i < count; i++)
			blocks[i][0] = 1;
		drop();
		take(0);
		fill();
		drop();
	}
	if (!strcmp(argv[1], "part")) {
		print_part();
		return 0;
	}
	if (!strcmp(argv[1], "queue")) {
		print_queue();
		return 0;
	}
	take(zeroed);
	for (size_t i = 0; i < count; i++)
		blocks[i][0] = 1;
	before = (rss_kb() - before) / 1024;
	for (size_t i = 0; zeroed && i < count; i++)
		for (size_t at = 1; at < bytes; at++)
			if (blocks[i][at])
				return 2;
	printf("%ld\n", before);
	return 0;
}
