#include "ctl/roster.h"

#include <stdlib.h>

#include "ctl/known.h"
#include "ctl/statsdir.h"
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

static void read_devices(struct mt_roster_entry *entry)
{
	const struct mt_stats_head *head = &entry->head;
	struct mt_stats_device *devices;

	if (!head->devices_count)
		return;
	devices = mt_error_check_memory(calloc(head->devices_count, sizeof(*devices)));
	if (mt_target_read_devices(&entry->process, head, devices, &entry->why) == MT_ERR_OK)
		entry->devices = devices;
	else
		free(devices);
}

static void take_head(const struct mt_process *process, struct mt_roster_entry *entry)
{
	entry->process = *process;
	entry->state = MT_ROSTER_AWAKE;
	entry->own.live_bytes = entry->head.snapshot.heap_live_bytes;
	entry->own.idle_bytes = entry->head.snapshot.heap_idle_bytes;
	entry->own.gpu_bytes = entry->head.snapshot.gpu_reserved_bytes + entry->head.snapshot.gpu_other_bytes;
	entry->uses_cuda = mt_statsfile_uses_cuda(&entry->head);
	read_devices(entry);
}

/* First where an answer costs least; false: it does not carry the shim. */
static bool read_entry(struct mt_process *process, struct mt_roster_entry *entry)
{
	enum mt_err error;

	if (!mt_process_may_look_into(process))
		return false;
	if (mt_target_read_near(process, &entry->head)) {
		mt_known_read_command(process);
		take_head(process, entry);
	} else {
		mt_known_look(process);
		if (!process->shimmed)
			return false;
		error = mt_target_read_head(process, &entry->head, &entry->why);
		if (!error)
			take_head(process, entry);
		else
			entry->state = error == MT_ERR_NOT_AVAILABLE ? MT_ROSTER_ASLEEP : MT_ROSTER_REFUSED;
	}
	entry->process = *process;
	entry->own.rss_bytes = process->rss_bytes;
	return true;
}

/* Lines everybody up behind their parents. Reused pids that close a circle have no root, and are left out. */
static void make_order(struct mt_roster *roster)
{
	size_t *first = mt_error_check_memory(malloc((roster->count + 1) * sizeof(*first)));
	size_t *next = mt_error_check_memory(malloc((roster->count + 1) * sizeof(*next)));
	size_t roots = MT_TREE_NONE, at;

	for (size_t i = 0; i < roster->count; i++)
		first[i] = MT_TREE_NONE;
	for (size_t i = roster->count; i-- > 0;) {
		size_t parent = roster->list[i].parent, *line = parent == MT_TREE_NONE ? &roots : &first[parent];

		next[i] = *line;
		*line = i;
	}
	for (at = roots; at != MT_TREE_NONE;) {
		struct mt_roster_entry *entry = &roster->list[at];

		entry->depth = entry->parent == MT_TREE_NONE ? 0 : roster->list[entry->parent].depth + 1;
		roster->order[roster->order_count++] = at;
		if (first[at] != MT_TREE_NONE) {
			at = first[at];
			continue;
		}
		while (at != MT_TREE_NONE && next[at] == MT_TREE_NONE)
			at = roster->list[at].parent;
		at = at == MT_TREE_NONE ? MT_TREE_NONE : next[at];
	}
	free(first);
	free(next);
}

/* From the last up: every parent has its children's sums before it hands on its own. */
static void sum_up(struct mt_roster *roster)
{
	for (size_t i = 0; i < roster->count; i++) {
		roster->list[i].tree = roster->list[i].own;
		add_sums(&roster->total, &roster->list[i].own);
		roster->uses_cuda |= roster->list[i].uses_cuda;
		roster->has_ranks |= *roster->list[i].head.rank != '\0';
	}
	for (size_t i = roster->order_count; i-- > 0;) {
		const struct mt_roster_entry *entry = &roster->list[roster->order[i]];

		if (entry->parent != MT_TREE_NONE)
			add_sums(&roster->list[entry->parent].tree, &entry->tree);
	}
}

static void find_parents(struct mt_roster *roster)
{
	size_t *entry_of = mt_error_check_memory(malloc((roster->all_count + 1) * sizeof(*entry_of)));
	size_t entry = 0, above;

	for (size_t i = 0; i < roster->all_count; i++)
		entry_of[i] = roster->all[i].shimmed ? entry++ : MT_TREE_NONE;
	for (size_t i = 0; i < roster->all_count; i++) {
		if (!roster->all[i].shimmed)
			continue;
		above = mt_tree_shimmed_parent(roster->all, roster->all_count, i);
		roster->list[entry_of[i]].parent = above == MT_TREE_NONE ? MT_TREE_NONE : entry_of[above];
	}
	free(entry_of);
}

void mt_roster_read(struct mt_roster *out)
{
	*out = (struct mt_roster){0};
	out->all_count = mt_process_scan(&out->all);
	out->list = mt_error_check_memory(calloc(out->all_count + 1, sizeof(*out->list)));
	out->order = mt_error_check_memory(calloc(out->all_count + 1, sizeof(*out->order)));
	mt_known_begin();
	for (size_t i = 0; i < out->all_count; i++)
		out->count += read_entry(&out->all[i], &out->list[out->count]);
	mt_known_end();
	mt_statsdir_forget();
	find_parents(out);
	make_order(out);
	sum_up(out);
}

void mt_roster_free(struct mt_roster *roster)
{
	for (size_t i = 0; i < roster->count; i++)
		free(roster->list[i].devices);
	free(roster->all);
	free(roster->list);
	free(roster->order);
	*roster = (struct mt_roster){0};
}
