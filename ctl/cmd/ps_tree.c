/* ctl/cmd/ps_tree.c -- `mtctl ps --tree`: process trees by the kernel's account of every page, with
 * shared and copied memory. */
#include <stdio.h>

#include "ctl/output/json.h"
#include "ctl/cmd/ps.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "ctl/process/process_name.h"

/* What a column needs. */
enum {
	ANY = 1u << 0,
	MEMORY = 1u << 1, /* smaps could be read */
	FORK = 1u << 2,
	SHM = 1u << 3,
	SWAP = 1u << 4,
	HEAP = 1u << 5, /* awake */
	GPU = 1u << 6,
};

static unsigned flag(unsigned which, bool is_set)
{
	return is_set ? which : 0;
}

static unsigned flags_of_tree(const struct mt_process_tree *tree)
{
	return ANY | flag(FORK, tree->forks_count) | flag(SHM, tree->sums.shm_bytes) |
	       flag(SWAP, tree->sums.swap_bytes) | flag(HEAP, tree->awake_count) |
	       flag(GPU, tree->uses_cuda);
}

static unsigned flags_of_member(const struct mt_member *member)
{
	return ANY | flag(MEMORY, member->memory_known) | flag(FORK, member->fork.is_fork) |
	       flag(HEAP, mt_member_is_awake(member)) | flag(GPU, member->uses_cuda);
}

#define COLUMN(heading, in_tree, in_member, name)                                                  \
	{                                                                                          \
		heading, in_tree, in_member, offsetof(struct mt_process_tree_sums, name)           \
	}
static const struct column {
	const char *heading;
	unsigned in_tree, in_member; /* flags that show the column, and that fill in the cell */
	size_t offset;               /* within struct mt_process_tree_sums */
} columns[] = {
	COLUMN(">RSS", ANY, ANY, rss_bytes),
	COLUMN(">PSS", ANY, MEMORY, pss_bytes),
	COLUMN(">PRIVATE", ANY, MEMORY, private_bytes),
	COLUMN(">SHARED", FORK, FORK, shared_bytes),
	COLUMN(">COPIED", FORK, FORK, copied_bytes),
	COLUMN(">SHM", SHM, MEMORY, shm_bytes),
	COLUMN(">SWAP", SWAP, MEMORY, swap_bytes),
	COLUMN(">LIVE", HEAP, HEAP, heap_live_bytes),
	COLUMN(">REUSABLE", HEAP, HEAP, heap_dirty_bytes),
	COLUMN(">GPU", GPU, GPU, gpu_bytes),
};
#define COLUMNS_COUNT (sizeof(columns) / sizeof(columns[0]))

static uint64_t value_of(const struct mt_process_tree_sums *sums, const struct column *column)
{
	return *(const uint64_t *)(const void *)((const char *)sums + column->offset);
}

static void add_figures(struct mt_table *table, const struct mt_process_tree *tree,
			const struct mt_process_tree_sums *sums, const struct mt_member *member)
{
	for (size_t i = 0; i < COLUMNS_COUNT; i++) {
		if (!(columns[i].in_tree & flags_of_tree(tree)))
			continue;
		mt_table_add_bytes(table,
				   !member || (columns[i].in_member & flags_of_member(member)),
				   value_of(sums, &columns[i]));
	}
}

static void add_member(struct mt_table *table, const struct mt_process_tree *tree,
		       const struct mt_member *member)
{
	struct mt_process_tree_sums sums;
	int indent = (int)(member->depth < 20 ? member->depth : 20) * 2;
	char title[sizeof(member->process.command)];

	mt_process_tree_member_sums(member, &sums);
	mt_table_addf(table, "%d", (int)member->process.pid);
	mt_table_add(table, mt_member_state_word(member));
	add_figures(table, tree, &sums, member);
	mt_process_title(member->process.command, title, sizeof(title));
	mt_table_addf(table, "%*s%s%.*s", indent, "", indent ? "\\_ " : "", mt_text_fit(title, 72),
		      title);
}

static void print_meaning(const struct mt_process_tree *tree)
{
	const struct mt_process_tree_sums *sums = &tree->sums;

	printf("\nPSS is what they hold together: %s. ", mt_text_bytes(sums->pss_bytes).text);
	printf("RSS adds up to %s, with shared pages counted in every process that maps them.\n",
	       mt_text_bytes(sums->rss_bytes).text);
	if (tree->forks_count)
		printf("Copy-on-write of %s: %s are shared with relatives, about %s are copies.\n",
		       mt_text_counted(tree->forks_count, "forked process", "forked processes")
			       .text,
		       mt_text_bytes(sums->shared_bytes).text,
		       mt_text_bytes(sums->copied_bytes).text);
	if (tree->unknown_count)
		printf("The memory of %s could not be read; only RSS is in the sums.\n",
		       mt_text_counted(tree->unknown_count, "process", "processes").text);
}

