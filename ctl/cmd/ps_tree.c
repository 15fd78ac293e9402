/* ctl/cmd/ps_tree.c -- `mtctl ps --tree`: process trees by the kernel's account of every page, with
 * shared and copied memory. */
#include <stdio.h>

#include "ctl/output/json.h"
#include "ctl/cmd/ps.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "ctl/process/process_name.h"

static unsigned flag(unsigned which, bool is_set)
{
	return is_set ? which : 0;
}

static unsigned flags_of_tree(const struct mt_process_tree *tree)
{
	return MT_SUM_any | flag(MT_SUM_fork, tree->forks_count) |
	       flag(MT_SUM_shm, tree->sums.shm_bytes) | flag(MT_SUM_swap, tree->sums.swap_bytes) |
	       flag(MT_SUM_heap, tree->awake_count) | flag(MT_SUM_gpu, tree->uses_cuda);
}

static unsigned flags_of_member(const struct mt_member *member)
{
	return MT_SUM_any | flag(MT_SUM_memory, member->memory_known) |
	       flag(MT_SUM_fork, member->fork.is_fork) |
	       flag(MT_SUM_heap, mt_member_is_awake(member)) | flag(MT_SUM_gpu, member->uses_cuda);
}

static void add_figures(struct mt_table *table, const struct mt_process_tree *tree,
			const struct mt_process_tree_sums *sums, const struct mt_member *member)
{
	for (const struct mt_tree_figure *figure = mt_tree_figures(); figure->key; figure++)
		if (figure->column & flags_of_tree(tree))
			mt_table_add_bytes(table,
					   !member || (figure->cell & flags_of_member(member)),
					   mt_tree_figure_value(figure, sums));
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
	mt_table_addf(table, "%*s%s%.72s", indent, "", indent ? "\\_ " : "", title);
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
	char heading[16];

	if (!tree->count) {
		puts("no process carries the shim; `mtctl run -- program...` starts one");
		return;
	}
	table = mt_table_new(">PID|<STATE");
	for (const struct mt_tree_figure *figure = mt_tree_figures(); figure->key; figure++)
		if (figure->column & flags_of_tree(tree)) {
			snprintf(heading, sizeof(heading), ">%s", figure->heading);
			mt_table_add_columns(table, heading);
		}
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

json_t *mt_process_tree_sums_json(const struct mt_process_tree *tree)
{
	bool copies = tree->detail == MT_PROCESS_TREE_MAPPINGS;
	json_t *object = json_object();

	mt_tree_sums_set_json(object, &tree->sums,
			      MT_SUM_memory | MT_SUM_heap | MT_SUM_gpu | flag(MT_SUM_fork, copies),
			      false);
	mt_json_set_u64(object, "processes_count", tree->count);
	mt_json_set_u64_if(object, "forks_count", copies, tree->forks_count);
	mt_json_set_u64(object, "unknown_count", tree->unknown_count);
	return object;
}

static json_t *member_json(const struct mt_process_tree *tree, const struct mt_member *member)
{
	const struct mt_process *process = &member->process;
	struct mt_process_tree_sums sums;
	json_t *object = json_object();

	mt_process_tree_member_sums(member, &sums);
	mt_tree_sums_set_json(object, &sums, flags_of_member(member), false);
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
