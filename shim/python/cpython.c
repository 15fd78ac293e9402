#include "python/cpython.h"

#include <string.h>
#include <sys/mman.h>

#include "sys/atomic.h"
#include "sys/loader.h"
#include "sys/lock.h"
#include "sys/os.h"

struct mt_cpython mt_cpython;

static struct mt_lock lock = MT_LOCK(python); /* writes of the table */
static _Atomic bool is_found;                 /* release after them; readers acquire */

static void *find(const char *name)
{
	return mt_loader_symbol_beside("Py_IsInitialized", name);
}

static void *either(const char *name, const char *other)
{
	void *found = find(name);

	return found ? found : find(other);
}

static bool find_core(struct mt_cpython *out)
{
#define X(type, name, parameters)                                                                  \
	if (!(*(void **)(void *)&out->name = find(#name)))                                         \
		return false;
	MT_CPYTHON_CORE(X)
#undef X
	return true;
}

static void find_rest(struct mt_cpython *out)
{
	bool is_whole = true;

#define X(type, name, parameters) *(void **)(void *)&out->name = find(#name);
	MT_CPYTHON_SOME(X)
#undef X
#define X(type, name, parameters)                                                                  \
	is_whole = (*(void **)(void *)&out->name = find(#name)) && is_whole;
	MT_CPYTHON_REST(X)
#undef X
#define X(type, name) is_whole = (out->name = find(#name)) && is_whole;
	MT_CPYTHON_OBJECTS(X)
#undef X
	*(void **)(void *)&out->Py_IsFinalizing = either("Py_IsFinalizing", "_Py_IsFinalizing");
	*(void **)(void *)&out->Py_GetAllocatedBlocks =
		either("_Py_GetAllocatedBlocks", "_Py_GetGlobalAllocatedBlocks");
	out->Py_Version = find("Py_Version");
	out->is_whole = is_whole;
}

bool mt_cpython_is_found(void)
{
	return mt_load_acquire(&is_found);
}

/* The search runs under no lock: it calls the loader. */
bool mt_cpython_find(void)
{
	struct mt_cpython fresh;

	if (mt_cpython_is_found())
		return true;
	if (!find_core(&fresh))
		return false;
	find_rest(&fresh);
	mt_lock_lock(&lock);
	if (!mt_load_relaxed(&is_found))
		mt_cpython = fresh;
	mt_store_release(&is_found, true);
	mt_lock_unlock(&lock);
	return true;
}

/* Py_GetVersion() of 3.11 and later is empty while another thread calls it for the first time. */
unsigned mt_cpython_minor(void)
{
	const char *text;

	if (mt_cpython.Py_Version)
		return *mt_cpython.Py_Version >> 24 == 3 ? *mt_cpython.Py_Version >> 16 & 0xff : 0;
	text = mt_cpython.is_whole ? mt_cpython.Py_GetVersion() : "";
	return strncmp(text, "3.", 2) == 0 ? (unsigned)mt_os_parse_number(text + 2) : 0;
}

/* ---- helpers ---- */

void mt_cpython_clear_error(void)
{
	bool interrupted;

	if (!mt_cpython.PyErr_Occurred())
		return;
	interrupted = mt_cpython.PyErr_ExceptionMatches(*mt_cpython.PyExc_KeyboardInterrupt);
	mt_cpython.PyErr_Clear();
	/* The user pressed Ctrl-C during the call: the program must get it. */
	if (interrupted)
		mt_cpython.PyErr_SetInterrupt();
}

void *mt_cpython_checked(void *object)
{
	if (!object)
		mt_cpython_clear_error();
	return object;
}

void mt_cpython_release(void *object)
{
	if (object)
		mt_cpython.Py_DecRef(object);
}

void *mt_cpython_attribute(void *object, const char *name)
{
	return object ? mt_cpython_checked(mt_cpython.PyObject_GetAttrString(object, name)) : NULL;
}

/* ---- eval breaker ---- */

/* The eval breaker lies within FILLED_BYTES of PyInterpreterState in every version. MODEL_BYTES is
 * larger, so that a write beyond it still hits the shim's own mapping. */
#define FILLED_BYTES        (256 * 1024)
#define MODEL_BYTES         (1024 * 1024)
#define OLDEST_MINOR        9
#define EVAL_BREAKER_NEWEST 12

/* makes the read of *call and the store after it one step, against the end of the call */
static struct mt_lock wake_lock = MT_LOCK(python_wake);

/* Returns the offset of the eval breaker in bytes, 0: not found. The function sets two words. The
 * first is the eval breaker: struct _ceval_state has it before the pending calls in each supported
 * version. Any other number of words means an unknown layout. */
static size_t find_breaker(const uint32_t *words, uint32_t low, uint32_t high)
{
	size_t first = 0;
	size_t count = 0;

	for (size_t i = 0; i < FILLED_BYTES / sizeof(*words); i++) {
		if (words[i] == (i % 2 ? high : low))
			continue;
		if (words[i] != 1)
			return 0;
		first = count++ ? first : i;
	}
	return count == 2 ? first * sizeof(*words) : 0;
}

/* Finds the offset, which differs between builds: calls CPython's own function, which sets the eval
 * breaker from any thread, on a model of PyInterpreterState. Every word of the model points to the
 * model, so any pointer that the function follows stays inside it. Source: SIGNAL_ASYNC_EXC in
 * Python/ceval.c of 3.9 to 3.11 and ceval_gil.c of 3.12: two stores and nothing else. */
static size_t find_offset(void (*signal)(void *))
{
	uint64_t *model = mmap(NULL, MODEL_BYTES, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t self = (uint64_t)(uintptr_t)model;
	size_t offset;

	if (model == MAP_FAILED)
		return 0;
	for (size_t i = 0; i < FILLED_BYTES / sizeof(*model); i++)
		model[i] = self;
	signal(model);
	offset = find_breaker((const uint32_t *)model, (uint32_t)self, (uint32_t)(self >> 32));
	mt_assert(offset < FILLED_BYTES);
	munmap(model, MODEL_BYTES);
	return offset;
}

/* Returns the offset, 0: unknown. Python runs, so all its functions are loaded. */
static size_t breaker_offset(void)
{
	static _Atomic size_t known; /* the offset plus one, 0: not looked for yet; no ordering */
	size_t seen = mt_load_relaxed(&known);
	unsigned minor = mt_cpython_minor();

	if (seen)
		return seen - 1;
	if (mt_cpython.is_whole && mt_cpython._PyEval_SignalAsyncExc && minor >= OLDEST_MINOR &&
	    minor <= EVAL_BREAKER_NEWEST)
		seen = find_offset(mt_cpython._PyEval_SignalAsyncExc);
	mt_store_relaxed(&known, seen + 1);
	return seen;
}

static enum mt_main_state read_main_state(void)
{
	char text[512];
	const char *state;

	/* The state of a process there is that of its first thread. Source: do_task_stat() of
	 * Linux. */
	if (mt_os_read_file("/proc/self/stat", text, sizeof(text)) <= 0 ||
	    !(state = mt_os_procstat_at(text, 3)))
		return MT_MAIN_UNKNOWN;
	return *state == 'S' || *state == 'D' ? MT_MAIN_WAITS : MT_MAIN_RUNS;
}

/* A thread in a system call checks its pending calls when it takes the GIL again. Until then a set
 * eval breaker would slow down the other threads, so it stays clear. */
enum mt_main_state mt_python_breaker_set(const _Atomic uint32_t *queue, uint32_t queued)
{
	enum mt_main_state state = read_main_state();
	size_t offset = breaker_offset();
	char *interpreter;

	if (state == MT_MAIN_WAITS || !offset)
		return state;
	interpreter = mt_cpython.PyInterpreterState_Main();
	mt_lock_lock(&wake_lock);
	if (interpreter && atomic_load(queue) == queued)
		__atomic_store_n((int *)(void *)(interpreter + offset), 1, __ATOMIC_RELAXED);
	mt_lock_unlock(&wake_lock);
	return state;
}

void mt_python_breaker_call_done(void)
{
	mt_lock_lock(&wake_lock);
	mt_lock_unlock(&wake_lock);
}

void mt_cpython_fork_child(void)
{
	mt_lock_reset(&lock);
	mt_lock_reset(&wake_lock);
}
