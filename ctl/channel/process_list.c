#include "ctl/channel/process_list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/channel/control_file.h"
#include "ctl/channel/stats_dir.h"
#include "ctl/channel/target.h"
#include "ctl/output/json.h"
#include "ctl/output/text.h"
#include "ctl/process/clock.h"
#include "ctl/process/limit.h"
#include "ctl/process/process_probe.h"

#define TRIES    5u /* of files that may be half written, all together */
#define PAUSE_MS 10

/* RSS may differ by this much from that of the published figures; more than a part of it */
#define OUTDATED_BYTES ((uint64_t)2 << 20)
#define OUTDATED_PART  20u

const char *mt_process_state_word(enum mt_process_state state)
{
	static const char *const words[] = {"asleep", "awake", "refused", "unresponsive"};

	return state < MT_PROCESS_STATES_COUNT ? words[state] : "?";
}

static void read_devices(struct mt_process_list_entry *entry, bool is_near)
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

static void use_head(struct mt_process_list_entry *entry, bool is_near)
{
	entry->state = MT_PROCESS_AWAKE;
	mt_tree_sums_read(&entry->own, &entry->head.snapshot);
	entry->uses_cuda = mt_stats_file_uses_cuda(&entry->head);
	read_devices(entry, is_near);
}

static enum mt_err read_head(struct mt_process_list_entry *entry)
{
	enum mt_err error = mt_target_try_head(&entry->process, &entry->head, &entry->why);

	if (!error)
		use_head(entry, false);
	else
		entry->state =
			error == MT_ERR_NOT_AVAILABLE ? MT_PROCESS_ASLEEP : MT_PROCESS_REFUSED;
	return error;
}

/* Tries the directories of mtctl first, which costs least. The maps are read of the other processes
 * only, the command line of all shimmed ones. Returns the number of probes. Until keep_shimmed,
 * entry i of the list is process i of `all`. */
static size_t plan_probes(struct mt_process_list *processes, struct mt_process_probe *probes)
{
	size_t count = 0;

	for (size_t i = 0; i < processes->all_count; i++) {
		struct mt_process *process = &processes->all[i];
		bool is_near;

		if (!mt_process_may_probe(process))
			continue;
		is_near = mt_target_read_near(process, &processes->list[i].head);
		processes->list[i].is_near = is_near;
		probes[count++] = (struct mt_process_probe){
			.process = process, .maps = !is_near, .command = is_near};
	}
	return count;
}

static struct mt_process_list_entry *entry_of(struct mt_process_list *processes,
					      const struct mt_process_probe *probe)
{
	return &processes->list[probe->process - processes->all];
}

/* Returns MT_ERR_INVALID if the file may be half written. */
static enum mt_err use_probe(const struct mt_process_probe *probe,
			     struct mt_process_list_entry *entry)
{
	entry->process = *probe->process;
	entry->own.rss_bytes = entry->process.rss_bytes;
	if (probe->command)
		use_head(entry, true);
	else if (probe->error == MT_ERR_TIMEOUT)
		entry->state = MT_PROCESS_UNRESPONSIVE;
	else if (entry->process.shimmed)
		return read_head(entry);
	return MT_ERR_OK;
}

static void read_entries(struct mt_process_list *processes, struct mt_process_probe *probes,
			 size_t count)
{
	size_t again = 0;

	for (size_t i = 0; i < count; i++) {
		struct mt_process_list_entry *entry = entry_of(processes, &probes[i]);

		processes->denied_count += probes[i].error == MT_ERR_FOREIGN &&
					   probes[i].errno_value == EACCES && geteuid() == 0;
		probes[i].error = use_probe(&probes[i], entry);
		again += probes[i].error == MT_ERR_INVALID;
		if (entry->state == MT_PROCESS_UNRESPONSIVE) {
			mt_error_because(&entry->why, MT_ERR_TIMEOUT,
					 "does not answer: its mappings cannot be read in time");
			/* it is shown, and is a parent in the tree */
			probes[i].process->shimmed = true;
		}
	}
	for (unsigned try = 0; try < TRIES && again; try++) {
		mt_clock_sleep_ms(PAUSE_MS);
		again = 0;
		for (size_t i = 0; i < count; i++) {
			if (probes[i].error == MT_ERR_INVALID)
				probes[i].error = read_head(entry_of(processes, &probes[i]));
			again += probes[i].error == MT_ERR_INVALID;
		}
	}
}

static void keep_shimmed(struct mt_process_list *processes, enum mt_process_list_scope scope)
{
	for (size_t i = 0; i < processes->all_count; i++) {
		/* A process that is unresponsive may be one of this MT_DIR. */
		processes->all[i].shimmed =
			processes->all[i].shimmed &&
			(scope == MT_PROCESS_LIST_ALL || processes->list[i].is_near ||
			 processes->list[i].state == MT_PROCESS_UNRESPONSIVE ||
			 mt_stats_dir_is_shown(&processes->all[i]));
		if (!processes->all[i].shimmed)
			continue;
		processes->list[i].process.shimmed = true;
		if (processes->count != i)
			memcpy(&processes->list[processes->count], &processes->list[i],
			       sizeof(processes->list[i]));
		processes->count++;
	}
	memset(&processes->list[processes->count], 0, sizeof(processes->list[0]));
}

