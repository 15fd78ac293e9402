/* heap/jemalloc_prof.c -- jemalloc's heap profiler: switched on and off, and asked for its profile.
 * Its unwinder is in jemalloc_unwind.c. */
#include "heap/jemalloc.h"
#include "heap/jemalloc_unwind.h"
#include "heap/jemalloc_names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "core/interpreter.h"
#include "core/log.h"
#include "sys/os.h"

/* What jemalloc calls in libc's stead. */
int mt_je_creat(const char *path, mode_t mode);

/* The file that we dump into; any other is a dump that the program has asked for itself. */
static char own_path[512];
static _Atomic bool dumping;

static bool ask_flag(const char *name)
{
	bool flag = false;
	size_t bytes = sizeof(flag);

	return je_mallctl(name, &flag, &bytes, NULL, 0) == 0 && flag;
}

static enum mt_profiler_state prof_state(void)
{
	if (!ask_flag("opt.prof"))
		return MT_PROFILER_NONE;
	return ask_flag("prof.active") ? MT_PROFILER_SAMPLES : MT_PROFILER_READY;
}

static enum mt_err prof_sample(bool on)
{
	if (!ask_flag("opt.prof"))
		return MT_ERR_NOT_AVAILABLE;
	if (on && !mt_jemalloc_find_unwinder()) {
		mt_log(MT_LOG_WARN, "the heap profiler cannot walk stacks: it needs libgcc_s.so.1, "
				    "glibc 2.35 and process_vm_readv");
		return MT_ERR_SYSTEM;
	}
	return je_mallctl("prof.active", NULL, NULL, &on, sizeof(on)) == 0 ? MT_ERR_OK
									   : MT_ERR_SYSTEM;
}

/* jemalloc would take whatever lies under that name, a link too, and for all to read. */
int mt_je_creat(const char *path, mode_t mode)
{
	int fd;

	if (!atomic_load_explicit(&dumping, memory_order_acquire) || strcmp(path, own_path) != 0)
		return creat(path, mode);
	fd = mt_os_open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 ? -1 : fd;
}

/* Adds what the lines of Python in the stacks are. */
static bool add_lines(const char *path)
{
	struct stat seen;
	int fd = mt_os_open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0);
	bool done = fd >= 0 && mt_os_fstat(fd, &seen) == 0 &&
		    mt_interpreter_write_lines(fd, (uint64_t)seen.st_size);

	if (fd >= 0)
		mt_os_close(fd);
	return done;
}

static enum mt_err prof_dump(const char *path)
{
	const char *name = own_path;
	int code;

	if (strlen(path) >= sizeof(own_path))
		return MT_ERR_INVALID;
	memcpy(own_path, path, strlen(path) + 1);
	atomic_store_explicit(&dumping, true, memory_order_release);
	code = je_mallctl("prof.dump", NULL, NULL, &name, sizeof(name));
	atomic_store_explicit(&dumping, false, memory_order_release);
	if (code == ENOENT)
		return MT_ERR_NOT_AVAILABLE;
	mt_interpreter_prepare_lines(); /* of a Python that came later */
	return code == 0 && add_lines(path) ? MT_ERR_OK : MT_ERR_SYSTEM;
}

const struct mt_heap_profiler mt_jemalloc_profiler = {
	.state = prof_state, .sample = prof_sample, .dump = prof_dump};

/* Looked for in the text: a process that does not want it must not even pay for asking jemalloc. */
void mt_jemalloc_prof_begin(const char *conf)
{
	if (strstr(conf, "prof:true") && prof_state() == MT_PROFILER_SAMPLES &&
	    prof_sample(true) != MT_ERR_OK)
		(void)prof_sample(false);
}
