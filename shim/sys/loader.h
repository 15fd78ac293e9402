/* sys/loader.h -- keeps fork and the dynamic loader apart. dl_iterate_phdr and dlopen hold a lock
 * of libc (dl_load_write_lock). fork does not reset it: a child that is forked meanwhile hangs at
 * its next dlopen, dl_iterate_phdr or, before glibc 2.35, C++ exception. Threads of the shim would
 * bring this race into single-threaded programs. So each section of the shim that calls the loader
 * is bracketed, fork waits for it to end, and it waits for fork. Any thread may call, with no lock
 * of the shim held; sections nest. Owns one gate (rank loader). Both waits have a time limit: the
 * gate never blocks a program for good. */
#ifndef MT_SYS_LOADER_H
#define MT_SYS_LOADER_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

/* Begin and end a section that calls the loader. mt_loader_enter waits up to 5 s for a fork that is
 * under way. */
void mt_loader_enter(void);
void mt_loader_leave(void);

/* Returns whether the calling thread is in such a section. */
bool mt_loader_is_inside(void);

/* Returns whether this process was forked without exec. Another thread of its parent may then have
 * left the loader's lock taken for ever, which dl_iterate_phdr(3) waits for, and dlsym does not. */
bool mt_loader_is_forked(void);

/* Calls dl_iterate_phdr(3) in such a section and returns its result. Keeps errno. */
int mt_loader_iterate(int (*visit)(struct dl_phdr_info *info, size_t bytes, void *context),
		      void *context);

/* pthread_atfork handlers. Prepare closes the gate and waits up to 200 ms for the threads inside;
 * parent and child open it again. The publish lock serializes the callers. */
void mt_loader_fork_prepare(void);
void mt_loader_fork_parent(void);
void mt_loader_fork_child(void);

#endif
