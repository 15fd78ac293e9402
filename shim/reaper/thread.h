/* reaper/thread.h -- how a thread of ours is started: detached, all signals blocked, no real-time policy inherited, room
 * for its beginnings. Allocates (pthread_create): never from inside an allocator, a driver call or dlsym. Keeps errno. */
#ifndef MT_THREAD_H
#define MT_THREAD_H

#include <stdbool.h>
#include <stddef.h>

/* False when the thread could not be had. */
bool mt_thread_start(void *(*run)(void *), size_t stack_bytes);

/* Whether there is address space left for a thread's beginnings. */
bool mt_thread_has_room(void);

#endif
