#include "ctl/process/process_list.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl/process/process_cache.h"
#include "ctl/process/stats_dir.h"
#include "ctl/process/target.h"

#define TRIES    5u /* of files that may be half written, all together */
#define PAUSE_MS 10

const char *mt_roster_state(enum mt_roster_state state)
{
	static const char *const words[] = {"asleep", "awake", "refused", "unresponsive"};

	return state < MT_ROSTER_STATES_COUNT ? words[state] : "?";
}

static void add_sums(struct mt_roster_sums *to, const struct mt_roster_sums *from)
{
	to->rss_bytes += from->rss_bytes;
	to->live_bytes += from->live_bytes;
	to->idle_bytes += from->idle_bytes;
	to->gpu_bytes += from->gpu_bytes;
}

static void read_devices(struct mt_roster_entry *entry, bool is_near)
{
	const struct mt_stats_head *head = &entry->head;
	struct mt_stats_device *devices;

	if (!head->devices_count)
		return;
	devices = mt_error_check_memory(calloc(head->devices_count, sizeof(*devices)));
	if (mt_target_read_devices(&entry->process, head, is_near, devices, &entry->why) ==
	    MT_ERR_OK)
		entry->devices = devices;
	else
		free(devices);
}

static void take_head(struct mt_roster_entry *entry, bool is_near)
{
	entry->state = MT_ROSTER_AWAKE;
	entry->own.live_bytes = entry->head.snapshot.heap_live_bytes;
	entry->own.idle_bytes = entry->head.snapshot.heap_idle_bytes;
	entry->own.gpu_bytes =
		entry->head.snapshot.gpu_reserved_bytes + entry->head.snapshot.gpu_other_bytes;
	entry->uses_cuda = mt_statsfile_uses_cuda(&entry->head);
	read_devices(entry, is_near);
}

static enum mt_err read_head(struct mt_roster_entry *entry)
{
	enum mt_err error = mt_target_try_head(&entry->process, &entry->head, &entry->why);

	if (!error)
		take_head(entry, false);
	else
		entry->state = error == MT_ERR_NOT_AVAILABLE ? MT_ROSTER_ASLEEP : MT_ROSTER_REFUSED;
	return error;
}

/* First where an answer costs least: in mtctl's own folders. What the kernel says of a process's
 * memory is asked for of the others alone; of these, the command line. How many are to be looked
 * at. Meanwhile roster->list is as roster->all. */
static size_t plan_looks(struct mt_roster *roster, struct mt_process_look *looks)
{
	size_t count = 0;

	for (size_t i = 0; i < roster->all_count; i++) {
		struct mt_process *process = &roster->all[i];
		bool is_near;

		if (!mt_process_may_look_into(process))
			continue;
		is_near = mt_target_read_near(process, &roster->list[i].head);
		looks[count++] = (struct mt_process_look){
			.process = process, .maps = !is_near, .command = is_near};
	}
	return count;
}

static struct mt_roster_entry *entry_of(struct mt_roster *roster,
					const struct mt_process_look *look)
{
	return &roster->list[look->process - roster->all];
}

/* INVALID: its file may be half written. */
static enum mt_err take_look(const struct mt_process_look *look, struct mt_roster_entry *entry)
{
	entry->process = *look->process;
	entry->own.rss_bytes = entry->process.rss_bytes;
	if (look->command)
		take_head(entry, true);
	else if (look->error == MT_ERR_TIMEOUT)
		entry->state = MT_ROSTER_UNRESPONSIVE;
	else if (entry->process.shimmed)
		return read_head(entry);
	return MT_ERR_OK;
}

static void read_entries(struct mt_roster *roster, struct mt_process_look *looks, size_t count)
{
	const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000};
	size_t again = 0;

	for (size_t i = 0; i < count; i++) {
		struct mt_roster_entry *entry = entry_of(roster, &looks[i]);

		looks[i].error = take_look(&looks[i], entry);
		again += looks[i].error == MT_ERR_INVALID;
		if (entry->state == MT_ROSTER_UNRESPONSIVE) {
			mt_error_because(&entry->why, MT_ERR_TIMEOUT,
					 "does not answer: its mappings cannot be read in time");
			looks[i].process->shimmed = true; /* shown, and in the tree */
		}
	}
	for (unsigned try = 0; try < TRIES && again; try++) {
		nanosleep(&pause, NULL);
		again = 0;
		for (size_t i = 0; i < count; i++) {
			if (looks[i].error == MT_ERR_INVALID)
				looks[i].error = read_head(entry_of(roster, &looks[i]));
			again += looks[i].error == MT_ERR_INVALID;
		}
	}
}

static void keep_shimmed(struct mt_roster *roster)
{
	for (size_t i = 0; i < roster->all_count; i++) {
		if (!roster->all[i].shimmed)
			continue;
		roster->list[i].process.shimmed = true;
		if (roster->count != i)
			memcpy(&roster->list[roster->count], &roster->list[i],
			       sizeof(roster->list[i]));
		roster->count++;
	}
	memset(&roster->list[roster->count], 0, sizeof(roster->list[0]));
}

/* Lines everybody up behind their parents. Reused pids that close a circle have no root, and are
 * left out. */
static void make_order(struct mt_roster *roster)
{
	size_t *first = mt_error_check_memory(malloc((roster->count + 1) * sizeof(*first)));
	size_t *next = mt_error_check_memory(malloc((roster->count + 1) * sizeof(*next)));
	size_t roots = MT_TREE_NONE, at;

	for (size_t i = 0; i < roster->count; i++)
		first[i] = MT_TREE_NONE;
	for (size_t i = roster->count; i-- > 0;) {
		size_t parent = roster->list[i].parent,
		       *line = parent == MT_TREE_NONE ? &roots : &first[parent];

		next[i] = *line;
		*line = i;
	}
	for (at = roots; at != MT_TREE_NONE;) {
		struct mt_roster_entry *entry = &roster->list[at];

		entry->depth =
			entry->parent == MT_TREE_NONE ? 0 : roster->list[entry->parent].depth + 1;
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
	size_t *entry_of =
		mt_error_check_memory(malloc((roster->all_count + 1) * sizeof(*entry_of)));
	size_t entry = 0, above;

	for (size_t i = 0; i < roster->all_count; i++)
		entry_of[i] = roster->all[i].shimmed ? entry++ : MT_TREE_NONE;
	for (size_t i = 0; i < roster->all_count; i++) {
		if (!roster->all[i].shimmed)
			continue;
		above = mt_tree_shimmed_parent(roster->all, roster->all_count, i);
		roster->list[entry_of[i]].parent =
			above == MT_TREE_NONE ? MT_TREE_NONE : entry_of[above];
	}
	free(entry_of);
}

void mt_roster_read(struct mt_roster *out)
{
	struct mt_process_look *looks;
	size_t looks_count;

	*out = (struct mt_roster){0};
	out->all_count = mt_process_scan(&out->all);
	out->list = mt_error_check_memory(calloc(out->all_count + 1, sizeof(*out->list)));
	out->order = mt_error_check_memory(calloc(out->all_count + 1, sizeof(*out->order)));
	looks = mt_error_check_memory(calloc(out->all_count + 1, sizeof(*looks)));
	looks_count = plan_looks(out, looks);
	mt_known_look(looks, looks_count);
	read_entries(out, looks, looks_count);
	mt_statsdir_forget();
	free(looks);
	keep_shimmed(out);
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
