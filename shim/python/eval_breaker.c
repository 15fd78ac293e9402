#include "python/eval_breaker.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "sys/lock.h"
#include "sys/os.h"
#include "sys/lazy_symbols.h"
#include "python/symbol.h"

/* The eval breaker lies within FILLED_BYTES of PyInterpreterState in every version. MODEL_BYTES is
 * larger, so that a write beyond it still hits the shim's own mapping. */
#define FILLED_BYTES (256 * 1024)
#define MODEL_BYTES  (1024 * 1024)
#define OLDEST_MINOR 9
#define NEWEST_MINOR 12

struct wake_api {
	const char *(*Py_GetVersion)(void);
	void *(*PyInterpreterState_Main)(void);
	/* of a PyInterpreterState; 3.9: of a PyThreadState */
	void (*_PyEval_SignalAsyncExc)(void *);
	size_t breaker_offset; /* bytes, in PyInterpreterState; 0: unknown */
};
static struct wake_api api;
static struct mt_lazy_symbols found_api = MT_LAZY_SYMBOLS(python); /* api */
/* makes the read of *call and the store after it one step, against the end of the call */
static struct mt_lock lock = MT_LOCK(python_wake);

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
	munmap(model, MODEL_BYTES);
	return offset;
}

static void resolve_api(struct wake_api *out)
{
	uint64_t minor;

#define FIND(name) (*(void **)(void *)&out->name = mt_python_symbol(#name))
	if (!FIND(Py_GetVersion) || !FIND(PyInterpreterState_Main) || !FIND(_PyEval_SignalAsyncExc))
		return;
#undef FIND
	minor = mt_python_minor(out->Py_GetVersion());
	if (minor >= OLDEST_MINOR && minor <= NEWEST_MINOR)
		out->breaker_offset = find_offset(out->_PyEval_SignalAsyncExc);
}

/* Searches once: Python runs, so all its functions are loaded. */
static void find_api(void)
{
	struct wake_api fresh = {.breaker_offset = 0};

	if (mt_lazy_symbols_are_ready(&found_api))
		return;
	resolve_api(&fresh);
	mt_lazy_symbols_store(&found_api, &api, &fresh, sizeof(api));
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
enum mt_main_state mt_eval_breaker_set(const _Atomic uint32_t *call, uint32_t queued)
{
	enum mt_main_state state = read_main_state();
	char *interpreter;

	find_api();
	if (state == MT_MAIN_WAITS || !api.breaker_offset)
		return state;
	interpreter = api.PyInterpreterState_Main();
	mt_lock_lock(&lock);
	if (interpreter && atomic_load(call) == queued)
		__atomic_store_n((int *)(void *)(interpreter + api.breaker_offset), 1,
				 __ATOMIC_RELAXED);
	mt_lock_unlock(&lock);
	return state;
}

void mt_eval_breaker_call_done(void)
{
	mt_lock_lock(&lock);
	mt_lock_unlock(&lock);
}

void mt_eval_breaker_fork_child(void)
{
	mt_lock_reset(&lock);
	mt_lazy_symbols_fork_child(&found_api);
}
