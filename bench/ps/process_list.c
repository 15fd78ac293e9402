/* bench/ps/process_list.c -- what `top` and `serve` pay to look at all processes once a second:
 * reads the process list COUNT times, GAP_MS apart, and prints the CPU time of one reading in us,
 * the first (which is what `mtctl ps` pays) left out. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ctl/channel/process_list.h"

static double cpu_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static size_t read_once(void)
{
	struct mt_process_list list;
	size_t count;

	mt_process_list_read(MT_PROCESS_LIST_SHOWN, &list);
	count = list.count;
	mt_process_list_free(&list);
	return count;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 10, gap_ms = argc > 2 ? atoi(argv[2]) : 1000;
	const struct timespec gap = {.tv_sec = gap_ms / 1000, .tv_nsec = gap_ms % 1000 * 1000000l};
	size_t processes = read_once();
	double spent = 0, begin;

	for (int i = 0; i < count; i++) {
		nanosleep(&gap, NULL);
		begin = cpu_us();
		processes = read_once();
		spent += cpu_us() - begin;
	}
	printf("%zu %.0f\n", processes, spent / (count ? count : 1));
	return 0;
}
