/* ctl/process/process_tree.c -- see process_tree.h. */
#include "ctl/process/process_tree.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl/process/cow_sharing.h"
#include "ctl/process/target.h"

#define PAUSES_MOST 50u /* of 1 ms */
/* copied by a child: less is not worth a look at pages */
#define COMPARE_BYTES ((uint64_t)4 << 20)

/* What is known while the tree is put together. */
struct reading {
	const struct mt_process *all;
	size_t all_count;
	pid_t root;
	struct mt_process_tree *tree;
	bool *taken; /* for each of `all` */
	unsigned pauses_count;
};

const char *mt_member_state_word(enum mt_member_state state)
{
	static const char *const words[MT_MEMBER_STATES_COUNT] = {"plain", "asleep", "awake",
								  "refused"};

	return state < MT_MEMBER_STATES_COUNT ? words[state] : "?";
}

/* A file may be half written. It is waited for, and no longer for all members together than for
 * one. */
static enum mt_err try_head(struct reading *reading, const struct mt_process *process,
			    struct mt_stats_head *out, struct mt_why *why)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	enum mt_err error = mt_target_try_head(process, out, why);

	for (; error == MT_ERR_INVALID && reading->pauses_count < PAUSES_MOST;
	     reading->pauses_count++) {
		nanosleep(&pause, NULL);
		error = mt_target_try_head(process, out, why);
	}
	return error;
}

/* tell: whoever wants the sums alone asks the process for something, too, and is told the same
 * again. */
static void read_head(struct reading *reading, struct mt_member *member, bool tell)
{
	struct mt_stats_head head;
	struct mt_why why;
	enum mt_err error;

	if (!member->process.shimmed)
		return;
	error = try_head(reading, &member->process, &head, &why);
	member->state = error == MT_ERR_NOT_AVAILABLE ? MT_MEMBER_ASLEEP
			: error                       ? MT_MEMBER_REFUSED
						      : MT_MEMBER_AWAKE;
	if (member->state == MT_MEMBER_REFUSED && tell)
		mt_error_say("process %d (%s): %s", (int)member->process.pid, member->process.comm,
			     why.text);
	if (error)
		return;
	member->head_known = true;
	member->heap_live_bytes = head.snapshot.heap_live_bytes;
	member->heap_idle_bytes = head.snapshot.heap_idle_bytes;
	member->gpu_bytes = head.snapshot.gpu_reserved_bytes + head.snapshot.gpu_other_bytes;
	member->uses_cuda = mt_stats_file_uses_cuda(&head);
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

static void read_member(struct reading *reading, struct mt_member *member)
{
	struct mt_process_tree *tree = reading->tree;
	const struct mt_member *parent =
		member->parent == MT_ANCESTRY_NONE ? NULL : &tree->list[member->parent];
	struct mt_why why;
	enum mt_err error;

	read_head(reading, member, tree->detail == MT_PROCESS_TREE_MAPPINGS);
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

	member->process = reading->all[waiting->place];
	member->parent = waiting->parent;
	member->depth =
		waiting->parent == MT_ANCESTRY_NONE ? 0 : tree->list[waiting->parent].depth + 1;
	read_member(reading, member);
}

/* Depth first, and not by recursion: how deep a tree is, is up to whoever starts the processes. No
 * process is taken twice, so that a circle of reused pids ends; each waits once at most, for the
 * one that is its parent. */
static void take(struct reading *reading, size_t root)
{
	struct waiting *stack =
		mt_error_check_memory(calloc(reading->all_count + 1, sizeof(*stack)));
	size_t count = 0;

	stack[count++] = (struct waiting){root, MT_ANCESTRY_NONE};
	while (count) {
		const struct waiting next = stack[--count];
		size_t own = reading->tree->count;

		if (reading->taken[next.place])
			continue;
		reading->taken[next.place] = true;
		add(reading, &next);
		for (size_t i = reading->all_count; i-- > 0;)
			if (reading->all[i].parent == reading->all[next.place].pid &&
			    !reading->taken[i])
				stack[count++] = (struct waiting){i, own};
	}
	free(stack);
}

void mt_process_tree_member_sums(const struct mt_member *member, struct mt_process_tree_sums *out)
{
	const struct mt_smaps_figures *figures = &member->smaps.total;

	*out = (struct mt_process_tree_sums){
		.rss_bytes = figures->rss_bytes,
		.pss_bytes = figures->pss_bytes,
		.swap_bytes = figures->swap_pss_bytes,
		.shm_bytes = figures->pss_shmem_bytes,
		.file_bytes = figures->pss_file_bytes,
		.private_bytes = figures->private_clean_bytes + figures->private_dirty_bytes,
		.shared_bytes = member->fork.shared_bytes,
		.copied_bytes = member->fork.copied_bytes,
		.heap_live_bytes = member->heap_live_bytes,
		.heap_idle_bytes = member->heap_idle_bytes,
		.gpu_bytes = member->gpu_bytes,
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
	tree->awake_count += member->state == MT_MEMBER_AWAKE;
	tree->forks_count += member->fork.is_fork;
	tree->uses_cuda |= member->uses_cuda;
}

/* With no root every shimmed process that no other shimmed one stands above is one. */
static bool is_root(const struct reading *reading, size_t place)
{
	if (reading->root)
		return reading->all[place].pid == reading->root;
	return reading->all[place].shimmed &&
	       mt_ancestry_shimmed_parent(reading->all, reading->all_count, place) ==
		       MT_ANCESTRY_NONE;
}

enum mt_err mt_process_tree_read(pid_t root, enum mt_process_tree_detail detail,
				 struct mt_process_tree *out, struct mt_why *why)
{
	struct mt_process *all;
	struct mt_process_tree tree = {.detail = detail};
	struct reading reading = {.root = root, .tree = &tree};

	reading.all_count = mt_process_read_all(&all);
	reading.all = all;
	reading.taken =
		mt_error_check_memory(calloc(reading.all_count + 1, sizeof(*reading.taken)));
	tree.list = mt_error_check_memory(calloc(reading.all_count + 1, sizeof(*tree.list)));
	for (size_t i = 0; i < reading.all_count; i++)
		if (is_root(&reading, i))
			take(&reading, i);
	for (size_t i = 0; i < tree.count; i++)
		add_member(&tree, &tree.list[i]);
	free(reading.taken);
	free(all);
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
