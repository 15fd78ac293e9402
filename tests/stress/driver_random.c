/* driver_random.c -- draws the operations, hands each to its thread and waits for it; see
 * driver_random.h. Arguments: trace file, seed, calls [, first episode, operations as
 * ",episode.operation,...,": only these]. Ends with 3 where a call did not return within HANG_S;
 * the trace then ends with this call. */
#include "driver_random.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { OPERATIONS = 120, HANG_S = 8, STACK_BYTES = 256 << 10, RECORDS = 1 << 18 };

enum order { NOTHING, MAKE, STORM, LEAVE, END, QUIT };

static struct worker {
	pthread_t thread;
	enum order order;
	struct draw draw;
	bool was_storm;
} workers[THREADS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ordered = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;

const char *volatile in_progress = "";
static int trace;
static struct record *records;
static size_t record_count;
static uint32_t episode, operation;
static _Thread_local unsigned int own_number;

uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void note(const char *name, uint64_t start_us, int code, uint64_t first, uint64_t second)
{
	struct record *record = &records[record_count];

	if (record_count == RECORDS)
		return;
	*record = (struct record){.episode = episode,
				  .operation = operation,
				  .code = code,
				  .us = (uint32_t)(now_us() - start_us),
				  .first = first,
				  .second = second,
				  .slot = (int8_t)current_slot(),
				  .thread = (uint8_t)own_number};
	strncpy(record->name, name, sizeof(record->name) - 1);
	record_count++;
}

static void *work(void *number)
{
	struct worker *self = &workers[(uintptr_t)number];

	own_number = (unsigned int)(uintptr_t)number;
	for (;;) {
		pthread_mutex_lock(&lock);
		while (self->order == NOTHING)
			pthread_cond_wait(&ordered, &lock);
		const enum order order = self->order;
		pthread_mutex_unlock(&lock);
		if (order == MAKE)
			self->was_storm = !calls_make(&self->draw);
		else if (order == STORM)
			storm_run(own_number);
		else if (order == LEAVE)
			calls_leave();
		else if (order == END)
			calls_end();
		pthread_mutex_lock(&lock);
		self->order = NOTHING;
		pthread_cond_broadcast(&done);
		pthread_mutex_unlock(&lock);
		if (order == QUIT)
			return NULL;
	}
}

/* On a stack of its own that is never used again: the driver takes a thread for the one that began
 * a capture by the address of its thread-local storage, which lies there. */
static void start(unsigned int number)
{
	pthread_attr_t attributes;
	void *stack =
		mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	pthread_attr_init(&attributes);
	pthread_attr_setstack(&attributes, stack, STACK_BYTES);
	if (stack == MAP_FAILED || pthread_create(&workers[number].thread, &attributes, work,
						  (void *)(uintptr_t)number) != 0)
		_exit(4);
	pthread_attr_destroy(&attributes);
}

static void end_trace(void)
{
	if (ftruncate(trace, (off_t)(record_count * sizeof(*records))) != 0)
		_exit(2);
}

static void give_up(void)
{
	note(in_progress, now_us() - HANG_S * 1000000ull, NO_ANSWER, 0, 0);
	end_trace();
	_exit(3);
}

/* Gives the order to the threads of the mask and waits until all of them are done. */
static void order(unsigned int mask, enum order what)
{
	struct timespec limit;
	unsigned int i;

	clock_gettime(CLOCK_REALTIME, &limit);
	limit.tv_sec += HANG_S;
	pthread_mutex_lock(&lock);
	for (i = 0; i < THREADS; i++)
		if (mask >> i & 1)
			workers[i].order = what;
	pthread_cond_broadcast(&ordered);
	for (i = 0; i < THREADS; i++)
		while (workers[i].order != NOTHING)
			if (pthread_cond_timedwait(&done, &lock, &limit) != 0)
				give_up();
	pthread_mutex_unlock(&lock);
}

static uint64_t mix(uint64_t value)
{
	value += 0x9e3779b97f4a7c15;
	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
	value = (value ^ value >> 27) * 0x94d049bb133111eb;
	return value ^ value >> 31;
}

static struct draw draw_of(uint64_t seed)
{
	const uint64_t start = mix(mix(mix(seed) + episode) + operation);
	const uint64_t first = mix(start + 1), second = mix(start + 2), third = mix(start + 3);

	return (struct draw){.kind = (uint32_t)first,
			     .thread = (uint32_t)(first >> 32) % THREADS,
			     .a = (uint32_t)second,
			     .b = (uint32_t)(second >> 32),
			     .c = (uint32_t)third,
			     .d = (uint32_t)(third >> 32)};
}

static void replace_thread(unsigned int number)
{
	order(1u << number, QUIT);
	pthread_join(workers[number].thread, NULL);
	start(number);
}

static void make(const struct draw *draw)
{
	const unsigned int number = draw->thread;

	workers[number].draw = *draw;
	order(1u << number, MAKE);
	if (workers[number].was_storm && storm_begin(draw)) {
		order((1u << THREADS) - 1, STORM);
		storm_end();
	}
	if (draw->d % 150 == 0)
		replace_thread(number);
}

static bool is_kept(const char *kept)
{
	char text[32];

	if (kept == NULL)
		return true;
	snprintf(text, sizeof(text), ",%u.%u,", episode, operation);
	return strstr(kept, text) != NULL;
}

static void run_episode(uint64_t seed, const char *kept)
{
	unsigned int i;

	for (operation = 0; operation < OPERATIONS; operation++) {
		const struct draw draw = draw_of(seed);

		if (is_kept(kept))
			make(&draw);
	}
	for (i = 0; i < THREADS; i++)
		order(1u << i, LEAVE);
	order(1, END);
}

int main(int argc, char **argv)
{
	trace = argc > 3 ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;
	const uint64_t seed = argc > 3 ? strtoull(argv[2], NULL, 10) : 0;
	const size_t calls = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	unsigned int i;

	if (trace < 0 || ftruncate(trace, RECORDS * sizeof(*records)) != 0)
		return 2;
	records = mmap(NULL, RECORDS * sizeof(*records), PROT_READ | PROT_WRITE, MAP_SHARED, trace,
		       0);
	if (records == MAP_FAILED)
		return 2;
	calls_set_up(seed);
	for (i = 0; i < THREADS; i++)
		start(i);
	/* Counted by operations, so that runs whose answers differ end at the same place. */
	episode = argc > 5 ? (uint32_t)strtoul(argv[4], NULL, 10) : 0;
	for (; (size_t)episode * OPERATIONS < calls; episode++)
		run_episode(seed, argc > 5 ? argv[5] : NULL);
	for (i = 0; i < THREADS; i++)
		order(1u << i, QUIT);
	end_trace();
	return 0;
}
