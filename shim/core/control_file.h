/* core/control_file.h -- how anybody wakes the reaper: request bits in our own memory, and one futex word.
 * mt_bell_ring is async-signal-safe, takes no lock, keeps errno, and may be called from any thread or handler, also
 * when there is no reaper (the bit waits for one). The word lies in the bell file once there is one, so that mtctl can
 * ring it too; it is only ever touched by the kernel (FUTEX_WAKE_OP, FUTEX_WAIT) and by pread, since a load from a
 * truncated file would be SIGBUS. */
#ifndef MT_BELL_H
#define MT_BELL_H

#include <stdbool.h>
#include <stdint.h>

enum mt_bell_bit {
	MT_BELL_SIGNAL = 1u << 0,  /* the cleanup signal came */
	MT_BELL_API    = 1u << 1,  /* mt_trim or mt_round was called */
	MT_BELL_GC     = 1u << 2,  /* a pending call has run */
	MT_BELL_GROWTH = 1u << 3,  /* the heap has mapped more */
	MT_BELL_EXIT   = 1u << 4,  /* the reaper is to end */
	MT_BELL_OOM    = 1u << 5   /* a device is out of memory */
};

/* Sets the bits and wakes the reaper. Bits that are set already ring no second time: 10,000 signals a second are one
 * wake-up until the reaper has taken the bit. */
void mt_bell_ring(uint32_t bits);

/* ---- for the reaper alone ---- */

/* From now on the word in the bell file is rung too, where there is one. keep: the caller has descriptors of its own, and may
 * keep one for it. */
void mt_bell_use_file(bool keep);

/* The word as it is now, to be given to mt_bell_sleep. Taken before looking at bits and requests. */
uint32_t mt_bell_word(void);

/* The bits that are set, and which of them to take. */
uint32_t mt_bell_bits(void);
void mt_bell_take(uint32_t bits);

/* Sleeps until somebody rings, the word is no longer `word`, or the time is over. */
void mt_bell_sleep(uint32_t word, uint64_t timeout_ns);

/* The next request from the bell file, checked: false where there is none that is new. One that this shim does not know, as a
 * newer mtctl may ask for it, comes as MT_REQUEST_COUNT. */
struct mt_request;
bool mt_bell_request(struct mt_request *out);

/* In a forked child: the file is the parent's, and so are its bits. */
void mt_bell_fork_child(void);

#endif
