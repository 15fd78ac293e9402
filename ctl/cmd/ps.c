/* ctl/cmd/ps.c -- `mtctl ps`: all shimmed processes as a tree, with the sums of each and its
 * descendants. */
#include <stdio.h>

#include "ctl/command.h"
#include "ctl/output/json.h"
#include "ctl/cmd/ps.h"
#include "ctl/process/process_list.h"
#include "ctl/process/stats_dir.h"
#include "ctl/process/target.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"

/* for all processes that are asked for figures */
#define REFRESH_MS   250u
#define REFRESH_TEXT "250 ms"

static const char help[] =
	"All processes of the user (as root: of all users) that have libmtshim.so mapped, as a\n"
	"tree. TREE is the RSS of a process and of all shimmed ones below it; pages that\n"
	"processes share are counted in each. GPU, where a process uses one: the device memory\n"
	"that it holds from the driver, of every kind that is counted. RANK, where a process\n"
	"has one: from RANK, OMPI_COMM_WORLD_RANK, PMI_RANK or SLURM_PROCID in its environment.\n\n"
	"LIVE and IDLE are what the process has last published. Where its RSS has moved since\n"
	"then, it is asked for new figures; a star marks those of a process that does not\n"
	"reply. asleep: the process is too\n"
	"small for the shim to act. refused: mtctl does not believe its file, or its MT_DIR\n"
	"cannot hold one; stderr has the reason. unresponsive: its mappings cannot be read in\n"
	"time, so it may be without the shim.\n\n"
	"  --tree [PID]  PID and all its descendants, shimmed or not (without PID: of all\n"
	"                shimmed processes), from the kernel's account of every page. PSS:\n"
	"                pages that n processes share count 1/n in each, so that it may be\n"
	"                added up. PRIVATE: would be freed with the process. SHARED: anonymous\n"
	"                memory of a forked process that it still shares with its relatives.\n"
	"                COPIED, an estimate: pages of its parent at the fork that exist twice\n"
	"                now. SHM: of the PSS, /dev/shm, memfd and other shared memory\n"
	"  --pids        a line for each: its PID, a tab, its command; for scripts\n"
	"  --json        one object\n";

/* A star: the figure is older than the RSS beside it. */
static void add_published(struct mt_table *table, bool is_known, bool is_outdated, uint64_t bytes)
{
	mt_table_addf(table, "%s%s", is_known ? mt_text_bytes(bytes).text : "-",
		      is_known && is_outdated ? "*" : "");
}

static void add_entry(struct mt_table *table, const struct mt_process_list *processes,
		      const struct mt_process_list_entry *entry)
{
	bool awake = entry->state == MT_PROCESS_AWAKE;
	int indent = (int)(entry->depth < 20 ? entry->depth : 20) * 2;

	mt_table_addf(table, "%d", (int)entry->process.pid);
	if (processes->has_ranks)
		mt_table_add(table, *entry->head.rank ? entry->head.rank : "-");
	mt_table_add(table, mt_process_state_word(entry->state));
	mt_table_add_bytes(table, true, entry->own.rss_bytes);
	add_published(table, awake, entry->is_outdated, entry->own.live_bytes);
	add_published(table, awake, entry->is_outdated, entry->own.idle_bytes);
	mt_table_add_bytes(table, true, entry->tree.rss_bytes);
	if (processes->uses_cuda)
		mt_table_add_bytes(table, entry->uses_cuda, entry->own.gpu_bytes);
	mt_table_addf(table, "%*s%s%.72s", indent, "", indent ? "\\_ " : "",
		      entry->process.command);
}

static void add_total(struct mt_table *table, const struct mt_process_list *processes)
{
	mt_table_add(table, "all");
	if (processes->has_ranks)
		mt_table_add(table, "");
	mt_table_add(table, "");
	mt_table_add_bytes(table, true, processes->total.rss_bytes);
	mt_table_add_bytes(table, true, processes->total.live_bytes);
	mt_table_add_bytes(table, true, processes->total.idle_bytes);
	mt_table_add_bytes(table, true, processes->total.rss_bytes);
	if (processes->uses_cuda)
		mt_table_add_bytes(table, true, processes->total.gpu_bytes);
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
	struct mt_table *table;

	if (!processes->count) {
		puts("no process carries the shim; `mtctl run -- program...` starts one");
		return;
	}
	table = mt_table_new(">PID");
	if (processes->has_ranks)
		mt_table_add_columns(table, ">RANK");
	mt_table_add_columns(table, "<STATE|>RSS|>LIVE|>IDLE|>TREE");
	if (processes->uses_cuda)
		mt_table_add_columns(table, ">GPU");
	mt_table_add_columns(table, "<COMMAND");
	for (size_t i = 0; i < processes->order_count; i++)
		add_entry(table, processes, &processes->list[processes->order[i]]);
	add_total(table, processes);
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

struct wanted {
	bool json, pids;
	struct mt_option_tree tree;
};

static int run_tree(const char *pid_text, bool json)
{
	pid_t root = 0;
	int code = pid_text ? mt_target_choose(pid_text, &root) : MT_EXIT_OK;

	return code == MT_EXIT_OK ? mt_ps_tree(root, json) : code;
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
	const struct mt_command_line line = {"ps", help, NULL, options, 0, 1};
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
