/* core/exit_hooks.c -- wraps _exit, _Exit and quick_exit, which skip the destructor, to unlink the
 * files first. Every worker process of Python's multiprocessing ends so. A process that ends by a
 * signal or a bare system call leaves its files to a sweep (core/sweep.h). _exit is called in
 * signal handlers and in vfork children, which run on the parent's memory. So the wrappers are
 * async-signal-safe, take no lock, and do nothing in a process that did not make the files. */
#include "core/init.h"

#include <dlfcn.h>
#include <stdint.h>

#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/loader.h"
#include "core/state.h"
#include "core/files.h"
#include "core/last_file.h"

#define EXITS(X) X(_exit) X(_Exit) X(quick_exit)

#define X(name) MT_EXPORT _Noreturn void name(int status);
EXITS(X)
#undef X

#define X(name) END_##name,
enum exit_function { EXITS(X) EXIT_COUNT };
#undef X

#define X(name) #name,
static const char *const names[EXIT_COUNT] = {EXITS(X)};
#undef X

typedef void (*exit_fn)(int status);

/* Looked up once: dlsym must not be called in a signal handler, nor in a child of a process with a
 * thread inside the loader. No ordering. */
static _Atomic(exit_fn) next_exits[EXIT_COUNT];

void mt_exit_hooks_start(void)
{
	for (int i = 0; i < EXIT_COUNT; i++)
		mt_store_relaxed(&next_exits[i],
				 (exit_fn)(uintptr_t)mt_symbol(RTLD_NEXT, names[i]));
}

static _Noreturn void exit_by(enum exit_function exit_function, int status)
{
	exit_fn next = mt_load_relaxed(&next_exits[exit_function]);

	if (mt_state_is_on() && mt_state_is_own_process()) {
		mt_files_unlink_at_exit();
		mt_last_file_remove();
	}
	if (!next)
		next = (exit_fn)(uintptr_t)mt_elf_libc_function(names[exit_function]);
	if (next) /* libc has all three */
		next(status);
	__builtin_trap();
}

#define X(name)                                                                                    \
	MT_EXPORT _Noreturn void name(int status)                                                  \
	{                                                                                          \
		exit_by(END_##name, status);                                                       \
	}
EXITS(X)
#undef X
