/* healthy_burst.c -- one import of 200 MB, then nothing to do. */
#include "patient.h"

enum { ROWS = 50 * 1024, ROW_BYTES = 4000 };

int main(void)
{
	void **rows = must(malloc(ROWS * sizeof(*rows)));
	void *state = filled(20 * MB);

	for (size_t i = 0; i < ROWS; i++)
		rows[i] = filled(ROW_BYTES);
	for (size_t i = 0; i < ROWS; i++)
		free(rows[i]);
	free(rows);
	ready();
	while (goes_on(1000))
		;
	free(state);
	return 0;
}
