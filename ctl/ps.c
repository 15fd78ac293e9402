/* ctl/ps.c -- `mtctl ps`: all shimmed processes as a tree, with what they and those below them hold. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/command.h"
#include "ctl/json.h"
#include "ctl/ps.h"
#include "ctl/statsdir.h"
#include "ctl/table.h"
#include "ctl/target.h"
#include "ctl/text.h"
#include "ctl/tree.h"

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

enum state { STATE_ASLEEP, STATE_AWAKE, STATE_REFUSED };

struct sums {
	uint64_t rss_bytes, live_bytes, idle_bytes, gpu_bytes;
};

/* One shimmed process; `place` in the list of all, `parent` among the nodes. */
struct node {
	size_t place, parent;
	enum state state;
	bool gpu; /* it has used CUDA */
	struct sums own, tree;
};

struct forest {
	struct mt_process *list;
	size_t list_count;
	struct node *nodes;
	size_t nodes_count;
	bool gpu; /* any of them has used CUDA */
};

static const char *const state_words[] = {"asleep", "awake", "refused"};

static void add_sums(struct sums *to, const struct sums *from)
{
	to->rss_bytes += from->rss_bytes;
	to->live_bytes += from->live_bytes;
	to->idle_bytes += from->idle_bytes;
	to->gpu_bytes += from->gpu_bytes;
}

static void read_node(const struct mt_process *process, struct node *node)
{
	struct mt_stats_head head;
	struct mt_why why;
	enum mt_err error = mt_target_read_head(process, &head, &why);

	node->own.rss_bytes = process->rss_bytes;
	node->state = error == MT_ERR_OK ? STATE_AWAKE : error == MT_ERR_NOT_AVAILABLE ? STATE_ASLEEP : STATE_REFUSED;
	if (node->state == STATE_REFUSED)
		mt_error_say("process %d (%s): %s", (int)process->pid, process->comm, why.text);
	if (node->state == STATE_AWAKE) {
		node->own.live_bytes = head.snapshot.heap_live_bytes;
		node->own.idle_bytes = head.snapshot.heap_idle_bytes;
		node->own.gpu_bytes = head.snapshot.gpu_reserved_bytes + head.snapshot.gpu_other_bytes;
		node->gpu = mt_statsfile_uses_cuda(&head);
	}
}

static size_t node_of_place(const struct forest *forest, size_t place)
{
	for (size_t i = 0; i < forest->nodes_count; i++)
		if (forest->nodes[i].place == place)
			return i;
	return MT_TREE_NONE;
}

/* Every process adds its own to all above it; the count of steps bounds a circle of reused pids. */
static void sum_up(struct forest *forest)
{
	for (size_t i = 0; i < forest->nodes_count; i++) {
		size_t above = i;

		for (size_t step = 0; above != MT_TREE_NONE && step < forest->nodes_count; step++) {
			add_sums(&forest->nodes[above].tree, &forest->nodes[i].own);
			above = forest->nodes[above].parent;
		}
	}
}

static struct forest read_forest(void)
{
	struct forest forest = {0};

	forest.list_count = mt_process_list(&forest.list);
	forest.nodes = mt_error_check_memory(calloc(forest.list_count + 1, sizeof(*forest.nodes)));
	for (size_t i = 0; i < forest.list_count; i++) {
		if (!forest.list[i].shimmed)
			continue;
		forest.nodes[forest.nodes_count].place = i;
		read_node(&forest.list[i], &forest.nodes[forest.nodes_count]);
		forest.gpu |= forest.nodes[forest.nodes_count++].gpu;
	}
	for (size_t i = 0; i < forest.nodes_count; i++)
		forest.nodes[i].parent = node_of_place(
			&forest, mt_tree_shimmed_parent(forest.list, forest.list_count, forest.nodes[i].place));
	sum_up(&forest);
	return forest;
}

static struct sums total_of(const struct forest *forest)
{
	struct sums total = {0};

	for (size_t i = 0; i < forest->nodes_count; i++)
		add_sums(&total, &forest->nodes[i].own);
	return total;
}

static void set_sums(json_t *object, const char *name, const struct sums *sums)
{
	json_t *member = json_object();

	mt_json_set_u64(member, "rss_bytes", sums->rss_bytes);
	mt_json_set_u64(member, "heap_live_bytes", sums->live_bytes);
	mt_json_set_u64(member, "heap_idle_bytes", sums->idle_bytes);
	mt_json_set_u64(member, "gpu_bytes", sums->gpu_bytes);
	mt_json_set(object, name, member);
}

