/* ctl/process/process_cache.c -- see process_cache.h. */
#include "ctl/process/process_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/process/clock.h"
#include "ctl/process/watchdog.h"

#define HOLDS_NS   UINT64_C(5000000000)
#define SILENCE_NS UINT64_C(60000000000)

struct cached {
	struct mt_process process;
	uint64_t read_ns;
	enum mt_err error;
	bool looked; /* at its maps */
	bool named;  /* its command line was read */
};

static struct {
	struct cached *list;
	size_t count, room;
} before, now;

static const struct cached *find_cached(const struct mt_process *process, size_t *cursor,
					uint64_t now_ns)
{
	const struct cached *found;

	while (*cursor < before.count && before.list[*cursor].process.pid < process->pid)
		(*cursor)++;
	found = *cursor < before.count ? &before.list[*cursor] : NULL;
	if (!found || found->process.pid != process->pid ||
	    found->process.start_ticks != process->start_ticks ||
	    found->process.stack_start != process->stack_start || !process->stack_start ||
	    now_ns - found->read_ns > (found->error == MT_ERR_TIMEOUT ? SILENCE_NS : HOLDS_NS))
		return NULL;
	return found;
}

/* Fills in what is known, where that is enough. */
static void use(struct mt_process_probe *probe, const struct cached *known)
{
	struct mt_process *process = probe->process;

	if (known->error == MT_ERR_TIMEOUT || (probe->maps && known->looked) ||
	    (!probe->maps && known->named)) {
		probe->done = true;
		probe->error = known->error;
		probe->read_ns = known->read_ns;
	}
	if (!probe->done || known->error == MT_ERR_TIMEOUT)
		return;
	if (probe->maps) {
		process->shimmed = known->process.shimmed;
		process->library_deleted = known->process.library_deleted;
		process->own_pid = known->process.own_pid;
		process->pidns = known->process.pidns;
	}
	memcpy(process->command, known->process.command, sizeof(process->command));
}

static void keep(const struct mt_process_probe *probe)
{
	struct cached known = {*probe->process, probe->read_ns, probe->error, probe->maps,
			       probe->command || probe->process->shimmed};

	if (probe->error == MT_ERR_TIMEOUT && probe->errno_value == EAGAIN)
		known.read_ns = 0;

	if (now.count == now.room) {
		now.room = now.room ? now.room * 2 : 256;
		now.list = mt_error_check_memory(realloc(now.list, now.room * sizeof(*now.list)));
	}
	now.list[now.count++] = known;
}

void mt_process_cache_probe(struct mt_process_probe *probes, size_t count)
{
	uint64_t now_ns = mt_clock_now_ns();
	size_t cursor = 0, room = before.room;
	struct cached *list = before.list;

	for (size_t i = 0; i < count; i++) {
		const struct cached *known = find_cached(probes[i].process, &cursor, now_ns);

		probes[i].read_ns = now_ns;
		if (known)
			use(&probes[i], known);
	}
	mt_process_probe_all(probes, count);
	now.count = 0;
	for (size_t i = 0; i < count; i++)
		keep(&probes[i]);
	before = now;
	now.list = list;
	now.room = room;
}
