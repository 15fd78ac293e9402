/* reaper/bell.h -- how anybody wakes the reaper: request bits in our own memory, and one futex word.
 * mt_bell_ring is async-signal-safe, takes no lock, keeps errno, and may be called from any thread or handler, also
 * when there is no reaper (the bit waits for one). The word lies in the bell file once there is one, so that mtctl can
 * ring it too; it is only ever touched by the kernel (FUTEX_WAKE_OP, FUTEX_WAIT) and by pread, since a load from a
 * truncated file would be SIGBUS. */
#ifndef MT_BELL_H
#define MT_BELL_H

#include <stdint.h>

enum mt_bell_bit {
	MT_BELL_SIGNAL = 1u << 0,  /* the cleanup signal came */
	MT_BELL_API    = 1u << 1,  /* mt_trim or mt_round was called */
	MT_BELL_GC     = 1u << 2,  /* a pending call has run */
	MT_BELL_GROWTH = 1u << 3,  /* the heap has mapped more */
	MT_BELL_EXIT   = 1u << 4   /* the process ends */
};

/* Sets the bits and wakes the reaper. */
void mt_bell_ring(uint32_t bits);

#endif
