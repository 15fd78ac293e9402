/* ctl/process/process_cache.c -- see process_cache.h. */
#include "ctl/process/process_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/process/clock.h"
#include "ctl/process/watchdog.h"

#define HOLDS_NS   UINT64_C(5000000000)
#define SILENCE_NS UINT64_C(60000000000)

struct known {
	struct mt_process process;
	uint64_t asked_ns;
	enum mt_err error;
	bool looked; /* at its maps */
	bool named;  /* its command line was read */
};

static struct {
	struct known *list;
	size_t count, room;
} before, now;

static const struct known *recall(const struct mt_process *process, size_t *cursor, uint64_t now_ns)
{
	const struct known *found;

	while (*cursor < before.count && before.list[*cursor].process.pid < process->pid)
		(*cursor)++;
	found = *cursor < before.count ? &before.list[*cursor] : NULL;
	if (!found || found->process.pid != process->pid ||
	    found->process.start_ticks != process->start_ticks ||
	    found->process.stack_start != process->stack_start || !process->stack_start ||
	    now_ns - found->asked_ns > (found->error == MT_ERR_TIMEOUT ? SILENCE_NS : HOLDS_NS))
		return NULL;
	return found;
}

/* Fills in what is known, where that is enough. */
static void use(struct mt_process_probe *look, const struct known *known)
{
	struct mt_process *process = look->process;

	if (known->error == MT_ERR_TIMEOUT || (look->maps && known->looked) ||
	    (!look->maps && known->named)) {
		look->done = true;
		look->error = known->error;
		look->asked_ns = known->asked_ns;
	}
	if (!look->done || known->error == MT_ERR_TIMEOUT)
		return;
	if (look->maps) {
		process->shimmed = known->process.shimmed;
		process->library_deleted = known->process.library_deleted;
		process->own_pid = known->process.own_pid;
		process->pidns = known->process.pidns;
	}
	memcpy(process->command, known->process.command, sizeof(process->command));
}

static void keep(const struct mt_process_probe *look)
{
	struct known known = {*look->process, look->asked_ns, look->error, look->maps,
			      look->command || look->process->shimmed};

	if (look->error == MT_ERR_TIMEOUT && look->failed == EAGAIN)
		known.asked_ns = 0;

	if (now.count == now.room) {
		now.room = now.room ? now.room * 2 : 256;
		now.list = mt_error_check_memory(realloc(now.list, now.room * sizeof(*now.list)));
	}
	now.list[now.count++] = known;
}

void mt_process_cache_probe(struct mt_process_probe *looks, size_t count)
{
	uint64_t now_ns = mt_clock_now_ns();
	size_t cursor = 0, room = before.room;
	struct known *list = before.list;

	for (size_t i = 0; i < count; i++) {
		const struct known *known = recall(looks[i].process, &cursor, now_ns);

		looks[i].asked_ns = now_ns;
		if (known)
			use(&looks[i], known);
	}
	mt_process_probe_all(looks, count);
	now.count = 0;
	for (size_t i = 0; i < count; i++)
		keep(&looks[i]);
	before = now;
	now.list = list;
	now.room = room;
}
