/* driver_random.h -- a drawn sequence of calls to the CUDA driver, the same with and without the
 * shim. driver_random.c hands the operations to threads one after the other and writes the trace,
 * driver_random_calls.c makes the calls. Everything that an operation does follows from its draw
 * and from the results of the calls before it in its episode, so two runs with the same seed differ
 * only where the driver's answers differ. */
#ifndef DRIVER_RANDOM_H
#define DRIVER_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../fakecuda/api.h"
#include "../fakecuda/fakecuda.h"

enum { THREADS = 4, DEVICES = 2, STORM_ROUNDS = 40, NO_ANSWER = -1, NOT_RUN = -2 };

/* One call as it is written to the trace; driver_random.py reads these 64 bytes. */
struct record {
	uint32_t episode;
	uint32_t operation; /* of the episode */
	/* the call's result; NO_ANSWER: it had not returned when the run was given up */
	int32_t code;
	uint32_t us;
	uint64_t first, second; /* what tells the call apart: sizes, slots, counts */
	char name[30];
	int8_t slot; /* of the context that is current after the call, -1: none */
	uint8_t thread;
};

/* What an operation is made of: all of it is drawn before, none of it depends on what calls
 * answered. */
struct draw {
	unsigned int kind;
	unsigned int thread;
	uint32_t a, b, c, d;
};

/* Called by the thread that makes the call, between two calls. in_progress: the name for the record
 * of a call that never returns. */
extern const char *volatile in_progress;
uint64_t now_us(void);
void note(const char *name, uint64_t start_us, int code, uint64_t first, uint64_t second);

#define TRY(function, first, second, ...)                                                          \
	({                                                                                         \
		in_progress = #function;                                                           \
		const uint64_t start_ = now_us();                                                  \
		const int code_ = function(__VA_ARGS__);                                           \
		note(#function, start_, code_, (uint64_t)(first), (uint64_t)(second));             \
		code_;                                                                             \
	})

/* driver_random_calls.c */
int current_slot(void);
void calls_set_up(uint64_t seed);
/* Runs on the thread of the draw. False: the operation is the storm, which the coordinator runs on
 * all threads. */
bool calls_make(const struct draw *draw);
/* A thread's part of the storm; results are added to the counts of the storm that storm_begin
 * cleared. */
bool storm_begin(const struct draw *draw);
void storm_run(unsigned int thread);
void storm_end(void);
/* At the end of an episode: each thread pops its contexts, then one of them ends everything. */
void calls_leave(void);
void calls_end(void);

#endif
