#include "sys/main_thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>

#include "sys/raw_syscall.h"
#include "sys/os.h"

/* The kernel writes 0. No ordering: a reader only inspects the process afterwards. NULL:
 * unknown. */
static const _Atomic uint32_t *_Atomic word;
static ptrdiff_t offset; /* of the word from libc's thread descriptor; 0: unknown */

static void set_word(ptrdiff_t offset_from_self, pid_t id)
{
	const _Atomic uint32_t *at =
		(const _Atomic uint32_t *)(const void *)((const char *)pthread_self() +
							 offset_from_self);

	/* A word that does not hold the thread's id is another one. */
	atomic_store_explicit(
		&word, atomic_load_explicit(at, memory_order_relaxed) == (uint32_t)id ? at : NULL,
		memory_order_relaxed);
}

void mt_main_thread_init(void)
{
	int kept = errno;
	char *at = NULL;

	if (mt_os_gettid() == mt_os_getpid() &&
	    mt_raw_syscall(SYS_prctl, PR_GET_TID_ADDRESS, &at) == 0 && at) {
		offset = at - (char *)pthread_self();
		set_word(offset, mt_os_getpid());
	}
	errno = kept;
}

void mt_main_thread_fork_child(pid_t own_pid)
{
	if (offset)
		set_word(offset, own_pid);
}

void mt_main_thread_forget(void)
{
	atomic_store_explicit(&word, NULL, memory_order_relaxed);
}

bool mt_main_thread_has_ended(void)
{
	const _Atomic uint32_t *at = atomic_load_explicit(&word, memory_order_relaxed);

	return at && atomic_load_explicit(at, memory_order_relaxed) == 0;
}
