#include "ctl/process/ancestry.h"

#include <stdlib.h>

static int compare_pid(const void *pid, const void *process)
{
	pid_t wanted = *(const pid_t *)pid, own = ((const struct mt_process *)process)->pid;

	return (wanted > own) - (wanted < own);
}

size_t mt_ancestry_find(const struct mt_process *list, size_t count, pid_t pid)
{
	const struct mt_process *found =
		count ? bsearch(&pid, list, count, sizeof(*list), compare_pid) : NULL;

	return found ? (size_t)(found - list) : MT_ANCESTRY_NONE;
}

/* The list is not atomic: pids that were reused while it was read could form a cycle. So the number
 * of steps is limited. */
bool mt_ancestry_descends(const struct mt_process *list, size_t count, pid_t pid, pid_t root)
{
	for (size_t step = 0; step <= count; step++) {
		size_t place = mt_ancestry_find(list, count, pid);

		if (pid == root)
			return true;
		if (place == MT_ANCESTRY_NONE)
			return false;
		pid = list[place].parent;
	}
	return false;
}

size_t mt_ancestry_shimmed_parent(const struct mt_process *list, size_t count, size_t place)
{
	for (size_t step = 0; step <= count; step++) {
		place = mt_ancestry_find(list, count, list[place].parent);
		if (place == MT_ANCESTRY_NONE || list[place].shimmed)
			return place;
	}
	return MT_ANCESTRY_NONE;
}
