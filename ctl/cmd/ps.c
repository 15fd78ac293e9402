/* ctl/cmd/ps.c -- `mtctl ps`: all shimmed processes as a tree, with the sums of each and its
 * descendants. */
#include <stdio.h>

#include "ctl/channel/process_list.h"
#include "ctl/channel/target.h"
#include "ctl/channel/process_tree.h"
#include "ctl/channel/stats_dir.h"
#include "ctl/command.h"
#include "ctl/figures/memory_parts.h"
#include "ctl/output/json.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"
#include "sys/saturating.h"

/* for all processes that are asked for figures */
#define REFRESH_MS   250u
#define REFRESH_TEXT "250 ms"
/* Columns of the screen: from which on it has a bar, and FILES and OTHER. */
#define BAR_FROM   100
#define FILES_FROM 140

/* Cells of a line with the blanks after them. */
#define BAR_CELLS   25
#define BYTES_CELLS 11
#define FILES_CELLS (2 * BYTES_CELLS)
#define RANK_CELLS  6
#define FIXED_CELLS (9 + 8 + 4 * BYTES_CELLS)
#define COMMAND_MIN 14
#define LINE_INDENT 4 /* of a row that goes on in the next line */
#define COMMAND_MAX 112

/* What fits on the screen. */
struct view {
	const struct mt_process_list *processes;
	int bar_cells;     /* 0: no bar */
	int command_cells; /* characters of a command, with its indent */
	bool files;        /* also FILES and OTHER */
	uint64_t most_bytes;
};

/* Into a file or a pipe goes all that a line can have, but no bar. */
static struct view view_of(const struct mt_process_list *processes)
{
	int columns, rows, others;
	struct view view;

	mt_table_screen(&columns, &rows);
	view = (struct view){.processes = processes,
			     .bar_cells = columns >= BAR_FROM ? BAR_CELLS : 0,
			     .files = !columns || columns >= FILES_FROM,
			     .command_cells = COMMAND_MAX};
	for (size_t i = 0; i < processes->count; i++)
		view.most_bytes = mt_max_u64(view.most_bytes, processes->list[i].own.rss_bytes);
	others = FIXED_CELLS + (view.bar_cells ? BAR_CELLS + 2 : 0) +
		 (view.files ? FILES_CELLS : 0) + (processes->has_ranks ? RANK_CELLS : 0) +
		 (processes->uses_cuda ? BYTES_CELLS : 0);

	/* on a narrow screen it has a line of its own */
	if (columns && columns - others < COMMAND_MAX)
		view.command_cells = columns - others > COMMAND_MIN ? columns - others
				     : columns > LINE_INDENT        ? columns - LINE_INDENT
								    : 1;
	return view;
}

/* The heading is the legend. */
static void add_bar_column(struct mt_table *table)
{
	char text[sizeof(struct mt_parts_bar) * MT_PARTS_COUNT];
	size_t used = 0;

	for (int i = 0; i < MT_PARTS_COUNT; i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s%.5s",
					 i ? " " : "<",
					 mt_parts_bar_cell((enum mt_memory_part)i).text,
					 mt_memory_part_word((enum mt_memory_part)i));
	mt_table_add_columns(table, text);
}

static bool is_shown(const struct view *view, const struct mt_tree_figure *figure)
{
	if (figure->cell == MT_SUM_gpu && !view->processes->uses_cuda)
		return false;
	return figure->ps == MT_PS_yes || (figure->ps == MT_PS_wide && view->files);
}

/* Whether it is the first figure of GPUs, which stand behind TREE. The table begins with RSS. */
static bool begins_gpu(const struct mt_tree_figure *figure)
{
	return figure->cell == MT_SUM_gpu && figure[-1].cell != MT_SUM_gpu;
}

static void add_heading(struct mt_table *table, const struct mt_tree_figure *figure)
{
	char heading[16];

	snprintf(heading, sizeof(heading), ">%s", figure->heading);
	mt_table_add_columns(table, heading);
}

static void add_columns(const struct view *view, struct mt_table *table)
{
	if (view->processes->has_ranks)
		mt_table_add_columns(table, ">RANK");
	mt_table_add_columns(table, "<STATE");
	for (const struct mt_tree_figure *figure = mt_tree_figures(); figure->key; figure++) {
		if (begins_gpu(figure))
			mt_table_add_columns(table, ">TREE");
		if (is_shown(view, figure))
			add_heading(table, figure);
	}
	if (view->bar_cells)
		add_bar_column(table);
	mt_table_add_columns(table, "<COMMAND");
}

