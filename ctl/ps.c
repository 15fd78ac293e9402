/* ctl/ps.c -- `mtctl ps`: all shimmed processes as a tree, with what they and those below them hold. */
#include <getopt.h>
#include <stdio.h>

#include "ctl/command.h"
#include "ctl/json.h"
#include "ctl/ps.h"
#include "ctl/roster.h"
#include "ctl/statsdir.h"
#include "ctl/table.h"
#include "ctl/text.h"

static const char help[] =
	"All processes of yours (for root: of everybody) whose maps hold libmtshim.so. Indented: started by\n"
	"the one above. TREE is the RSS of a process and of all shimmed ones below it; pages that processes\n"
	"share are counted in each. GPU, where any uses one: device memory that it holds from the driver, of\n"
	"every kind that is counted. LIVE and IDLE are what a process has last published: up\n"
	"to a second ago, or half a minute where nothing moves (mtctl stat asks anew). A process that is\n"
	"asleep is too small to be looked after.\n\n"
	"  --tree [PID]  PID, and whatever descends from it, shimmed or not (without PID: from all shimmed\n"
	"                processes), by what the kernel says of every page. PSS: pages that n processes share\n"
	"                count 1/n in each, so that it may be added up. PRIVATE: would go with the process.\n"
	"                SHARED: of a forked one, anonymous memory of which there is still one copy for it and\n"
	"                its relatives. COPIED, an estimate: what was its parent's at the fork and is there\n"
	"                twice by now. SHM: of the PSS, /dev/shm, memfd and other shared memory\n"
	"  --json        one object\n";

static void set_sums(json_t *object, const char *name, const struct mt_roster_sums *sums)
{
	json_t *member = json_object();

	mt_json_set_u64(member, "rss_bytes", sums->rss_bytes);
	mt_json_set_u64(member, "heap_live_bytes", sums->live_bytes);
	mt_json_set_u64(member, "heap_idle_bytes", sums->idle_bytes);
	mt_json_set_u64(member, "gpu_bytes", sums->gpu_bytes);
	mt_json_set(object, name, member);
}

static json_t *entry_json(const struct mt_roster *roster, const struct mt_roster_entry *entry)
{
	const struct mt_process *process = &entry->process;
	json_t *object = json_object();
	bool awake = entry->state == MT_ROSTER_AWAKE;

	mt_json_set_u64(object, "pid", (uint64_t)process->pid);
	mt_json_set_u64(object, "ppid", (uint64_t)process->parent);
	if (entry->parent == MT_TREE_NONE)
		mt_json_set(object, "parent", json_null());
	else
		mt_json_set_u64(object, "parent", (uint64_t)roster->list[entry->parent].process.pid);
	mt_json_set_u64(object, "uid", process->uid);
	mt_json_set_text(object, "comm", process->comm);
	mt_json_set_text(object, "command", process->command);
	mt_json_set_text(object, "state", mt_roster_state(entry->state));
	mt_json_set_u64(object, "rss_bytes", entry->own.rss_bytes);
	mt_json_set(object, "heap_live_bytes", awake ? mt_json_u64(entry->own.live_bytes) : json_null());
	mt_json_set(object, "heap_idle_bytes", awake ? mt_json_u64(entry->own.idle_bytes) : json_null());
	mt_json_set(object, "gpu_bytes", entry->uses_cuda ? mt_json_u64(entry->own.gpu_bytes) : json_null());
	set_sums(object, "tree", &entry->tree);
	return object;
}

static void print_json(const struct mt_roster *roster)
{
	json_t *root = json_object(), *processes = json_array();

	for (size_t i = 0; i < roster->count; i++)
		mt_json_append(processes, entry_json(roster, &roster->list[i]));
	mt_json_set(root, "processes", processes);
	set_sums(root, "total", &roster->total);
	mt_json_print(root, true);
}

