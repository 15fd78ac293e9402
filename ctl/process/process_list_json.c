/* ctl/process/process_list_json.c -- the process list as JSON: see process_list.h. */
#include "ctl/process/process_list.h"

#include "ctl/output/json.h"
#include "ctl/process/limit.h"
#include "ctl/output/text.h"

json_t *mt_process_json(const struct mt_process *process)
{
	json_t *object = json_object();

	mt_json_set_u64(object, "pid", (uint64_t)process->pid);
	mt_json_set_text(object, "comm", process->comm);
	return object;
}

static void set_sums(json_t *object, const char *name, const struct mt_process_list_sums *sums)
{
	json_t *member = json_object();

	mt_json_set_u64(member, "rss_bytes", sums->rss_bytes);
	mt_json_set_u64(member, "heap_live_bytes", sums->live_bytes);
	mt_json_set_u64(member, "heap_idle_bytes", sums->idle_bytes);
	mt_json_set_u64(member, "gpu_bytes", sums->gpu_bytes);
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

	mt_json_set_u64(object, "pid", (uint64_t)process->pid);
	mt_json_set_u64(object, "ppid", (uint64_t)process->parent);
	mt_json_set_u64_if(object, "parent", parent != NULL, parent ? (uint64_t)parent->pid : 0);
	mt_json_set_u64(object, "uid", process->uid);
	mt_json_set_text(object, "comm", process->comm);
	mt_json_set_text(object, "command", process->command);
	mt_json_set_text_or_null(object, "rank", entry->head.rank);
	mt_json_set_text(object, "state", mt_process_state_word(entry->state));
	mt_json_set_u64(object, "rss_bytes", entry->own.rss_bytes);
	mt_json_set_u64_if(object, "heap_live_bytes", awake, entry->own.live_bytes);
	mt_json_set_u64_if(object, "heap_idle_bytes", awake, entry->own.idle_bytes);
	mt_json_set_u64_if(object, "gpu_bytes", entry->uses_cuda, entry->own.gpu_bytes);
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
