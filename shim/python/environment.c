/* python/environment.c -- getenv, wrapped for one name. CPython asks for PYTHONMALLOC at its start;
 * where it is unset and the embedded jemalloc serves malloc, we answer "malloc": Python's own
 * arenas pin pages for ever. setenv would do as well, but would reach children that have no shim,
 * show in os.environ, and defeat -X dev. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "sys/attr.h"
#include "core/config.h"
#include "core/log.h"
#include "sys/os.h"
#include "sys/symbol.h"
#include "core/init.h"
#include "core/publish.h"
#include "python/object_domains.h"

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
		if (strcmp(at, "-Xdev") == 0 ||
		    (strcmp(at, "dev") == 0 && strcmp(before, "-X") == 0))
			return true;
		before = at;
	}
	return false;
}

/* A preloaded library has put functions of its own in place of Python's, as Scalene's does from its
 * constructor. Python would replace them when it is told to use malloc, and the library be given
 * blocks that it does not know. */
static bool has_hooks(void)
{
	void (*get)(int, struct mt_python_allocator *);
	Dl_info python;
	Dl_info owner;

	*(void **)(void *)&get = mt_symbol(RTLD_DEFAULT, "PyMem_GetAllocator");
	if (!get || !dladdr(*(void **)(void *)&get, &python))
		return false;
	for (int domain = MT_PYTHON_DOMAIN_MEM; domain <= MT_PYTHON_DOMAIN_OBJ; domain++) {
		struct mt_python_allocator now = {.malloc = NULL};

		get(domain, &now);
		if (now.malloc && !mt_object_domains_is_ours(&now) &&
		    dladdr(*(void **)(void *)&now.malloc, &owner) &&
		    owner.dli_fbase != python.dli_fbase)
			return true;
	}
	return false;
}

/* Arguments, each ended by NUL, after the interpreter's name: the module or the script that is run,
 * "" for anything else. Source: python3(1); letters stand together, and those of m, c, W and X take
 * the rest or the next argument. */
static const char *find_program(const char *at, const char *end)
{
	for (; at < end; at += strlen(at) + 1) {
		const char *letter = at;

		if (*at != '-')
			return at;
		while (*++letter && !strchr("mcWX", *letter))
			;
		if (*letter && !letter[1])
			at += strlen(at) + 1; /* its value is the next one */
		if (*letter == 'm')
			return letter[1] ? letter + 1 : at < end ? at : "";
		if (*letter == 'c')
			return "";
	}
	return "";
}

/* `memray run`, `python3 -m memray`, `pytest --memray`: it hooks nothing before Python has started,
 * and then takes each object that goes to malloc for an allocation of its own. */
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

static const char *mind_profilers(void)
{
	static _Atomic bool has_told; /* counter-like */
	const char *against = NULL;

	if (has_hooks())
		against = "pymalloc: a preloaded library has hooks on Python's allocators";
	else if (is_memray())
		against = "pymalloc: memray records allocations";
	if (against && !atomic_exchange_explicit(&has_told, true, memory_order_relaxed))
		mt_log(MT_LOG_INFO, "PYTHONMALLOC=malloc is not answered: %s", against);
	return against;
}

/* A free-threaded build refuses to start with PYTHONMALLOC=malloc; only it exports this. */
static bool is_free_threaded(void)
{
	return mt_symbol(RTLD_DEFAULT, "_Py_DecRefShared") != NULL;
}

/* Why Python's small objects stay where they are; NULL when nothing speaks against moving them into
 * malloc. */
static const char *objection(const char *set)
{
	if (set)
		return "PYTHONMALLOC is set by the user";
	if (mt_config()->python_malloc == MT_PYTHON_MALLOC_OFF)
		return "pymalloc: MT_PYTHON_MALLOC=off";
	if (mt_config()->python_malloc == MT_PYTHON_MALLOC_AUTO && !mt_init_uses_jemalloc())
		return "pymalloc: better over this allocator";
	if (is_free_threaded())
		return "its own mimalloc: a free-threaded build";
	if (is_dev_mode())
		return "debug allocator: -X dev";
	return mind_profilers();
}

/* NULL: the heap for small objects serves. Else why it does not. */
static const char *take_domains(void)
{
	return mt_config()->python_malloc == MT_PYTHON_MALLOC_MALLOC ? "MT_PYTHON_MALLOC=malloc"
								     : mt_object_domains_take();
}

static MT_COLD char *answer_python_malloc(getenv_fn next)
{
	static char answer[] = "malloc";
	char *set = next("PYTHONMALLOC");
	const char *against;

	mt_init_start_heap();
	if (!mt_state_is_on() || !mt_symbol(RTLD_DEFAULT, "Py_IsInitialized"))
		return set;
	against = objection(set);
	if (against) {
		mt_publish_set_python(against);
		return set;
	}
	against = take_domains();
	mt_publish_set_python(against ? "PYTHONMALLOC=malloc is answered" : "object heap");
	return against ? answer : set;
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
