/* healthy_rounds.c -- rounds of federated learning: 60 MB come, are averaged, and go; between them
 * the process waits. */
#include "patient.h"

enum { CLIENTS = 60 };

int main(void)
{
	void *updates[CLIENTS];
	void *model = filled(30 * MB);

	ready();
	for (;;) {
		for (int i = 0; i < CLIENTS; i++) {
			updates[i] = filled(MB);
			if (!goes_on(15))
				return 0;
		}
		for (int i = 0; i < CLIENTS; i++)
			free(updates[i]);
		if (!goes_on(900))
			break;
	}
	free(model);
	return 0;
}
