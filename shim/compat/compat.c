/* compat/compat.c -- the component: wrappers that only unusual programs need. Each file of this
 * folder names them. */
#include "compat/compat.h"
#include "core/components.h"
#include "sys/attr.h"

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
