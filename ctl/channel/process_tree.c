#include "ctl/channel/process_tree.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/output/json.h"
#include "ctl/process/process_probe.h"

/* copied bytes from which the content of pages is compared */
#define COMPARE_BYTES ((uint64_t)4 << 20)

/* The state of one read of a tree. */
struct reading {
	struct mt_process_list processes;
	pid_t root;
	struct mt_process_tree *tree;
	bool *taken; /* for each of processes.all */
};

const char *mt_member_state_word(const struct mt_member *member)
{
	return member->process.shimmed ? mt_process_state_word(member->state) : "plain";
}

/* Reduces the copied bytes of smaps to the share of pages with the same content. */
static void compare(struct mt_member *member, const struct mt_member *parent)
{
	double share;

	mt_smaps_compare(&member->smaps, &parent->smaps, &member->fork);
	if (member->fork.copied_bytes >= COMPARE_BYTES &&
	    mt_cow_sharing_share(member->process.pid, &member->smaps, parent->process.pid,
				 &parent->smaps, &share))
		member->fork.copied_bytes = (uint64_t)((double)member->fork.copied_bytes * share);
}

static void read_memory(struct mt_process_tree *tree, struct mt_member *member)
{
	const struct mt_member *parent =
		member->parent == MT_ANCESTRY_NONE ? NULL : &tree->list[member->parent];
	struct mt_error_reason why;
	enum mt_err error;

	if (tree->detail == MT_PROCESS_TREE_MAPPINGS)
		error = mt_smaps_read(&member->process, &member->smaps, &why);
	else
		error = mt_smaps_read_total(&member->process, &member->smaps.total, &why);
	member->memory_known = !error;
	if (member->memory_known && parent && parent->memory_known)
		compare(member, parent);
}

/* A process that is not added yet, and the index of its parent in the tree. */
struct waiting {
	size_t index, parent;
};

static void add(struct reading *reading, const struct waiting *waiting)
{
	struct mt_process_tree *tree = reading->tree;
	struct mt_member *member = &tree->list[tree->count++];
	const struct mt_process_list_entry *entry;

	member->process = reading->processes.all[waiting->index];
	member->parent = waiting->parent;
	member->depth =
		waiting->parent == MT_ANCESTRY_NONE ? 0 : tree->list[waiting->parent].depth + 1;
	entry = member->process.shimmed
			? mt_process_list_find(&reading->processes, member->process.pid)
			: NULL;
	if (!entry)
		return;
	member->state = entry->state;
	member->heap = entry->own;
	member->uses_cuda = entry->uses_cuda;
	/* A caller that wants the sums alone sends requests as well, which report the same error.
	 */
	if (member->state == MT_PROCESS_REFUSED && tree->detail == MT_PROCESS_TREE_MAPPINGS)
		mt_process_say(&member->process, entry->why.text);
}

/* Adds a process and its descendants, depth first, without recursion: the depth of a tree is up to
 * the processes. Each process is added once, so that a cycle of reused pids ends. */
static void add_descendants(struct reading *reading, size_t root)
{
	const struct mt_process *all = reading->processes.all;
	size_t all_count = reading->processes.all_count, count = 0;
	struct waiting *stack = mt_error_check_memory(calloc(all_count + 1, sizeof(*stack)));

	stack[count++] = (struct waiting){root, MT_ANCESTRY_NONE};
	while (count) {
		const struct waiting next = stack[--count];
		size_t own = reading->tree->count;

		if (reading->taken[next.index])
			continue;
		reading->taken[next.index] = true;
		add(reading, &next);
		for (size_t i = all_count; i-- > 0;)
			if (all[i].parent == all[next.index].pid && !reading->taken[i])
				stack[count++] = (struct waiting){i, own};
	}
	free(stack);
}

/* The list has the command lines of shimmed processes only. */
static void read_commands(struct mt_process_tree *tree)
{
	struct mt_process_probe *probes =
		mt_error_check_memory(calloc(tree->count + 1, sizeof(*probes)));
	size_t count = 0;

	for (size_t i = 0; i < tree->count; i++)
		if (!tree->list[i].process.shimmed && mt_process_may_probe(&tree->list[i].process))
			probes[count++] = (struct mt_process_probe){
				.process = &tree->list[i].process, .command = true};
	mt_process_probe_all(probes, count);
	free(probes);
}