static json_t *node_json(const struct forest *forest, const struct node *node)
{
	const struct mt_process *process = &forest->list[node->place];
	json_t *object = json_object();
	bool awake = node->state == STATE_AWAKE;

	mt_json_set_u64(object, "pid", (uint64_t)process->pid);
	mt_json_set_u64(object, "ppid", (uint64_t)process->parent);
	if (node->parent == MT_TREE_NONE)
		mt_json_set(object, "parent", json_null());
	else
		mt_json_set_u64(object, "parent", (uint64_t)forest->list[forest->nodes[node->parent].place].pid);
	mt_json_set_u64(object, "uid", process->uid);
	mt_json_set_text(object, "comm", process->comm);
	mt_json_set_text(object, "command", process->command);
	mt_json_set_text(object, "state", state_words[node->state]);
	mt_json_set_u64(object, "rss_bytes", node->own.rss_bytes);
	mt_json_set(object, "heap_live_bytes", awake ? mt_json_u64(node->own.live_bytes) : json_null());
	mt_json_set(object, "heap_idle_bytes", awake ? mt_json_u64(node->own.idle_bytes) : json_null());
	mt_json_set(object, "gpu_bytes", node->gpu ? mt_json_u64(node->own.gpu_bytes) : json_null());
	set_sums(object, "tree", &node->tree);
	return object;
}

static void print_json(const struct forest *forest)
{
	json_t *root = json_object(), *processes = json_array();
	struct sums total = total_of(forest);

	for (size_t i = 0; i < forest->nodes_count; i++)
		mt_json_append(processes, node_json(forest, &forest->nodes[i]));
	mt_json_set(root, "processes", processes);
	set_sums(root, "total", &total);
	mt_json_print(root, true);
}

static void add_node(struct mt_table *table, const struct forest *forest, const struct node *node, int depth)
{
	const struct mt_process *process = &forest->list[node->place];
	bool awake = node->state == STATE_AWAKE;
	char text[256];

	snprintf(text, sizeof(text), "%d", (int)process->pid);
	mt_table_add(table, text);
	mt_table_add(table, state_words[node->state]);
	mt_table_add(table, mt_text_bytes(node->own.rss_bytes).text);
	mt_table_add(table, awake ? mt_text_bytes(node->own.live_bytes).text : "-");
	mt_table_add(table, awake ? mt_text_bytes(node->own.idle_bytes).text : "-");
	mt_table_add(table, mt_text_bytes(node->tree.rss_bytes).text);
	if (forest->gpu)
		mt_table_add(table, node->gpu ? mt_text_bytes(node->own.gpu_bytes).text : "-");
	snprintf(text, sizeof(text), "%*s%s%.72s", depth < 20 ? depth * 2 : 40, "", depth ? "\\_ " : "",
		 process->command);
	mt_table_add(table, text);
}

/* Depth is bounded by the count of nodes even where reused pids close a circle: a circle has no root. */
static void add_below(struct mt_table *table, const struct forest *forest, size_t parent, int depth)
{
	for (size_t i = 0; i < forest->nodes_count; i++) {
		if (forest->nodes[i].parent != parent)
			continue;
		add_node(table, forest, &forest->nodes[i], depth);
		add_below(table, forest, i, depth + 1);
	}
}

static void add_total(struct mt_table *table, const struct forest *forest)
{
	struct sums total = total_of(forest);

	mt_table_add(table, "all");
	mt_table_add(table, "");
	mt_table_add(table, mt_text_bytes(total.rss_bytes).text);
	mt_table_add(table, mt_text_bytes(total.live_bytes).text);
	mt_table_add(table, mt_text_bytes(total.idle_bytes).text);
	mt_table_add(table, mt_text_bytes(total.rss_bytes).text);
	if (forest->gpu)
		mt_table_add(table, mt_text_bytes(total.gpu_bytes).text);
	mt_table_add(table, mt_text_count(forest->nodes_count).text);
}

static void print_text(const struct forest *forest)
{
	static const char *const heading[] = {"PID", "STATE", "RSS", "LIVE", "IDLE", "TREE"};
	struct mt_table *table;

	if (!forest->nodes_count) {
		puts("no process carries the shim; `mtctl run -- program...` starts one");
		return;
	}
	table = mt_table_new(forest->gpu ? "rlrrrrrl" : "rlrrrrl");
	for (size_t i = 0; i < sizeof(heading) / sizeof(heading[0]); i++)
		mt_table_add(table, heading[i]);
	if (forest->gpu)
		mt_table_add(table, "GPU");
	mt_table_add(table, "COMMAND");
	add_below(table, forest, MT_TREE_NONE, 0);
	add_total(table, forest);
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
	struct forest forest = read_forest();

	(json ? print_json : print_text)(&forest);
	free(forest.nodes);
	free(forest.list);
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