/* Orders each process behind its parent. A cycle of reused pids has no root and is left out. */
static void make_order(struct mt_process_list *processes)
{
	size_t *first = mt_error_check_memory(malloc((processes->count + 1) * sizeof(*first)));
	size_t *next = mt_error_check_memory(malloc((processes->count + 1) * sizeof(*next)));
	size_t roots = MT_ANCESTRY_NONE, at;

	for (size_t i = 0; i < processes->count; i++)
		first[i] = MT_ANCESTRY_NONE;
	for (size_t i = processes->count; i-- > 0;) {
		size_t parent = processes->list[i].parent,
		       *line = parent == MT_ANCESTRY_NONE ? &roots : &first[parent];

		next[i] = *line;
		*line = i;
	}
	for (at = roots; at != MT_ANCESTRY_NONE;) {
		struct mt_process_list_entry *entry = &processes->list[at];

		entry->depth = entry->parent == MT_ANCESTRY_NONE
				       ? 0
				       : processes->list[entry->parent].depth + 1;
		processes->order[processes->order_count++] = at;
		if (first[at] != MT_ANCESTRY_NONE) {
			at = first[at];
			continue;
		}
		while (at != MT_ANCESTRY_NONE && next[at] == MT_ANCESTRY_NONE)
			at = processes->list[at].parent;
		at = at == MT_ANCESTRY_NONE ? MT_ANCESTRY_NONE : next[at];
	}
	free(first);
	free(next);
}

/* From the last entry to the first, so that each parent has the sums of its children before it adds
 * its own to its parent. */
static void sum_up(struct mt_process_list *processes)
{
	for (size_t i = 0; i < processes->count; i++) {
		struct mt_process_list_entry *entry = &processes->list[i];
		uint64_t rss_bytes = entry->own.rss_bytes;

		entry->own.parts =
			entry->state == MT_PROCESS_AWAKE
				? mt_memory_parts_of_snapshot(&entry->head.snapshot, rss_bytes)
				: mt_memory_parts_unknown(rss_bytes);
		entry->tree = entry->own;
		mt_tree_sums_add(&processes->total, &entry->own);
		processes->uses_cuda |= entry->uses_cuda;
		processes->has_ranks |= *entry->head.rank != '\0';
	}
	for (size_t i = processes->order_count; i-- > 0;) {
		const struct mt_process_list_entry *entry = &processes->list[processes->order[i]];

		if (entry->parent != MT_ANCESTRY_NONE)
			mt_tree_sums_add(&processes->list[entry->parent].tree, &entry->tree);
	}
}

static void find_parents(struct mt_process_list *processes)
{
	size_t *entry_of =
		mt_error_check_memory(malloc((processes->all_count + 1) * sizeof(*entry_of)));
	size_t entry = 0, above;

	for (size_t i = 0; i < processes->all_count; i++)
		entry_of[i] = processes->all[i].shimmed ? entry++ : MT_ANCESTRY_NONE;
	for (size_t i = 0; i < processes->all_count; i++) {
		if (!processes->all[i].shimmed)
			continue;
		above = mt_ancestry_shimmed_parent(processes->all, processes->all_count, i);
		processes->list[entry_of[i]].parent =
			above == MT_ANCESTRY_NONE ? MT_ANCESTRY_NONE : entry_of[above];
	}
	free(entry_of);
}

void mt_process_list_read(enum mt_process_list_scope scope, struct mt_process_list *out)
{
	struct mt_process_probe *probes;
	size_t probes_count;

	*out = (struct mt_process_list){0};
	out->all_count = mt_process_scan(&out->all);
	out->list = mt_error_check_memory(calloc(out->all_count + 1, sizeof(*out->list)));
	out->order = mt_error_check_memory(calloc(out->all_count + 1, sizeof(*out->order)));
	probes = mt_error_check_memory(calloc(out->all_count + 1, sizeof(*probes)));
	probes_count = plan_probes(out, probes);
	mt_process_cache_probe(probes, probes_count);
	read_entries(out, probes, probes_count);
	free(probes);
	keep_shimmed(out, scope);
	mt_stats_dir_forget();
	find_parents(out);
	make_order(out);
	sum_up(out);
}

/* ---- figures that are older than the RSS beside them ---- */

/* The kernel's RSS is of now. If the process saw another one when it published, its other
 * figures are as old. */
static bool is_outdated(const struct mt_process_list_entry *entry)
{
	uint64_t now = entry->own.rss_bytes, then = entry->head.snapshot.rss_bytes;
	uint64_t apart = now > then ? now - then : then - now;

	return entry->state == MT_PROCESS_AWAKE && apart > OUTDATED_BYTES &&
	       apart > now / OUTDATED_PART;
}

