/* phases.c -- what a second process sees of a program that uses much device memory, then little,
 * then nothing.
 *   phases sample MS           the second process: time (CLOCK_MONOTONIC, s) and free bytes by the
 *     driver's own cuMemGetInfo, read
 *                              every so many ms, a line when it changed and ten times a second;
 *                                until stdin ends
 *   phases idle SECONDS        the program: takes much, frees all but a sixteenth, works on with
 *     that for a second, waits
 *   phases signal COUNT        the program: takes much, frees it all, and a second later sends
 *     itself SIGUSR1; COUNT times
 *   phases keep PERCENT        allocates so much of what is free, frees it, says so, and waits for
 *     the end of stdin
 *   phases want PERCENT        allocates so much of the device: milliseconds, and the result
 *   phases total               bytes of the device, and those free
 * The programs say what they do in lines {"event": ..., "time": CLOCK_MONOTONIC in s}. */
#include "gpu.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 64, SAY_EVERY_MS = 100 };

static struct CUstream_st *stream;
static uint64_t blocks[BLOCKS];

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static void event(const char *name)
{
	printf("{\"event\": \"%s\", \"time\": %.6f, \"pid\": %d}\n", name, seconds(gpu_now_ns()),
	       (int)getpid());
	fflush(stdout);
}

static int sample(int every_ms)
{
	struct pollfd input = {STDIN_FILENO, POLLIN, 0};
	uint64_t said_ns = 0;
	uint64_t said = 0;

	while (poll(&input, 1, every_ms) == 0) {
		const uint64_t free_bytes = gpu_free_bytes();
		const uint64_t now = gpu_now_ns();

		if (free_bytes == said && now - said_ns < SAY_EVERY_MS * 1000000ull)
			continue;
		if (printf("%.6f %llu\n", seconds(now), (unsigned long long)free_bytes) < 0 ||
		    fflush(stdout) != 0)
			return 1;
		said = free_bytes;
		said_ns = now;
	}
	return 0;
}

/* A quarter of what is free, at most 4 GiB, in blocks of which none has the size of another. */
static size_t block_bytes(size_t number)
{
	static size_t mean;

	if (!mean) {
		const uint64_t quarter = gpu_free_bytes() / 4;

		mean = (quarter < (4ull << 30) ? quarter : 4ull << 30) / BLOCKS;
	}
	return (mean / 2 + mean * number / BLOCKS + 511) / 512 * 512;
}

static void take_all(void)
{
	for (size_t i = 0; i < BLOCKS; i++) {
		blocks[i] = gpu_alloc(block_bytes(i));
		gpu_ok(gpu_fill(stream, blocks[i], 512, 1));
	}
	gpu_ok(cu.cuCtxSynchronize());
}

static void free_from(size_t first)
{
	for (size_t i = first; i < BLOCKS; i++)
		gpu_ok(cu.cuMemFree_v2(blocks[i]));
}

/* As a program does between its large phases: the same few blocks, freed and taken again. */
static void work_with(size_t count, uint64_t ms)
{
	const uint64_t until = gpu_now_ns() + ms * 1000000;

	while (gpu_now_ns() < until) {
		for (size_t i = 0; i < count; i++) {
			gpu_ok(gpu_fill(stream, blocks[i], 512, 2));
			gpu_ok(cu.cuMemFree_v2(blocks[i]));
			blocks[i] = gpu_alloc(block_bytes(i));
		}
		gpu_sleep_ms(10);
	}
}

static void idle(uint64_t ms)
{
	const size_t kept = BLOCKS / 16;
	uint64_t kept_bytes = 0;

	for (size_t i = 0; i < kept; i++)
		kept_bytes += block_bytes(i);
	gpu_sleep_ms(300);
	event("start");
	take_all();
	work_with(BLOCKS, 300);
	gpu_ok(cu.cuCtxSynchronize());
	gpu_sleep_ms(200);
	free_from(kept);
	event("freed");
	work_with(kept, 1000);
	event("idle");
	gpu_sleep_ms(ms);
	event("end");
	printf("{\"kept_bytes\": %llu}\n", (unsigned long long)kept_bytes);
}

static void signals(unsigned long count)
{
	for (unsigned long i = 0; i < count; i++) {
		gpu_sleep_ms(300);
		event("start");
		take_all();
		gpu_sleep_ms(100);
		free_from(0);
		event("freed");
		gpu_sleep_ms(1000);
		event("signal");
		raise(SIGUSR1);
		gpu_sleep_ms(1200);
		event("end");
	}
	printf("{\"kept_bytes\": 0}\n");
}

/* In pieces, as no pool gives a part of a block. */
static void keep(double percent)
{
	const size_t bytes = (size_t)((double)gpu_free_bytes() * percent / 100 / BLOCKS);
	char rest[64];

	for (size_t i = 0; i < BLOCKS; i++)
		blocks[i] = gpu_alloc(bytes);
	free_from(0);
	event("kept");
	while (read(STDIN_FILENO, rest, sizeof rest) > 0)
		;
}

static void want(double percent)
{
	size_t free_bytes = 0;
	size_t total_bytes = 0;
	uint64_t begin;
	int code;

	gpu_ok(cu.cuMemGetInfo_v2(&free_bytes, &total_bytes));
	begin = gpu_now_ns();
	code = cu.cuMemAlloc_v2(&blocks[0], (size_t)((double)total_bytes * percent / 100));
	printf("{\"want_ms\": %.2f, \"code\": %d}\n", (double)(gpu_now_ns() - begin) / 1e6, code);
}

static int say_total(void)
{
	size_t free_bytes = 0;
	size_t total_bytes = 0;

	gpu_ok(cu.cuMemGetInfo_v2(&free_bytes, &total_bytes));
	printf("%zu %zu\n", total_bytes, free_bytes);
	return 0;
}

int main(int argc, char **argv)
{
	const double number = argc == 3 ? atof(argv[2]) : 0;

	if (argc == 2 && strcmp(argv[1], "total") == 0) {
		gpu_start();
		return say_total();
	}

	if (argc != 3 || number <= 0) {
		fprintf(stderr, "phases sample MS, phases idle SECONDS, phases signal COUNT, "
				"phases keep PERCENT, phases want PERCENT, phases total\n");
		return 2;
	}
	gpu_start();
	if (strcmp(argv[1], "sample") == 0)
		return sample((int)number);
	stream = gpu_stream(GPU_STREAM_NON_BLOCKING);
	if (strcmp(argv[1], "idle") == 0)
		idle((uint64_t)(number * 1000));
	else if (strcmp(argv[1], "keep") == 0)
		keep(number);
	else if (strcmp(argv[1], "want") == 0)
		want(number);
	else
		signals((unsigned long)number);
	return 0;
}
