#include "ctl/roster.h"

#include <stdlib.h>

#include "ctl/target.h"

const char *mt_roster_state(enum mt_roster_state state)
{
	static const char *const words[] = {"asleep", "awake", "refused"};

	return state < MT_ROSTER_STATES_COUNT ? words[state] : "?";
}

static void add_sums(struct mt_roster_sums *to, const struct mt_roster_sums *from)
{
	to->rss_bytes += from->rss_bytes;
	to->live_bytes += from->live_bytes;
	to->idle_bytes += from->idle_bytes;
	to->gpu_bytes += from->gpu_bytes;
}

static void read_entry(const struct mt_process *process, struct mt_roster_entry *entry)
{
	enum mt_err error = mt_target_read_head(process, &entry->head, &entry->why);

	entry->process = *process;
	entry->own.rss_bytes = process->rss_bytes;
	if (error) {
		entry->state = error == MT_ERR_NOT_AVAILABLE ? MT_ROSTER_ASLEEP : MT_ROSTER_REFUSED;
		return;
	}
	entry->state = MT_ROSTER_AWAKE;
	entry->own.live_bytes = entry->head.snapshot.heap_live_bytes;
	entry->own.idle_bytes = entry->head.snapshot.heap_idle_bytes;
	entry->own.gpu_bytes = entry->head.snapshot.gpu_reserved_bytes + entry->head.snapshot.gpu_other_bytes;
	entry->uses_cuda = mt_statsfile_uses_cuda(&entry->head);
}

static size_t entry_of_pid(const struct mt_roster *roster, pid_t pid)
{
	for (size_t i = 0; i < roster->count; i++)
		if (roster->list[i].process.pid == pid)
			return i;
	return MT_TREE_NONE;
}

/* Every process adds its own to all above it; the count of steps bounds a circle of reused pids. */
static void sum_up(struct mt_roster *roster)
{
	for (size_t i = 0; i < roster->count; i++) {
		size_t above = i;

		for (size_t step = 0; above != MT_TREE_NONE && step < roster->count; step++) {
			add_sums(&roster->list[above].tree, &roster->list[i].own);
			above = roster->list[above].parent;
		}
		add_sums(&roster->total, &roster->list[i].own);
		roster->uses_cuda |= roster->list[i].uses_cuda;
	}
}

void mt_roster_read(struct mt_roster *out)
{
	struct mt_process *list;
	size_t count = mt_process_list(&list), above;

	*out = (struct mt_roster){0};
	out->list = mt_error_check_memory(calloc(count + 1, sizeof(*out->list)));
	for (size_t i = 0; i < count; i++)
		if (list[i].shimmed)
			read_entry(&list[i], &out->list[out->count++]);
	for (size_t i = 0, entry = 0; i < count; i++) {
		if (!list[i].shimmed)
			continue;
		above = mt_tree_shimmed_parent(list, count, i);
		out->list[entry++].parent = above == MT_TREE_NONE ? MT_TREE_NONE : entry_of_pid(out, list[above].pid);
	}
	free(list);
	sum_up(out);
}

void mt_roster_free(struct mt_roster *roster)
{
	free(roster->list);
	*roster = (struct mt_roster){0};
}