static void refresh(struct mt_process_list_entry *entry, uint64_t until_ns)
{
	const struct mt_request request = {.kind = MT_REQUEST_PUBLISH};
	uint64_t now_ns = mt_clock_now_ns();
	struct mt_stats_head head;
	struct mt_error_reason why;

	entry->is_outdated = true;
	if (now_ns >= until_ns ||
	    mt_control_file_exchange(&entry->process, request, (until_ns - now_ns) / 1000000u + 1,
				     &head, &why) != MT_ERR_OK)
		return;
	free(entry->devices);
	entry->devices = NULL;
	entry->head = head;
	entry->is_outdated = false;
	use_head(entry, false);
}

void mt_process_list_refresh(struct mt_process_list *processes, uint64_t for_ms)
{
	uint64_t until_ns = mt_clock_now_ns() + for_ms * 1000000u;

	for (size_t i = 0; i < processes->count; i++)
		if (is_outdated(&processes->list[i]))
			refresh(&processes->list[i], until_ns);
	processes->total = (struct mt_process_tree_sums){0};
	sum_up(processes);
}

const struct mt_process_list_entry *mt_process_list_find(const struct mt_process_list *processes,
							 pid_t pid)
{
	return bsearch(&pid, processes->list, processes->count, sizeof(*processes->list),
		       mt_process_compare_pids);
}

void mt_process_list_free(struct mt_process_list *processes)
{
	for (size_t i = 0; i < processes->count; i++)
		free(processes->list[i].devices);
	free(processes->all);
	free(processes->list);
	free(processes->order);
	*processes = (struct mt_process_list){0};
}

/* ---- process list json ---- */

static void set_sums(json_t *object, const char *name, const struct mt_process_tree_sums *sums)
{
	json_t *member = json_object();

	mt_tree_sums_set_json(member, sums, MT_SUM_gpu, true);
	mt_json_set(member, "parts", mt_memory_parts_json(&sums->parts));
	mt_json_set(object, name, member);
}

static json_t *entry_json(const struct mt_process_list *processes,
			  const struct mt_process_list_entry *entry)
{
	const struct mt_process *process = &entry->process;
	json_t *object = json_object();
	const struct mt_process *parent =
		entry->parent == MT_ANCESTRY_NONE ? NULL : &processes->list[entry->parent].process;
	bool awake = entry->state == MT_PROCESS_AWAKE;
	char script[64], title[sizeof(process->command)];

	mt_process_script(process->command, script, sizeof(script));
	mt_process_title(process->command, title, sizeof(title));
	mt_json_set_u64(object, "pid", (uint64_t)process->pid);
	mt_json_set_u64(object, "ppid", (uint64_t)process->parent);
	mt_json_set_u64_if(object, "parent", parent != NULL, parent ? (uint64_t)parent->pid : 0);
	mt_json_set_u64(object, "uid", process->uid);
	mt_json_set_text(object, "comm", process->comm);
	mt_json_set_text(object, "command", process->command);
	mt_json_set_text(object, "name", *script ? script : process->comm);
	mt_json_set_text(object, "title", title);
	mt_json_set_text_or_null(object, "rank", entry->head.rank);
	mt_json_set_text(object, "state", mt_process_state_word(entry->state));
	mt_tree_sums_set_json(object, &entry->own, entry->uses_cuda ? MT_SUM_gpu : 0u, true);
	mt_json_set(object, "parts", awake ? mt_memory_parts_json(&entry->own.parts) : json_null());
	mt_json_set_u64_if(object, "records_count", awake, entry->head.cleanups_count);
	mt_json_set_u64_if(object, "purged_bytes", awake, entry->head.snapshot.purged_bytes);
	set_sums(object, "tree", &entry->tree);
	return object;
}

/* The limit that is nearest to being reached, of those that apply to mtctl: of the machine or the
 * container. */
static json_t *memory_json(void)
{
	struct mt_limit memory;
	json_t *object;

	if (mt_limit_find("", 0, &memory) != MT_ERR_OK)
		return json_null();
	object = json_object();
	mt_text_clean(memory.source, sizeof(memory.source));
	mt_json_set_u64(object, "used_bytes", memory.used_bytes);
	mt_json_set_u64(object, "limit_bytes", memory.limit_bytes);
	mt_json_set_bool(object, "is_cgroup", memory.is_cgroup);
	mt_json_set_text(object, "source", memory.source);
	return object;
}

json_t *mt_process_list_json(const struct mt_process_list *processes)
{
	json_t *root = json_object(), *array = json_array();

	for (size_t i = 0; i < processes->count; i++)
		mt_json_append(array, entry_json(processes, &processes->list[i]));
	mt_json_set(root, "processes", array);
	set_sums(root, "total", &processes->total);
	mt_json_set(root, "memory", memory_json());
	return root;
}

void mt_process_print_json(json_t *processes)
{
	json_t *root = json_object();

	mt_json_set(root, "processes", processes);
	mt_json_print(root, true);
}
