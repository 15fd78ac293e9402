/* healthy_warm_up.c -- a server that fills its tables in the first two seconds, 100 MB, and then
 * only serves. */
#include "patient.h"

enum { TABLES = 100 };

int main(void)
{
	void *tables[TABLES];

	free(filled(20 * MB));
	ready();
	for (int i = 0; i < TABLES; i++) {
		tables[i] = filled(MB);
		if (!goes_on(20))
			return 0;
	}
	for (size_t i = 0; goes_on(20); i++) {
		memset(tables[i % TABLES], 'y', MB);
		free(filled(100 * KB));
	}
	return 0;
}
