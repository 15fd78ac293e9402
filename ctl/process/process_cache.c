#include "ctl/process/process_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/process/clock.h"

#define HOLDS_NS        UINT64_C(5000000000)
#define UNRESPONSIVE_NS UINT64_C(60000000000)

struct cached {
	struct mt_process process;
	uint64_t read_ns;
	enum mt_err error;
	bool has_maps;    /* its maps were read */
	bool has_command; /* its command line was read */
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
	    now_ns - found->read_ns > (found->error == MT_ERR_TIMEOUT ? UNRESPONSIVE_NS : HOLDS_NS))
		return NULL;
	return found;
}

/* Fills in a probe from an entry that has all that is wanted. */
static void fill(struct mt_process_probe *probe, const struct cached *entry)
{
	struct mt_process *process = probe->process;

	if (entry->error == MT_ERR_TIMEOUT || (probe->maps && entry->has_maps) ||
	    (!probe->maps && entry->has_command)) {
		probe->done = true;
		probe->error = entry->error;
		probe->read_ns = entry->read_ns;
	}
	if (!probe->done || entry->error == MT_ERR_TIMEOUT)
		return;
	if (probe->maps) {
		process->shimmed = entry->process.shimmed;
		process->library_deleted = entry->process.library_deleted;
		process->own_pid = entry->process.own_pid;
		process->pidns = entry->process.pidns;
	}
	memcpy(process->command, entry->process.command, sizeof(process->command));
}

static void store(const struct mt_process_probe *probe)
{
	struct cached entry = {*probe->process, probe->read_ns, probe->error, probe->maps,
			       probe->command || probe->process->shimmed};

	if (probe->error == MT_ERR_TIMEOUT && probe->errno_value == EAGAIN)
		entry.read_ns = 0;

	if (now.count == now.room) {
		now.room = now.room ? now.room * 2 : 256;
		now.list = mt_error_check_memory(realloc(now.list, now.room * sizeof(*now.list)));
	}
	now.list[now.count++] = entry;
}

void mt_process_cache_probe(struct mt_process_probe *probes, size_t count)
{
	uint64_t now_ns = mt_clock_now_ns();
	size_t cursor = 0, room = before.room;
	struct cached *list = before.list;

	for (size_t i = 0; i < count; i++) {
		const struct cached *entry = find_cached(probes[i].process, &cursor, now_ns);

		probes[i].read_ns = now_ns;
		if (entry)
			fill(&probes[i], entry);
	}
	mt_process_probe_all(probes, count);
	now.count = 0;
	for (size_t i = 0; i < count; i++)
		store(&probes[i]);
	before = now;
	now.list = list;
	now.room = room;
}
