/* leak_slow.c -- rounds of 30 MB that come and go every two seconds, and under them 0.5 MB/s that
 * stay. */
#include "patient.h"

enum { STEP_MS = 20, STEPS = 100, PARTS = 30 };

struct audit {
	struct audit *next;
	char text[10 * 1024 - 16];
};

static struct audit *trail;

__attribute__((noinline)) void append_audit(void)
{
	struct audit *entry = must(malloc(sizeof(*entry)));

	memset(entry, 'a', sizeof(*entry));
	entry->next = trail;
	trail = entry;
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int main(void)
{
	void *parts[PARTS] = {0};
	long began = now_ms(), appended = 0;

	ready();
	for (int step = 0; goes_on(STEP_MS); step++) {
		int part = step % STEPS;

		/* By the clock: on a busy machine steps take longer, and the rate is what a test
		 * wants to see. */
		for (; appended < (now_ms() - began) / STEP_MS; appended++)
			append_audit();
		if (part < PARTS)
			parts[part] = filled(MB);
		for (int i = 0; part == STEPS * 3 / 4 && i < PARTS; i++) {
			free(parts[i]);
			parts[i] = NULL;
		}
	}
	return 0;
}