static void add_entry(struct mt_table *table, const struct mt_roster *roster, const struct mt_roster_entry *entry, int depth)
{
	const struct mt_process *process = &entry->process;
	bool awake = entry->state == MT_ROSTER_AWAKE;
	char text[256];

	snprintf(text, sizeof(text), "%d", (int)process->pid);
	mt_table_add(table, text);
	mt_table_add(table, mt_roster_state(entry->state));
	mt_table_add(table, mt_text_bytes(entry->own.rss_bytes).text);
	mt_table_add(table, awake ? mt_text_bytes(entry->own.live_bytes).text : "-");
	mt_table_add(table, awake ? mt_text_bytes(entry->own.idle_bytes).text : "-");
	mt_table_add(table, mt_text_bytes(entry->tree.rss_bytes).text);
	if (roster->uses_cuda)
		mt_table_add(table, entry->uses_cuda ? mt_text_bytes(entry->own.gpu_bytes).text : "-");
	snprintf(text, sizeof(text), "%*s%s%.72s", depth < 20 ? depth * 2 : 40, "", depth ? "\\_ " : "",
		 process->command);
	mt_table_add(table, text);
}

/* Depth is bounded by the count of processes even where reused pids close a circle: a circle has no root. */
static void add_below(struct mt_table *table, const struct mt_roster *roster, size_t parent, int depth)
{
	for (size_t i = 0; i < roster->count; i++) {
		if (roster->list[i].parent != parent)
			continue;
		add_entry(table, roster, &roster->list[i], depth);
		add_below(table, roster, i, depth + 1);
	}
}

static void add_total(struct mt_table *table, const struct mt_roster *roster)
{

	mt_table_add(table, "all");
	mt_table_add(table, "");
	mt_table_add(table, mt_text_bytes(roster->total.rss_bytes).text);
	mt_table_add(table, mt_text_bytes(roster->total.live_bytes).text);
	mt_table_add(table, mt_text_bytes(roster->total.idle_bytes).text);
	mt_table_add(table, mt_text_bytes(roster->total.rss_bytes).text);
	if (roster->uses_cuda)
		mt_table_add(table, mt_text_bytes(roster->total.gpu_bytes).text);
	mt_table_add(table, mt_text_count(roster->count).text);
}

static void print_text(const struct mt_roster *roster)
{
	static const char *const heading[] = {"PID", "STATE", "RSS", "LIVE", "IDLE", "TREE"};
	struct mt_table *table;

	if (!roster->count) {
		puts("no process carries the shim; `mtctl run -- program...` starts one");
		return;
	}
	table = mt_table_new(roster->uses_cuda ? "rlrrrrrl" : "rlrrrrl");
	for (size_t i = 0; i < sizeof(heading) / sizeof(heading[0]); i++)
		mt_table_add(table, heading[i]);
	if (roster->uses_cuda)
		mt_table_add(table, "GPU");
	mt_table_add(table, "COMMAND");
	add_below(table, roster, MT_TREE_NONE, 0);
	add_total(table, roster);
	mt_table_print(table);
}

static int run_tree(const char *pid_text, bool json)
{
	pid_t root = 0;

	if (pid_text && mt_process_parse_pid(pid_text, &root) != MT_ERR_OK) {
		mt_error_say("'%s' is not a process id", pid_text);
		return MT_EXIT_USAGE;
	}
	return mt_ps_tree(root, json);
}

static int run_list(bool json)
{
	struct mt_roster roster;

	mt_roster_read(&roster);
	for (size_t i = 0; i < roster.count; i++)
		if (roster.list[i].state == MT_ROSTER_REFUSED)
			mt_error_say("process %d (%s): %s", (int)roster.list[i].process.pid, roster.list[i].process.comm,
				     roster.list[i].why.text);
	(json ? print_json : print_text)(&roster);
	mt_roster_free(&roster);
	return MT_EXIT_OK;
}

int mt_command_ps(int argc, char **argv)
{
	static const struct option options[] = {{"json", no_argument, NULL, 'j'},
						{"tree", optional_argument, NULL, 'r'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	bool json = false, tree = false;
	const char *pid = NULL;
	int option;

	while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		if (option == 'h')
			return mt_command_help("ps", help);
		if (option == '?')
			return MT_EXIT_USAGE;
		json |= option == 'j';
		tree |= option == 'r';
		if (option == 'r' && optarg)
			pid = optarg;
	}
	if (argc - optind > (tree && !pid))
		return mt_command_misused("ps");
	mt_statsdir_sweep();
	return tree ? run_tree(pid ? pid : argv[optind], json) : run_list(json);
}
