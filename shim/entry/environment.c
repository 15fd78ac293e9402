/* entry/environment.c -- getenv, wrapped for one name. CPython asks for PYTHONMALLOC at its start; where it is unset and
 * the embedded jemalloc serves malloc, we answer "malloc": Python's own arenas pin pages for ever. setenv would do as
 * well, but would reach children that have no shim, show in os.environ, and defeat -X dev. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/attr.h"
#include "base/config.h"
#include "base/os.h"
#include "base/symbol.h"
#include "life.h"
#include "stats/publish.h"

MT_EXPORT char *getenv(const char *name);

typedef char *(*getenv_fn)(const char *);
static _Atomic(getenv_fn) next_getenv; /* counter-like: every store is the same value */

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

	*(void **)(void *)&next = mt_symbol(RTLD_NEXT, "getenv");
	if (!next)
		next = scan;
	atomic_store_explicit(&next_getenv, next, memory_order_relaxed);
	return next;
}

/* -X dev, however it is written. /proc/self/cmdline holds the arguments, each ended by NUL. */
static bool is_dev_mode(void)
{
	char text[4096];
	ssize_t length = mt_os_read_file("/proc/self/cmdline", text, sizeof(text));
	const char *before = "";

	if (scan("PYTHONDEVMODE"))
		return true;
	for (const char *at = text; length > 0 && at < text + length; at += strlen(at) + 1) {
		if (strcmp(at, "-Xdev") == 0 || (strcmp(at, "dev") == 0 && strcmp(before, "-X") == 0))
			return true;
		before = at;
	}
	return false;
}

/* A free-threaded build refuses to start with PYTHONMALLOC=malloc; only it exports this. */
static bool is_free_threaded(void)
{
	return mt_symbol(RTLD_DEFAULT, "_Py_DecRefShared") != NULL;
}

/* Why Python's small objects stay where they are; NULL when nothing speaks against moving them into malloc. */
static const char *objection(const char *set)
{
	if (set)
		return "PYTHONMALLOC is set by the user";
	if (mt_config()->python_malloc == MT_SWITCH_OFF)
		return "pymalloc: MT_PYTHON_MALLOC=off";
	if (mt_config()->python_malloc == MT_SWITCH_AUTO && strcmp(mt_backend_identity()->mode, "jemalloc") != 0)
		return "pymalloc: better over this allocator";
	if (is_free_threaded())
		return "its own mimalloc: a free-threaded build";
	if (is_dev_mode())
		return "debug allocator: -X dev";
	return NULL;
}

static MT_COLD char *answer_python_malloc(getenv_fn next)
{
	static char answer[] = "malloc";
	char *set = next("PYTHONMALLOC");
	const char *against;

	mt_life_heap_start();
	if (!mt_life_is_on() || !mt_symbol(RTLD_DEFAULT, "Py_IsInitialized"))
		return set;
	against = objection(set);
	mt_publish_python(against ? against : "PYTHONMALLOC=malloc is answered");
	return against ? set : answer;
}

MT_EXPORT char *getenv(const char *name)
{
	getenv_fn next = atomic_load_explicit(&next_getenv, memory_order_relaxed);

	if (mt_unlikely(!next))
		next = find_next();
	if (mt_unlikely(name[0] == 'P' && strcmp(name, "PYTHONMALLOC") == 0))
		return answer_python_malloc(next);
	return next(name);
}
