/* patient.h -- what all sample programs share: each writes "ready" when its problem has begun, and
 * runs until its stdin ends. They are ordinary programs with an ordinary mistake, and know nothing
 * of the shim. */
#ifndef PATIENT_H
#define PATIENT_H

#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KB ((size_t)1 << 10)
#define MB ((size_t)1 << 20)

static inline void ready(void)
{
	puts("ready");
	fflush(stdout);
}

/* Waits so long; false once stdin has ended. */
static inline bool goes_on(int ms)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};

	return poll(&in, 1, ms) == 0;
}

static inline void *must(void *ptr)
{
	if (ptr == NULL || ptr == (void *)-1) {
		perror("patient");
		exit(2);
	}
	return ptr;
}

/* A block that the program has written to. */
static inline void *filled(size_t bytes)
{
	return memset(must(malloc(bytes)), 'x', bytes);
}

#endif
