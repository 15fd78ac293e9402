/* compat/compat.c -- the component: wrappers that only unusual programs need. Each file of this
 * folder names them. */
#include "compat/fork.h"
#include "compat/raw_fork.h"
#include "compat/single_thread.h"
#include "compat/thread_count.h"
#include "core/components.h"

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
