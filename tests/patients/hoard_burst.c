/* hoard_burst.c -- a report of 200 MB was built in small pieces and dropped; the allocator keeps
 * the pages. */
#include "patient.h"

enum { PIECES = 50 * 1024, PIECE_BYTES = 4000 };

int main(void)
{
	void **report = must(malloc(PIECES * sizeof(*report)));

	for (size_t i = 0; i < PIECES; i++)
		report[i] = filled(PIECE_BYTES);
	void *footer = filled(PIECE_BYTES);
	for (size_t i = 0; i < PIECES; i++)
		free(report[i]);
	ready();
	while (goes_on(100))
		free(filled(1000));
	free(footer);
	return 0;
}
