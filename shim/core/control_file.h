/* core/control_file.h -- wakes the worker thread and hands it requests. Owns the pending bits, and
 * the futex word on which the worker sleeps. Once the control file exists the word lies in it, so
 * that mtctl can wake the worker too. Any thread may call mt_control_notify; the worker thread
 * calls the rest, unless a section says otherwise. Takes no lock. Never loads from or stores to the
 * mapped file, where a truncated page raises SIGBUS: only the kernel (FUTEX_WAKE_OP, FUTEX_WAIT)
 * and pread access it. */
#ifndef MT_CORE_CONTROL_FILE_H
#define MT_CORE_CONTROL_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats_layout.h"

enum mt_control_bit {
	MT_CONTROL_SIGNAL = 1u << 0, /* the cleanup signal was delivered */
	MT_CONTROL_API = 1u << 1,    /* a thread called mt_trim or mt_round */
	MT_CONTROL_GC = 1u << 2,     /* a pending call of Python has run */
	MT_CONTROL_GROWTH = 1u << 3, /* the heap has mapped more memory */
	MT_CONTROL_EXIT = 1u << 4,   /* the worker must end */
	MT_CONTROL_OOM = 1u << 5,    /* a device is out of memory */
	MT_CONTROL_TRIM = 1u << 6,   /* a thread called malloc_trim */
	MT_CONTROL_DEVICES = 1u << 7 /* the program begins to use CUDA */
};

/* Sets bits and wakes the worker. bits: of enum mt_control_bit. Makes no system call if all of
 * them are set already, so a burst of signals wakes the worker once. Without a worker the bits wait
 * for one. Any thread and any signal handler; keeps errno. */
void mt_control_notify(uint32_t bits);

/* ---- worker thread ---- */

/* Sleeps on the word in the control file from now on, if there is one. keep: keep the file open,
 * for a thread with its own descriptor table. */
void mt_control_use_file(bool keep);

/* Returns the word, for mt_control_wait. Read it before the bits and the requests: a notification
 * that comes later then ends the wait. */
uint32_t mt_control_read_word(void);

/* Returns the bits that are set. */
uint32_t mt_control_pending_bits(void);

/* Clears bits. A later notification sets them again. */
void mt_control_clear_bits(uint32_t bits);

/* Sleeps until a notification, until the word differs from `word`, or for timeout_ns. */
void mt_control_wait(uint32_t word, uint64_t timeout_ns);

/* Reads the next request from the control file into *out and checks it. Returns false if there
 * is no new one. A kind that this version does not know is MT_REQUEST_COUNT. */
struct mt_request;
bool mt_control_read_request(struct mt_request *out);

/* Reads a request of another process for device memory that is newer than the last one. It may be
 * older than MT_RESCUE_NS: the other process has given up then. Returns false if there is none. */
struct mt_rescue_request;
bool mt_control_read_rescue(struct mt_rescue_request *out);

/* Resets the module in a forked child: the file and the bits are the parent's. */
void mt_control_fork_child(void);

/* ---- requests to other processes ---- */

/* Asks the other processes of this user for device memory that they do not use, by their control
 * files. Only files in the folder of this process's own files, of this user, of this pid namespace
 * and of living processes that use CUDA. Owns the list of the processes that were asked: one thread
 * at a time may call. Allocates nothing, keeps errno, waits for no other process, and keeps no file
 * open. */

/* Sends the request to up to MT_RESCUERS_COUNT processes, with the time of each write as asked_ns.
 * Returns how many got it; 0 also if this process has no files. */
#define MT_RESCUERS_COUNT 64
uint32_t mt_control_rescue_send(const struct mt_rescue_request *request);

/* What they have replied so far. */
struct mt_rescue_gain {
	uint64_t freed_bytes; /* all of them, also to others that had asked at the same time */
	uint64_t bytes;       /* to this process */
	uint64_t most_bytes;  /* of the one that gave most */
	uint64_t most_pid;    /* that one */
	uint32_t open_count;  /* processes from which more may come */
};
void mt_control_rescue_read(struct mt_rescue_gain *out);

#endif
