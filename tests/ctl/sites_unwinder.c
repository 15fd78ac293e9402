/* sites_unwinder.c -- the unwinder itself allocates, with its lock held, a block that is sure to be
 * sampled: a profiler that walked that stack would wait for ever. Waits for a line, so that the
 * profiler can be switched on first. */
#include <stdio.h>
#include <unistd.h>

#include "sites_frames.h"

int main(void)
{
	char line[32];

	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 2;
	alarm(20);
	register_frames(0x1000, 300000); /* the table itself, and the sorted one: megabytes */
	printf("frames %d\n", unwind_once());
	return 0;
}
