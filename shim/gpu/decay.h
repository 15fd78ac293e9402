/* gpu/decay.h -- what the worker gives back to the driver: decay, caps, low memory, a cleanup. On a
 * thread of ours, in relaxed capture mode; each call does nothing while a capture is open. No lock
 * is held at the call. */
#ifndef MT_GPU_DECAY_H
#define MT_GPU_DECAY_H

#include <stdbool.h>
#include <stdint.h>

/* Decay, caps, low memory: gives back at most `most` blocks of those that are due, oldest first.
 * Answers bytes given back. *out_next_ms is when to come again, UINT64_MAX when nothing is cached.
 */
uint64_t mt_pool_tick(uint64_t now_ns, uint32_t most, uint64_t *out_next_ms);

/* Gives back everything that is ready; the bytes. */
uint64_t mt_pool_trim(void);

/* While held, these two give no further block back, and end after the one in hand: somebody waits
 * for the thread they are on. Any thread. The program's own calls are not concerned. */
void mt_pool_hold_back(bool held);

#endif
