/* python/python.h -- Python's garbage collector, asked for from outside: only through a pending
 * call, which Python runs on its main thread between two bytecodes, never by taking the GIL from a
 * thread of ours (that can hang at shutdown). A collection honours gc.disable() and
 * gc.set_threshold(0), and is left out where it would copy pages that are shared with forked
 * processes. Any thread; no lock. */
#ifndef MT_PYTHON_H
#define MT_PYTHON_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats_layout.h"

struct mt_python_outcome {
	enum mt_gc_state state;
	uint64_t collected_count;
	uint64_t gc_ns;
	uint32_t frameworks;      /* whose device caches were emptied too, enum mt_framework_bit */
	uint32_t frameworks_left; /* and whose were not, because of a capture */
	bool asked_frameworks;    /* it was asked for */
	bool figures_known;       /* the three that follow were read */
	uint64_t blocks_count;    /* in Python's own arenas; 0 unknown, or it uses malloc */
	/* by PyTorch's device cache, and of it by its tensors; 0 unknown */
	uint64_t framework_reserved_bytes;
	uint64_t framework_allocated_bytes;
};

struct mt_python_options {
	void (*flush_thread)(void); /* may be NULL; runs after the collection, on the same thread */
	/* nobody waits for the outcome: a main thread in a system call has 2 s to return */
	bool patient;
	/* the calling thread is the program's and may be Python's: at once, in it */
	bool here;
	/* the device caches of its frameworks too, after the collection */
	bool empty_frameworks;
	bool cuda_used; /* see python/gpu_caches.h */
	/* for caches that an earlier one has left: those left now are not owed again */
	bool is_retry;
};

/* Whether there is a Python here that can be asked. */
bool mt_python_is_running(void);

/* Collects, and waits for the main thread to come by: up to 2 s, and unless it is patient 0.2 s
 * while it is in a system call. Where much is shared with forked processes it collects nothing and
 * empties only the frameworks' caches, if CUDA is used here. */
void mt_python_collect(const struct mt_python_options *options, struct mt_python_outcome *out);

/* Queues a collection and waits for nothing: near a limit, from inside malloc once the block is
 * made. Python's main thread runs it at its next bytecode; mt_python_came_late tells of it. Opens
 * no file and looks nothing up. False: not queued, since one is under way, Python has not been
 * found yet, or pages may be shared with forked processes. */
bool mt_python_collect_soon(void (*flush_thread)(void));

/* Makes a queued collection known to CPython where it was queued by another thread than its main
 * one. The worker. */
void mt_python_hurry(void);

/* Has a function run as a pending call, on the main thread, some time; nobody waits. False: not
 * queued. */
bool mt_python_queue(int (*function)(void *), void *argument);

/* A collection that came after its cleanup had stopped waiting; true once for each. */
bool mt_python_came_late(struct mt_python_outcome *out);

/* Caches were left because of a capture, also in a call that came late. take: true once. */
bool mt_python_owes_caches(void);
bool mt_python_take_owed(void);

/* The process ends: ask nothing of Python any more. */
void mt_python_end(void);
void mt_python_fork_child(void);

#endif
