/* compat/compat.c -- the component: wrappers that only unusual programs need. Each file of this
 * folder names them. */
#include "compat/compat.h"

#include <dlfcn.h>
#include <errno.h>

#include "core/components.h"
#include "core/init.h"
#include "core/log.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/loader.h"

/* Programs built with GCC's AddressSanitizer, whose runtime is a shared library
 * (libasan). It ends a program in which another library was loaded before it, as LD_PRELOAD
 * does, unless this option is off. It asks this function before it checks. Our malloc then passes
 * all calls on to its malloc, which finds what it always finds. A program that defines the function
 * itself needs ASAN_OPTIONS=verify_asan_link_order=0. */
MT_EXPORT const char *__asan_default_options(void);

MT_EXPORT const char *__asan_default_options(void)
{
	return "verify_asan_link_order=0";
}

/* ---- dlopen ---- */

/* Not static: dlopen.S jumps there. Changes once, from NULL to its value; relaxed. */
extern _Atomic(void *) mt_deepbind_next;
_Atomic(void *) mt_deepbind_next;

MT_COLD void mt_deepbind_init(void)
{
	mt_store_relaxed(&mt_deepbind_next, mt_symbol(RTLD_NEXT, "dlopen"));
}

static void log_once(void)
{
	static atomic_flag is_told = ATOMIC_FLAG_INIT;

	/* only a flag, no ordering */
	if (!atomic_flag_test_and_set_explicit(&is_told, memory_order_relaxed))
		mt_log(MT_LOG_INFO, "dlopen: removing RTLD_DEEPBIND, which would mix libc's "
				    "allocator with this one; MT_ALLOCATOR=system keeps it");
}

MT_COLD int mt_deepbind_mode(int mode)
{
	int kept = errno;

	if (mt_init_uses_jemalloc()) {
		log_once();
		mode &= ~RTLD_DEEPBIND;
	}
	errno = kept;
	return mode;
}

/* ---- the component ---- */

static void load(bool on)
{
	mt_fork_start();
	mt_raw_fork_start();
	mt_thread_count_start();
	if (!on)
		mt_single_thread_init();
}

static void fork_parent(void)
{
	mt_fork_parent();
	mt_thread_count_note_fork();
}

static void fork_child(void)
{
	mt_fork_child();
	mt_thread_count_note_fork();
}

const struct mt_component mt_compat_component = {
	.name = "compat",
	.load = load,
	.fork_prepare = mt_fork_prepare,
	.fork_parent = fork_parent,
	.fork_child = fork_child,
};
