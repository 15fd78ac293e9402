/* ctl/channel/process_list.h -- all shimmed processes at one moment, with the figures that each has
 * last published: for ps, top, serve and export. The figures are up to 1 s old, or up to 30 s if
 * nothing changes.
 *
 * mt_process_list_read sends no request, writes nothing, and no process can delay it
 * (process_probe.h). A process that ends meanwhile is left out, or keeps its last figures. 1,000
 * awake processes take less than 50 ms, half of it in the kernel for /proc/PID/stat and cmdline
 * (`make bench-ps`); a second read within seconds takes less (process_probe.h). One thread may
 * call. */
#ifndef MT_CTL_CHANNEL_PROCESS_LIST_H
#define MT_CTL_CHANNEL_PROCESS_LIST_H

#include <jansson.h>

#include "ctl/figures/memory_parts.h"
#include "ctl/figures/stats_file.h"
#include "ctl/process/process.h"

/* MT_PROCESS_UNRESPONSIVE: a read of its maps did not return in time, or the processes of its user
 * have together used up their time. It may be without the shim. */
enum mt_process_state {
	MT_PROCESS_ASLEEP,
	MT_PROCESS_AWAKE,
	MT_PROCESS_REFUSED,
	MT_PROCESS_UNRESPONSIVE,
	MT_PROCESS_STATES_COUNT
};

struct mt_process_list_entry {
	struct mt_process process; /* first, for mt_process_compare_pids */
	/* index of the nearest shimmed ancestor, MT_ANCESTRY_NONE for a root */
	size_t parent;
	size_t depth; /* 0 for a root */
	enum mt_process_state state;
	struct mt_stats_head head;       /* MT_PROCESS_AWAKE */
	struct mt_stats_device *devices; /* devices_count of the head; NULL: none */
	/* MT_PROCESS_REFUSED: why its file is not believed, or its directory can hold none;
	 * UNRESPONSIVE */
	struct mt_error_reason why;
	bool uses_cuda;
	/* its RSS has moved since it published, and it did not reply to mt_process_list_refresh
	 */
	bool is_outdated;
	bool is_near;                     /* its file is in the directory that mtctl tries first */
	struct mt_process_tree_sums own;  /* 0 for what is not known */
	struct mt_process_tree_sums tree; /* its own and that of all shimmed ones below it */
};

struct mt_process_list {
	struct mt_process_list_entry *list; /* by pid */
	size_t count;
	/* indices of `list` in the order of a printed tree: children behind their parent */
	size_t *order;
	size_t order_count;
	/* every process, sorted by pid; of those without the shim only what mt_process_scan reads
	 */
	struct mt_process *all;
	size_t all_count;
	size_t denied_count;       /* that root may not look into, without CAP_SYS_PTRACE */
	bool uses_cuda, has_ranks; /* any of them */
	struct mt_process_tree_sums total;
};

/* SHOWN: if mtctl has an MT_DIR, only the processes of that directory (mt_stats_dir_is_shown).
 */
enum mt_process_list_scope { MT_PROCESS_LIST_SHOWN, MT_PROCESS_LIST_ALL };

/* Reads the list. The caller frees it with mt_process_list_free. */
void mt_process_list_read(enum mt_process_list_scope scope, struct mt_process_list *out);
void mt_process_list_free(struct mt_process_list *processes);

/* Asks the processes whose RSS has moved by 2 MB and a twentieth since they published for fresh
 * figures, for up to for_ms in all. Wakes no other process. */
void mt_process_list_refresh(struct mt_process_list *processes, uint64_t for_ms);

/* Returns the entry of this pid, or NULL. */
const struct mt_process_list_entry *mt_process_list_find(const struct mt_process_list *processes,
							 pid_t pid);

/* Returns "asleep", "awake", "refused" or "unresponsive". */
const char *mt_process_state_word(enum mt_process_state state);

/* Prints the answer of a command that takes several processes: one object with the array
 * `processes`, which it takes over. */
void mt_process_print_json(json_t *processes);

/* Returns an object with the processes, their total, and the memory limit that is nearest to being
 * reached, read from the kernel. The caller owns it. */
json_t *mt_process_list_json(const struct mt_process_list *processes);

#endif
