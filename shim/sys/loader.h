/* sys/loader.h -- the loader's own lock, and fork. dl_iterate_phdr and dlopen hold a lock of libc's
 * (dl_load_write_lock) that fork neither waits for nor makes again in the child: a child that is
 * forked meanwhile hangs at its next dlopen, dl_iterate_phdr or, before glibc 2.35, C++ exception.
 * A program that has one thread knows no such moment; our own threads would bring it along. So
 * whoever of us goes through the loaded objects or loads one says so, and fork waits for him, and
 * he for fork. Any thread; no lock of ours held; nests. Both waits have an end: a program must not
 * stand still for our sake. */
#ifndef MT_SYS_LOADER_H
#define MT_SYS_LOADER_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

void mt_loader_enter(void);
void mt_loader_leave(void);

/* Whether the calling thread is between the two. */
bool mt_loader_is_inside(void);

/* dl_iterate_phdr(3) in between; keeps errno. */
int mt_loader_iterate(int (*visit)(struct dl_phdr_info *info, size_t bytes, void *context),
		      void *context);

/* Between prepare and the other two no other thread is inside. One thread at a time (the publish
 * lock sees to that). */
void mt_loader_fork_prepare(void);
void mt_loader_fork_parent(void);
void mt_loader_fork_child(void);

#endif
