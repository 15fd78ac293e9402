/* python/environment.c -- wraps getenv for one name, PYTHONMALLOC, which CPython reads at its
 * start. If it is unset and the embedded jemalloc serves malloc, the heap for Python's objects
 * takes the domains MEM and OBJ then (python/objects.h); if that is not possible the wrapper
 * returns "malloc". Small objects in Python's own arenas keep whole pages resident. setenv would
 * reach children without the shim, appear in os.environ and defeat -X dev. Any thread may call.
 * Owns the address of the next getenv. Takes no lock. */
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "sys/atomic.h"
#include "sys/attr.h"
#include "core/config.h"
#include "core/log.h"
#include "sys/os.h"
#include "python/cpython.h"
#include "sys/loader.h"
#include "core/init.h"
#include "core/publish.h"
#include "python/objects.h"
#include "python/python_internal.h"

MT_EXPORT char *getenv(const char *name);

typedef char *(*getenv_fn)(const char *);
static _Atomic(getenv_fn) next_getenv; /* every store has the same value; no ordering */

static char *scan(const char *name)
{
	size_t length = strlen(name);

	for (char **at = environ; at && *at; at++)
		if (strncmp(*at, name, length) == 0 && (*at)[length] == '=')
			return *at + length + 1;
	return NULL;
}

static MT_COLD getenv_fn find_next(void)
{
	getenv_fn next;

	*(void **)(void *)&next = mt_loader_symbol(RTLD_NEXT, "getenv");
	if (!next)
		next = scan;
	mt_store_relaxed(&next_getenv, next);
	return next;
}

/* Returns whether Python runs in development mode: PYTHONDEVMODE, -X dev or -Xdev. The arguments in
 * /proc/self/cmdline each end with NUL. */
static bool is_dev_mode(void)
{
	char text[4096];
	ssize_t length = mt_os_read_file("/proc/self/cmdline", text, sizeof(text));
	const char *before = "";

	if (scan("PYTHONDEVMODE"))
		return true;
	for (const char *at = text; length > 0 && at < text + length; at += strlen(at) + 1) {
		if (strcmp(at, "-Xdev") == 0 ||
		    (strcmp(at, "dev") == 0 && strcmp(before, "-X") == 0))
			return true;
		before = at;
	}
	return false;
}

/* Returns whether the program or a library has replaced the functions of an allocator domain: an
 * embedder that counts memory, or Scalene's preloaded library. Neither "malloc" as the reply nor
 * the heap for objects may put others in their place. CPython compares all functions with its own,
 * and has no name for a set with others. Source: _PyMem_GetCurrentAllocatorName() in
 * Objects/obmalloc.c, 3.8 to 3.14; one that does not export it may have hooks. */
static bool has_hooks(void)
{
	const char *name = NULL;

	if (mt_objects_domains_are_taken())
		return false;
	if (mt_cpython_find() && mt_cpython._PyMem_GetCurrentAllocatorName)
		name = mt_cpython._PyMem_GetCurrentAllocatorName();
	return !name || (strcmp(name, "pymalloc") != 0 && strcmp(name, "malloc") != 0);
}

/* Returns the module or script that the interpreter runs, "" for other command lines. at, end: the
 * arguments after the interpreter's name, each ended by NUL. Source: python3(1). Option letters may
 * be grouped; m, c, W and X take the rest of the argument, or the next one. */
static const char *find_program(const char *at, const char *end)
{
	for (; at < end; at += strlen(at) + 1) {
		const char *letter = at;

		if (*at != '-')
			return at;
		while (*++letter && !strchr("mcWX", *letter))
			;
		if (*letter && !letter[1])
			at += strlen(at) + 1; /* the value is the next argument */
		if (*letter == 'm')
			return letter[1] ? letter + 1 : at < end ? at : "";
		if (*letter == 'c')
			return "";
	}
	return "";
}

/* Recognises `memray run`, `python3 -m memray` and `pytest --memray` by the command line: memray
 * hooks malloc after Python has started, and would then list every object as an allocation. */
static bool is_memray(void)
{
	char text[4096];
	ssize_t length = mt_os_read_file("/proc/self/cmdline", text, sizeof(text));
	const char *end = text + (length > 0 ? length : 0);
	const char *program = length > 0 ? find_program(text + strlen(text) + 1, end) : "";
	const char *name = strrchr(program, '/');

	if (strncmp(name ? name + 1 : program, "memray", 6) == 0)
		return true;
	for (const char *at = program; *program && at < end; at += strlen(at) + 1)
		if (strcmp(at, "--memray") == 0)
			return true;
	return false;
}

/* As kept_allocator, for memory profilers only; logs the reason once. */
static enum mt_python_use profilers_allocator(void)
{
#define X(name, text) text,
	static const char *const reasons[] = {MT_PYTHON_USES(X)};
#undef X
	static _Atomic bool is_logged; /* a flag alone, no ordering */
	enum mt_python_use use = has_hooks()   ? MT_PYTHON_USES_HOOKS
				 : is_memray() ? MT_PYTHON_USES_MEMRAY
					       : MT_PYTHON_USES_UNKNOWN;

	if (use && !mt_exchange_relaxed(&is_logged, true))
		mt_log(MT_LOG_INFO, "PYTHONMALLOC=malloc is not answered: %s", reasons[use]);
	return use;
}

/* Only a free-threaded build exports this function. It does not start with PYTHONMALLOC=malloc. */
static bool is_free_threaded(void)
{
	return mt_cpython_find() && mt_cpython._Py_DecRefShared;
}

/* Returns why Python keeps its own allocator for small objects; MT_PYTHON_USES_UNKNOWN if it may
 * use another one. */
static enum mt_python_use kept_allocator(const char *set)
{
	if (set)
		return MT_PYTHON_USES_USERS;
	if (mt_config()->python_malloc == MT_PYTHON_MALLOC_OFF)
		return MT_PYTHON_USES_OFF;
	if (mt_config()->python_malloc == MT_PYTHON_MALLOC_AUTO && !mt_init_uses_jemalloc())
		return MT_PYTHON_USES_OTHER_ALLOCATOR;
	if (is_free_threaded())
		return MT_PYTHON_USES_FREE_THREADED;
	if (is_dev_mode())
		return MT_PYTHON_USES_DEV_MODE;
	return profilers_allocator();
}

static MT_COLD char *reply_python_malloc(getenv_fn next)
{
	static char reply[] = "malloc";
	char *set = next("PYTHONMALLOC");
	enum mt_python_use use;

	mt_init_start_heap();
	if (!mt_state_is_on() || !mt_cpython_find())
		return set;
	use = kept_allocator(set);
	if (!use)
		use = mt_config()->python_malloc != MT_PYTHON_MALLOC_MALLOC &&
				      mt_objects_domains_take()
			      ? MT_PYTHON_USES_OBJECT_HEAP
			      : MT_PYTHON_USES_MALLOC;
	mt_publish_set_python(use);
	return use == MT_PYTHON_USES_MALLOC ? reply : set;
}

void mt_python_find_getenv(bool unused)
{
	(void)unused;
	(void)find_next();
}

MT_EXPORT char *getenv(const char *name)
{
	getenv_fn next = mt_load_relaxed(&next_getenv);

	if (mt_unlikely(!next))
		next = find_next();
	if (mt_unlikely(name[0] == 'P' && strcmp(name, "PYTHONMALLOC") == 0))
		return reply_python_malloc(next);
	return next(name);
}