static unsigned flag(unsigned which, bool is_set)
{
	return is_set ? which : 0;
}

/* A star: the figure is older than the RSS beside it. entry NULL: the line of all. */
static void add_sums(const struct view *view, struct mt_table *table,
		     const struct mt_process_list_entry *entry)
{
	const struct mt_process_tree_sums *sums = entry ? &entry->own : &view->processes->total,
					  *tree = entry ? &entry->tree : &view->processes->total;
	unsigned has = MT_SUM_any | flag(MT_SUM_heap, sums->parts.is_known) |
		       flag(MT_SUM_awake, !entry || entry->state == MT_PROCESS_AWAKE) |
		       flag(MT_SUM_gpu, !entry || entry->uses_cuda);

	for (const struct mt_tree_figure *figure = mt_tree_figures(); figure->key; figure++) {
		bool is_known = figure->cell & has;
		bool is_outdated =
			figure->cell & (MT_SUM_heap | MT_SUM_awake) && entry && entry->is_outdated;

		if (begins_gpu(figure))
			mt_table_add_bytes(table, true, tree->rss_bytes);
		if (is_shown(view, figure))
			mt_table_addf(
				table, "%s%s",
				is_known ? mt_text_bytes(mt_tree_figure_value(figure, sums)).text
					 : "-",
				is_known && is_outdated ? "*" : "");
	}
}

static void add_entry(const struct view *view, struct mt_table *table,
		      const struct mt_process_list_entry *entry)
{
	bool awake = entry->state == MT_PROCESS_AWAKE;
	int indent = (int)(entry->depth < 20 ? entry->depth : 20) * 2;
	char title[sizeof(entry->process.command)], command[256];

	mt_table_addf(table, "%d", (int)entry->process.pid);
	if (view->processes->has_ranks)
		mt_table_add(table, *entry->head.rank ? entry->head.rank : "-");
	mt_table_add(table, mt_process_state_word(entry->state));
	add_sums(view, table, entry);
	if (view->bar_cells)
		mt_table_add(table, awake ? mt_parts_bar(&entry->own.parts, view->most_bytes,
							 view->bar_cells)
						    .text
					  : "");
	mt_process_title(entry->process.command, title, sizeof(title));
	snprintf(command, sizeof(command), "%*s%s%.*s", indent, "", indent ? "\\_ " : "",
		 mt_text_fit(title, 72), title);
	mt_table_addf(table, "%.*s", mt_text_fit(command, view->command_cells), command);
}

static void add_total(const struct view *view, struct mt_table *table)
{
	const struct mt_process_list *processes = view->processes;

	mt_table_add(table, "all");
	if (processes->has_ranks)
		mt_table_add(table, "");
	mt_table_add(table, "");
	add_sums(view, table, NULL);
	if (view->bar_cells)
		mt_table_add(table, "");
	mt_table_add(table, mt_text_count(processes->count).text);
}

static void print_outdated(const struct mt_process_list *processes)
{
	for (size_t i = 0; i < processes->count; i++)
		if (processes->list[i].is_outdated) {
			puts("* of a time when RSS was another one; no reply within " REFRESH_TEXT);
			return;
		}
}

static void print_text(const struct mt_process_list *processes)
{
	const struct view view = view_of(processes);
	struct mt_table *table;

	if (!processes->count) {
		puts("no process carries the shim; `mtctl run -- program...` starts one");
		return;
	}
	table = mt_table_new(">PID");
	add_columns(&view, table);
	for (size_t i = 0; i < processes->order_count; i++)
		add_entry(&view, table, &processes->list[processes->order[i]]);
	add_total(&view, table);
	mt_table_print(table);
	print_outdated(processes);
}

static void print_json(const struct mt_process_list *processes)
{
	mt_json_print(mt_process_list_json(processes), true);
}

static void print_pids(const struct mt_process_list *processes)
{
	for (size_t i = 0; i < processes->count; i++)
		printf("%d\t%s\n", (int)processes->list[i].process.pid,
		       processes->list[i].process.command);
}

/* ---- ps --tree ---- */

/* Process trees by the kernel's account of every page, with shared and copied memory. */

