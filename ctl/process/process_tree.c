/* ctl/process/process_tree.c -- see process_tree.h. */
#include "ctl/process/process_tree.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/process/cow_sharing.h"
#include "ctl/process/process_probe.h"

/* copied by a child: less is not worth a look at pages */
#define COMPARE_BYTES ((uint64_t)4 << 20)

/* What is known while the tree is put together. */
struct reading {
	struct mt_process_list processes;
	pid_t root;
	struct mt_process_tree *tree;
	bool *taken; /* for each of processes.all */
};

bool mt_member_is_awake(const struct mt_member *member)
{
	return member->process.shimmed && member->state == MT_PROCESS_AWAKE;
}

const char *mt_member_state_word(const struct mt_member *member)
{
	return member->process.shimmed ? mt_process_state_word(member->state) : "plain";
}

/* What smaps takes for copied is that only as far as the pages are alike. */
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
	struct mt_why why;
	enum mt_err error;

	if (tree->detail == MT_PROCESS_TREE_MAPPINGS)
		error = mt_smaps_read(&member->process, &member->smaps, &why);
	else
		error = mt_smaps_read_total(&member->process, &member->smaps.total, &why);
	member->memory_known = !error;
	if (member->memory_known && parent && parent->memory_known)
		compare(member, parent);
}

/* One that is to be taken, and where its parent is in the tree. */
struct waiting {
	size_t place, parent;
};

static void add(struct reading *reading, const struct waiting *waiting)
{
	struct mt_process_tree *tree = reading->tree;
	struct mt_member *member = &tree->list[tree->count++];
	const struct mt_process_list_entry *entry;

	member->process = reading->processes.all[waiting->place];
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
	/* Who wants the sums alone asks the process for something, too, and is told the same again.
	 */
	if (member->state == MT_PROCESS_REFUSED && tree->detail == MT_PROCESS_TREE_MAPPINGS)
		mt_process_say(&member->process, entry->why.text);
}

/* Depth first, and not by recursion: how deep a tree is, is up to whoever starts the processes. No
 * process is taken twice, so that a circle of reused pids ends; each waits once at most, for the
 * one that is its parent. */
static void take(struct reading *reading, size_t root)
{
	const struct mt_process *all = reading->processes.all;
	size_t all_count = reading->processes.all_count, count = 0;
	struct waiting *stack = mt_error_check_memory(calloc(all_count + 1, sizeof(*stack)));

	stack[count++] = (struct waiting){root, MT_ANCESTRY_NONE};
	while (count) {
		const struct waiting next = stack[--count];
		size_t own = reading->tree->count;

		if (reading->taken[next.place])
			continue;
		reading->taken[next.place] = true;
		add(reading, &next);
		for (size_t i = all_count; i-- > 0;)
			if (all[i].parent == all[next.place].pid && !reading->taken[i])
				stack[count++] = (struct waiting){i, own};
	}
	free(stack);
}

/* The list has the command lines of shimmed processes alone. */
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

	*out = (struct mt_process_tree_sums){
		.rss_bytes = sizes->rss_bytes,
		.pss_bytes = sizes->pss_bytes,
		.swap_bytes = sizes->swap_pss_bytes,
		.shm_bytes = sizes->pss_shmem_bytes,
		.file_bytes = sizes->pss_file_bytes,
		.private_bytes = sizes->private_clean_bytes + sizes->private_dirty_bytes,
		.shared_bytes = member->fork.shared_bytes,
		.copied_bytes = member->fork.copied_bytes,
		.heap_live_bytes = member->heap.live_bytes,
		.heap_idle_bytes = member->heap.idle_bytes,
		.gpu_bytes = member->heap.gpu_bytes,
	};
	if (!member->memory_known)
		out->rss_bytes = member->process.rss_bytes;
}

static void add_member(struct mt_process_tree *tree, const struct mt_member *member)
{
	struct mt_process_tree_sums own;
	struct mt_process_tree_sums *sums = &tree->sums;

	mt_process_tree_member_sums(member, &own);
	sums->rss_bytes += own.rss_bytes;
	sums->pss_bytes += own.pss_bytes;
	sums->swap_bytes += own.swap_bytes;
	sums->shm_bytes += own.shm_bytes;
	sums->file_bytes += own.file_bytes;
	sums->private_bytes += own.private_bytes;
	sums->shared_bytes += own.shared_bytes;
	sums->copied_bytes += own.copied_bytes;
	sums->heap_live_bytes += own.heap_live_bytes;
	sums->heap_idle_bytes += own.heap_idle_bytes;
	sums->gpu_bytes += own.gpu_bytes;
	tree->unknown_count += !member->memory_known;
	tree->awake_count += mt_member_is_awake(member);
	tree->forks_count += member->fork.is_fork;
	tree->uses_cuda |= member->uses_cuda;
}

/* With no root every shimmed process that no other shimmed one stands above is one. */
static bool is_root(const struct reading *reading, size_t place)
{
	const struct mt_process *all = reading->processes.all;

	if (reading->root)
		return all[place].pid == reading->root;
	return all[place].shimmed && mt_ancestry_shimmed_parent(all, reading->processes.all_count,
								place) == MT_ANCESTRY_NONE;
}

/* The list shows them as shimmed, which they may not be. */
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
				 struct mt_process_tree *out, struct mt_why *why)
{
	struct mt_process_tree tree = {.detail = detail};
	struct reading reading = {.root = root, .tree = &tree};
	size_t all_count;

	mt_process_list_read(&reading.processes);
	drop_unresponsive(&reading.processes);
	all_count = reading.processes.all_count;
	reading.taken = mt_error_check_memory(calloc(all_count + 1, sizeof(*reading.taken)));
	tree.list = mt_error_check_memory(calloc(all_count + 1, sizeof(*tree.list)));
	for (size_t i = 0; i < all_count; i++)
		if (is_root(&reading, i))
			take(&reading, i);
	free(reading.taken);
	mt_process_list_free(&reading.processes);
	read_commands(&tree);
	for (size_t i = 0; i < tree.count; i++) {
		read_memory(&tree, &tree.list[i]);
		add_member(&tree, &tree.list[i]);
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
