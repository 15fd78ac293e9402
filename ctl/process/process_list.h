/* ctl/process/process_list.h -- all shimmed processes of one moment, and what each last said of
 * itself: what ps, top, serve and export show. Figures are as the processes last wrote them: up to
 * a second old, or half a minute where nothing moves. Nobody is woken, and nothing is written. A
 * process that ends meanwhile is left out, or keeps its last figures. 1,000 awake processes take
 * less than 50 ms, of which half are the kernel's for /proc/PID/stat and cmdline (`make bench-ps`).
 * Read again within seconds it costs less: see process_cache.h. No process keeps it waiting: see
 * process_probe.h. One thread of the program may call. */
#ifndef MT_CTL_PROCESS_PROCESS_LIST_H
#define MT_CTL_PROCESS_PROCESS_LIST_H

#include <jansson.h>

#include "ctl/process/process.h"
#include "ctl/process/stats_file.h"
#include "ctl/process/ancestry.h"

/* UNRESPONSIVE: it keeps the reader of its maps waiting, or the processes of its user together do.
 * It may not even be shimmed. */
enum mt_process_state {
	MT_PROCESS_ASLEEP,
	MT_PROCESS_AWAKE,
	MT_PROCESS_REFUSED,
	MT_PROCESS_UNRESPONSIVE,
	MT_PROCESS_STATES_COUNT
};

struct mt_process_list_sums {
	uint64_t rss_bytes; /* pages that processes share are counted in each */
	uint64_t live_bytes, idle_bytes, gpu_bytes;
};

struct mt_process_list_entry {
	struct mt_process process;
	/* place of the nearest shimmed ancestor, MT_ANCESTRY_NONE for a root */
	size_t parent;
	size_t depth; /* 0 for a root */
	enum mt_process_state state;
	struct mt_stats_head head; /* MT_PROCESS_AWAKE */
	/* head.devices_count of them; NULL: none, or it has just ended */
	struct mt_stats_device *devices;
	/* MT_PROCESS_REFUSED: why its file is not believed, or its directory can hold none;
	 * UNRESPONSIVE */
	struct mt_why why;
	bool uses_cuda;
	struct mt_process_list_sums own;  /* 0 for what is not known */
	struct mt_process_list_sums tree; /* its own and that of all shimmed ones below it */
};

struct mt_process_list {
	struct mt_process_list_entry *list; /* by pid */
	size_t count;
	/* places in `list` as a tree is printed: everybody right behind the parent */
	size_t *order;
	size_t order_count;
	/* every process that there is, by pid; of most no more than their place in the tree */
	struct mt_process *all;
	size_t all_count;
	bool uses_cuda, has_ranks; /* any of them */
	struct mt_process_list_sums total;
};

/* The caller frees. */
void mt_process_list_read(struct mt_process_list *out);
void mt_process_list_free(struct mt_process_list *processes);

/* The entry of this pid, or NULL. */
const struct mt_process_list_entry *mt_process_list_find(const struct mt_process_list *processes,
							 pid_t pid);

/* "asleep", "awake", "refused", "unresponsive". */
const char *mt_process_state_word(enum mt_process_state state);

/* One object: the processes, their total, and the memory limit that is nearest to being reached,
 * which it reads from the kernel. The caller owns it. One thread may call. */
json_t *mt_process_list_json(const struct mt_process_list *processes);

#endif