static unsigned flags_of_tree(const struct mt_process_tree *tree)
{
	return MT_SUM_any | flag(MT_SUM_fork, tree->forks_count) |
	       flag(MT_SUM_shm, tree->sums.shm_bytes) | flag(MT_SUM_swap, tree->sums.swap_bytes) |
	       flag(MT_SUM_heap, tree->sums.parts.is_known) | flag(MT_SUM_gpu, tree->uses_cuda);
}

static unsigned flags_of_member(const struct mt_member *member)
{
	return MT_SUM_any | flag(MT_SUM_memory, member->memory_known) |
	       flag(MT_SUM_fork, member->fork.is_fork) |
	       flag(MT_SUM_heap, member->heap.parts.is_known) | flag(MT_SUM_gpu, member->uses_cuda);
}

static void add_figures(struct mt_table *table, const struct mt_process_tree *tree,
			const struct mt_process_tree_sums *sums, const struct mt_member *member)
{
	for (const struct mt_tree_figure *figure = mt_tree_figures(); figure->key; figure++)
		if (figure->tree & flags_of_tree(tree))
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

static void print_tree_text(const struct mt_process_tree *tree)
{
	struct mt_table *table;

	if (!tree->count) {
		puts("no process carries the shim; `mtctl run -- program...` starts one");
		return;
	}
	table = mt_table_new(">PID|<STATE");
	for (const struct mt_tree_figure *figure = mt_tree_figures(); figure->key; figure++)
		if (figure->tree & flags_of_tree(tree))
			add_heading(table, figure);
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

static void print_tree_json(const struct mt_process_tree *tree)
{
	json_t *root = json_object(), *processes = json_array();

	for (size_t i = 0; i < tree->count; i++)
		mt_json_append(processes, member_json(tree, &tree->list[i]));
	mt_json_set(root, "processes", processes);
	mt_json_set(root, "total", mt_process_tree_sums_json(tree));
	mt_json_print(root, true);
}

/* ---- the command line ---- */

struct wanted {
	bool json, pids;
	struct mt_option_tree tree;
};

static int run_tree(const char *pid_text, bool json)
{
	struct mt_process_tree tree;
	struct mt_error_reason why;
	pid_t root = 0;
	int code = pid_text ? mt_target_choose(pid_text, true, &root) : MT_EXIT_OK;

	if (code != MT_EXIT_OK)
		return code;
	if (mt_process_tree_read(root, MT_PROCESS_TREE_MAPPINGS, &tree, &why) != MT_ERR_OK)
		return mt_error_fail(MT_EXIT_NO_PROCESS, &why);
	(json ? print_tree_json : print_tree_text)(&tree);
	mt_process_tree_free(&tree);
	return MT_EXIT_OK;
}

static int run_list(void (*print)(const struct mt_process_list *))
{
	struct mt_process_list processes;

	mt_process_list_read(MT_PROCESS_LIST_SHOWN, &processes);
	mt_stats_dir_sweep(processes.all, processes.all_count);
	if (print != print_pids)
		mt_process_list_refresh(&processes, REFRESH_MS);
	for (size_t i = 0; i < processes.count; i++)
		if (processes.list[i].state == MT_PROCESS_REFUSED ||
		    processes.list[i].state == MT_PROCESS_UNRESPONSIVE)
			mt_process_say(&processes.list[i].process, processes.list[i].why.text);
	print(&processes);
	if (processes.denied_count)
		mt_error_say("processes that root may not look into are left out: %zu. "
			     "CAP_SYS_PTRACE is missing, or the kernel forbids it",
			     processes.denied_count);
	mt_process_list_free(&processes);
	return MT_EXIT_OK;
}

int mt_command_ps(int argc, char **argv)
{
	struct wanted wanted = {0};
	const struct mt_option options[] = {{.name = "json", .target = &wanted.json},
					    {.name = "pids", .target = &wanted.pids},
					    {.name = "tree",
					     .target = &wanted.tree,
					     .take = mt_option_take_tree,
					     .value_optional = true},
					    {0}};
	const struct mt_command_line line = {"ps", NULL, options, 0, 1};
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	if (argc - optind > (wanted.tree.is_wanted && !wanted.tree.pid) ||
	    (wanted.pids && (wanted.json || wanted.tree.is_wanted)))
		return mt_command_misused("ps");
	if (!wanted.tree.is_wanted)
		return run_list(wanted.pids ? print_pids : wanted.json ? print_json : print_text);
	mt_stats_dir_sweep(NULL, 0);
	return run_tree(wanted.tree.pid ? wanted.tree.pid : argv[optind], wanted.json);
}
