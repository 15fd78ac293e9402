/* ctl/known.c -- see known.h. */
#include "ctl/known.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HOLDS_NS 5000000000u

struct known {
	struct mt_process process;
	uint64_t asked_ns;
	bool looked; /* at its maps */
	bool named;  /* its command line was read */
};

static struct {
	struct known *list;
	size_t count, room;
} before, now;
static size_t cursor; /* in `before`: whoever is asked for comes by rising pid */
static uint64_t now_ns;

void mt_known_begin(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	now_ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
	cursor = 0;
	now.count = 0;
}

static const struct known *recall(const struct mt_process *process)
{
	const struct known *found;

	while (cursor < before.count && before.list[cursor].process.pid < process->pid)
		cursor++;
	found = cursor < before.count ? &before.list[cursor] : NULL;
	if (!found || found->process.pid != process->pid || found->process.start_ticks != process->start_ticks ||
	    found->process.stack_start != process->stack_start || !process->stack_start ||
	    now_ns - found->asked_ns > HOLDS_NS)
		return NULL;
	return found;
}

static void keep(const struct known *known)
{
	if (now.count == now.room) {
		now.room = now.room ? now.room * 2 : 256;
		now.list = mt_error_check_memory(realloc(now.list, now.room * sizeof(*now.list)));
	}
	now.list[now.count++] = *known;
}

static void take_command(struct mt_process *process, const struct known *known)
{
	memcpy(process->command, known->process.command, sizeof(process->command));
}

void mt_known_look(struct mt_process *process)
{
	const struct known *known = recall(process);
	struct mt_why why;

	if (known && known->looked) {
		process->shimmed = known->process.shimmed;
		process->library_deleted = known->process.library_deleted;
		process->own_pid = known->process.own_pid;
		process->pidns = known->process.pidns;
		take_command(process, known);
		keep(known);
		return;
	}
	mt_process_look(process, &why);
	if (process->shimmed)
		mt_process_read_command(process);
	keep(&(struct known){*process, now_ns, .looked = true, .named = process->shimmed});
}

void mt_known_read_command(struct mt_process *process)
{
	const struct known *known = recall(process);

	if (known && known->named) {
		take_command(process, known);
		keep(known);
		return;
	}
	mt_process_read_command(process);
	keep(&(struct known){*process, now_ns, .named = true});
}

void mt_known_end(void)
{
	struct known *list = before.list;
	size_t room = before.room;

	before = now;
	now.list = list;
	now.room = room;
	now.count = 0;
}
