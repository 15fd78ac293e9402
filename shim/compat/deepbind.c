#include "compat/compat.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>

#include "sys/attr.h"
#include "core/log.h"
#include "sys/elf.h"
#include "core/init.h"

/* Not static: deepbind_ARCH.S jumps there. Changes once, from NULL to its value; relaxed. */
extern _Atomic(void *) mt_deepbind_next;
_Atomic(void *) mt_deepbind_next;

MT_COLD void mt_deepbind_init(void)
{
	atomic_store_explicit(&mt_deepbind_next, mt_symbol(RTLD_NEXT, "dlopen"),
			      memory_order_relaxed);
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
