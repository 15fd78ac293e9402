/* rounds_few.c -- federated rounds that take nearly as long as the diagnosis: nobody can tell from
 * two or three of them whether a little of each stays. */
#include "patient.h"

enum { CLIENTS = 30 };

int main(void)
{
	void *updates[CLIENTS], *model = filled(30 * MB);

	ready();
	for (;;) {
		for (int i = 0; i < CLIENTS; i++) {
			updates[i] = filled(MB);
			if (!goes_on(60))
				return 0;
		}
		for (int i = 0; i < CLIENTS; i++)
			free(updates[i]);
		if (!goes_on(1500))
			break;
	}
	free(model);
	return 0;
}
