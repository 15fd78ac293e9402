/* compat/compat.c -- the component: wrappers that only unusual programs need. Each file of this
 * folder names them. */
#include "compat/raw_fork.h"
#include "compat/single_thread.h"
#include "compat/thread_count.h"
#include "core/components.h"

static void load(bool on)
{
	mt_raw_fork_start();
	mt_thread_count_start();
	if (!on)
		mt_single_thread_init();
}

const struct mt_component mt_compat_component = {
	.name = "compat",
	.load = load,
	.fork_parent = mt_thread_count_note_fork,
	.fork_child = mt_thread_count_note_fork,
};
