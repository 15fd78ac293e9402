/* core/control_file.h -- how anybody wakes the worker: request bits in our own memory, and one
 * futex word. mt_control_notify is async-signal-safe, takes no lock, keeps errno, and may be called
 * from any thread or handler, also when there is no worker (the bit waits for one). The word lies
 * in the control file once there is one, so that mtctl can ring it too; it is only ever touched by
 * the kernel (FUTEX_WAKE_OP, FUTEX_WAIT) and by pread, since a load from a truncated file would be
 * SIGBUS. */
#ifndef MT_CORE_CONTROL_FILE_H
#define MT_CORE_CONTROL_FILE_H

#include <stdbool.h>
#include <stdint.h>

enum mt_control_bit {
	MT_CONTROL_SIGNAL = 1u << 0, /* the cleanup signal came */
	MT_CONTROL_API = 1u << 1,    /* mt_trim or mt_round was called */
	MT_CONTROL_GC = 1u << 2,     /* a pending call has run */
	MT_CONTROL_GROWTH = 1u << 3, /* the heap has mapped more */
	MT_CONTROL_EXIT = 1u << 4,   /* the worker is to end */
	MT_CONTROL_OOM = 1u << 5     /* a device is out of memory */
};

/* Sets the bits and wakes the worker. Bits that are set already ring no second time: 10,000 signals
 * a second are one wake-up until the worker has taken the bit. */
void mt_control_notify(uint32_t bits);

/* ---- for the worker alone ---- */

/* From now on the word in the control file is rung too, where there is one. keep: the caller has
 * descriptors of its own, and may keep one for it. */
void mt_control_use_file(bool keep);

/* The word as it is now, to be given to mt_control_wait. Taken before looking at bits and requests.
 */
uint32_t mt_control_read_word(void);

/* The bits that are set, and which of them to take. */
uint32_t mt_control_pending_bits(void);
void mt_control_clear_bits(uint32_t bits);

/* Sleeps until somebody rings, the word is no longer `word`, or the time is over. */
void mt_control_wait(uint32_t word, uint64_t timeout_ns);

/* The next request from the control file, checked: false where there is none that is new. One that
 * this shim does not know, as a newer mtctl may ask for it, comes as MT_REQUEST_COUNT. */
struct mt_request;
bool mt_control_read_request(struct mt_request *out);

/* In a forked child: the file is the parent's, and so are its bits. */
void mt_control_fork_child(void);

#endif