void mt_process_tree_member_sums(const struct mt_member *member, struct mt_process_tree_sums *out)
{
	const struct mt_smaps_sizes *sizes = &member->smaps.total;

	*out = member->heap;
	out->rss_bytes = sizes->rss_bytes;
	out->pss_bytes = sizes->pss_bytes;
	out->swap_bytes = sizes->swap_pss_bytes;
	out->shm_bytes = sizes->pss_shmem_bytes;
	out->file_bytes = sizes->pss_file_bytes;
	out->private_bytes = sizes->private_clean_bytes + sizes->private_dirty_bytes;
	out->shared_bytes = member->fork.shared_bytes;
	out->copied_bytes = member->fork.copied_bytes;
	if (!member->memory_known)
		out->rss_bytes = member->process.rss_bytes;
}

/* Without a root pid, each shimmed process without a shimmed ancestor is a root. */
static bool is_root(const struct reading *reading, size_t index)
{
	const struct mt_process *all = reading->processes.all;

	if (reading->root)
		return all[index].pid == reading->root;
	return all[index].shimmed && mt_ancestry_shimmed_parent(all, reading->processes.all_count,
								index) == MT_ANCESTRY_NONE;
}

/* In the list they count as shimmed, which may be wrong. */
static void drop_unresponsive(struct mt_process_list *processes)
{
	for (size_t i = 0; i < processes->all_count; i++) {
		struct mt_process *process = &processes->all[i];

		if (process->shimmed &&
		    mt_process_list_find(processes, process->pid)->state == MT_PROCESS_UNRESPONSIVE)
			process->shimmed = false;
	}
}

enum mt_err mt_process_tree_read(pid_t root, enum mt_process_tree_detail detail,
				 struct mt_process_tree *out, struct mt_error_reason *why)
{
	struct mt_process_tree tree = {.detail = detail};
	struct reading reading = {.root = root, .tree = &tree};
	size_t all_count;

	mt_process_list_read(root ? MT_PROCESS_LIST_ALL : MT_PROCESS_LIST_SHOWN,
			     &reading.processes);
	drop_unresponsive(&reading.processes);
	all_count = reading.processes.all_count;
	reading.taken = mt_error_check_memory(calloc(all_count + 1, sizeof(*reading.taken)));
	tree.list = mt_error_check_memory(calloc(all_count + 1, sizeof(*tree.list)));
	for (size_t i = 0; i < all_count; i++)
		if (is_root(&reading, i))
			add_descendants(&reading, i);
	free(reading.taken);
	mt_process_list_free(&reading.processes);
	read_commands(&tree);
	for (size_t i = 0; i < tree.count; i++) {
		struct mt_member *member = &tree.list[i];
		struct mt_process_tree_sums own;

		read_memory(&tree, member);
		mt_process_tree_member_sums(member, &own);
		mt_tree_sums_add(&tree.sums, &own);
		tree.unknown_count += !member->memory_known;
		tree.forks_count += member->fork.is_fork;
		tree.uses_cuda |= member->uses_cuda;
	}
	if (root && !tree.count) {
		mt_process_tree_free(&tree);
		return mt_error_because(why, MT_ERR_UNKNOWN, "no process %d", (int)root);
	}
	*out = tree;
	return MT_ERR_OK;
}

void mt_process_tree_free(struct mt_process_tree *tree)
{
	for (size_t i = 0; i < tree->count; i++)
		mt_smaps_free(&tree->list[i].smaps);
	free(tree->list);
	memset(tree, 0, sizeof(*tree));
}

json_t *mt_process_tree_sums_json(const struct mt_process_tree *tree)
{
	bool copies = tree->detail == MT_PROCESS_TREE_MAPPINGS;
	json_t *object = json_object();

	mt_tree_sums_set_json(object, &tree->sums,
			      MT_SUM_memory | MT_SUM_gpu | (copies ? MT_SUM_fork : 0u), false);
	mt_json_set_u64(object, "processes_count", tree->count);
	mt_json_set_u64_if(object, "forks_count", copies, tree->forks_count);
	mt_json_set_u64(object, "unknown_count", tree->unknown_count);
	return object;
}