static void print_text(const struct mt_process_tree *tree)
{
	struct mt_table *table;

	if (!tree->count) {
		puts("no process carries the shim; `mtctl run -- program...` starts one");
		return;
	}
	table = mt_table_new(">PID|<STATE");
	for (size_t i = 0; i < COLUMNS_COUNT; i++)
		if ((columns[i].in_tree & flags_of_tree(tree)))
			mt_table_add_columns(table, columns[i].heading);
	mt_table_add_columns(table, "<COMMAND");
	for (size_t i = 0; i < tree->count; i++)
		add_member(table, tree, &tree->list[i]);
	mt_table_add_row(table, "all", "", NULL);
	add_figures(table, tree, &tree->sums, NULL);
	mt_table_add(table, mt_text_count(tree->count).text);
	mt_table_print(table);
	print_meaning(tree);
}

/* ---- JSON ---- */

static json_t *sums_json(const struct mt_process_tree_sums *sums, unsigned known)
{
	json_t *object = json_object();

	mt_json_set_u64(object, "rss_bytes", sums->rss_bytes);
	mt_json_set_u64_if(object, "pss_bytes", known & MEMORY, sums->pss_bytes);
	mt_json_set_u64_if(object, "private_bytes", known & MEMORY, sums->private_bytes);
	mt_json_set_u64_if(object, "shm_bytes", known & MEMORY, sums->shm_bytes);
	mt_json_set_u64_if(object, "file_bytes", known & MEMORY, sums->file_bytes);
	mt_json_set_u64_if(object, "swap_bytes", known & MEMORY, sums->swap_bytes);
	mt_json_set_u64_if(object, "cow_shared_bytes", known & FORK, sums->shared_bytes);
	mt_json_set_u64_if(object, "cow_copied_bytes", known & FORK, sums->copied_bytes);
	mt_json_set_u64_if(object, "heap_live_bytes", known & HEAP, sums->heap_live_bytes);
	mt_json_set_u64_if(object, "heap_idle_bytes", known & HEAP, sums->heap_idle_bytes);
	mt_json_set_u64_if(object, "heap_dirty_bytes", known & HEAP, sums->heap_dirty_bytes);
	mt_json_set_u64_if(object, "gpu_bytes", known & GPU, sums->gpu_bytes);
	return object;
}

json_t *mt_process_tree_sums_json(const struct mt_process_tree *tree)
{
	bool copies = tree->detail == MT_PROCESS_TREE_MAPPINGS;
	json_t *object = sums_json(&tree->sums, MEMORY | HEAP | GPU | flag(FORK, copies));

	mt_json_set_u64(object, "processes_count", tree->count);
	mt_json_set_u64_if(object, "forks_count", copies, tree->forks_count);
	mt_json_set_u64(object, "unknown_count", tree->unknown_count);
	return object;
}

static json_t *member_json(const struct mt_process_tree *tree, const struct mt_member *member)
{
	const struct mt_process *process = &member->process;
	struct mt_process_tree_sums sums;
	json_t *object;

	mt_process_tree_member_sums(member, &sums);
	object = sums_json(&sums, flags_of_member(member));
	mt_json_set_u64(object, "pid", (uint64_t)process->pid);
	mt_json_set_u64(object, "ppid", (uint64_t)process->parent);
	mt_json_set_u64_if(object, "parent", member->parent != MT_ANCESTRY_NONE,
			   member->parent != MT_ANCESTRY_NONE
				   ? (uint64_t)tree->list[member->parent].process.pid
				   : 0);
	mt_json_set_u64(object, "depth", member->depth);
	mt_json_set_u64(object, "uid", process->uid);
	mt_json_set_text(object, "comm", process->comm);
	mt_json_set_text(object, "command", process->command);
	mt_json_set_text(object, "state", mt_member_state_word(member));
	mt_json_set_bool(object, "forked", member->fork.is_fork);
	return object;
}

static void print_json(const struct mt_process_tree *tree)
{
	json_t *root = json_object(), *processes = json_array();

	for (size_t i = 0; i < tree->count; i++)
		mt_json_append(processes, member_json(tree, &tree->list[i]));
	mt_json_set(root, "processes", processes);
	mt_json_set(root, "total", mt_process_tree_sums_json(tree));
	mt_json_print(root, true);
}

int mt_ps_tree(pid_t root, bool json)
{
	struct mt_process_tree tree;
	struct mt_error_reason why;

	if (mt_process_tree_read(root, MT_PROCESS_TREE_MAPPINGS, &tree, &why) != MT_ERR_OK)
		return mt_error_fail(MT_EXIT_NO_PROCESS, &why);
	(json ? print_json : print_text)(&tree);
	mt_process_tree_free(&tree);
	return MT_EXIT_OK;
}
