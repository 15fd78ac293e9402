/* healthy_large.c -- an index of 400 MB that is used and does not grow. Large is not ill. */
#include "patient.h"

enum { PARTS = 400 };

int main(void)
{
	void *parts[PARTS];

	for (int i = 0; i < PARTS; i++)
		parts[i] = filled(MB);
	ready();
	for (size_t i = 0; goes_on(20); i++) {
		memset(parts[i % PARTS], 'y', MB);
		free(filled(200 * KB));
	}
	return 0;
}
