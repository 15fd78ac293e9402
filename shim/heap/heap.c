/* heap/heap.c -- the component: chooses what serves malloc, and implements the heap's hooks for
 * fork, cleanups and requests of mtctl. */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "core/components.h"
#include "core/config.h"
#include "core/init.h"
#include "core/log.h"
#include "core/publish.h"
#include "core/thread.h"
#include "core/worker.h"
#include "heap/account.h"
#include "heap/asleep.h"
#include "heap/backend.h"
#include "heap/entries.h"
#include "heap/glibc.h"
#include "heap/growth.h"
#include "heap/jemalloc.h"
#include "heap/trim.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/libc.h"
#include "sys/loader.h"
#include "sys/os.h"
#include "sys/rss.h"

/* ---- over an allocator whose block sizes the shim cannot read ---- */

/* A copy: one load finds the function. Only requested bytes are summed: growth is checked every
 * MT_GROWTH_STEP_BYTES of a thread. */
static struct mt_heap_ops behind;

/* A thread's own allocations until its first check. Until then it may still be starting: libc
 * allocates for ThreadSanitizer's runtime before that can start another. */
#define FIRST_CHECK_BYTES 4096u

static MT_COLD void check_growth(struct mt_thread_counters *counters)
{
	bool is_new = !counters->next_event_bytes && mt_config()->min_mb &&
		      counters->allocated_bytes < FIRST_CHECK_BYTES;
	int kept = errno;

	counters->next_event_bytes =
		counters->allocated_bytes + (is_new ? FIRST_CHECK_BYTES : MT_GROWTH_STEP_BYTES);
	if (!is_new)
		mt_growth_note();
	errno = kept;
}

static inline void *note_bytes(void *block, size_t requested)
{
	struct mt_thread_counters *counters = &mt_thread_counters;

	/* Nothing for a failed request: two huge ones would wrap the sum around, and growth would
	 * never be checked again. */
	if (mt_unlikely(mt_account_bump(&counters->allocated_bytes, block ? requested : 0) >=
			counters->next_event_bytes))
		check_growth(counters);
	return block;
}

static void *noted_malloc(size_t size)
{
	return note_bytes(behind.malloc(size), size);
}

static void *noted_calloc(size_t count, size_t size)
{
	return note_bytes(behind.calloc(count, size), count * size);
}

static void *noted_realloc(void *ptr, size_t size)
{
	return note_bytes(behind.realloc(ptr, size), size);
}

static void *noted_memalign(size_t alignment, size_t size)
{
	return note_bytes(behind.memalign(alignment, size), size);
}

static void *noted_aligned_alloc(size_t alignment, size_t size)
{
	return note_bytes(behind.aligned_alloc(alignment, size), size);
}

static int noted_posix_memalign(void **out, size_t alignment, size_t size)
{
	int answer = behind.posix_memalign(out, alignment, size);

	note_bytes(answer == 0 ? *out : NULL, size);
	return answer;
}

/* free and malloc_usable_size go straight to the allocator. */
static const struct mt_heap_ops *passthrough_ops(void)
{
	static struct mt_heap_ops ops;

	behind = *mt_system_plain_ops();
	ops = behind;
#define X(type, name, params, args) ops.name = noted_##name;
	MT_HEAP_ALLOCATING(X)
#undef X
	return &ops;
}

/* ---- the first call ---- */

/* Over jemalloc: the calling thread has allocated a MB more. */
static void jemalloc_event(void)
{
	mt_growth_allocated(mt_account_event_note(mt_account_own_allocated()));
}

/* Over glibc, asleep or not: the same, or it has allocated for the first time. */
static void glibc_event(void)
{
	uint64_t allocated = mt_thread_counters.allocated_bytes;

	if (mt_asleep_note_growth())
		return;
	mt_thread_counters.next_event_bytes = allocated + MT_GROWTH_STEP_BYTES;
	mt_growth_note();
	(void)mt_account_event_note(allocated);
}

static void thread_born(void *counters)
{
	mt_account_thread_born(counters);
	mt_growth_without_worker(MT_BACKEND_EVENT_BYTES);
}

static void freed_large(void)
{
	mt_growth_freed(0);
	mt_account_event_freed_large();
}

static bool serve_embedded(bool at_once, const struct mt_backend_hooks *hooks)
{
	mt_account_start(NULL, mt_worker_handle_main_exit);
	return at_once ? mt_asleep_begin_awake(mt_config(), hooks)
		       : mt_asleep_start(mt_config(), hooks);
}

static void serve_system(const struct mt_backend_hooks *hooks)
{
	const struct mt_backend *backend = mt_backend_use_system(mt_config(), hooks);

	mt_asleep_give_up();
	mt_state_note_heap(mt_backend_identity()->allocator, false);
	if (backend->counting == MT_COUNTING_CHUNKS) {
		mt_account_start(NULL, mt_worker_handle_main_exit);
		mt_heap_serve(mt_glibc_accounting_ops());
		return;
	}
	mt_account_watch_main(mt_worker_handle_main_exit);
	mt_heap_serve(mt_backend_is_shadowed() ? mt_heap_shadowed_ops() : passthrough_ops());
}

static void serve(bool on)
{
	enum mt_backend_choice choice;
	static struct mt_backend_hooks hooks = {
		.thread_born = thread_born,
		.allocated = jemalloc_event,
		.freed_large = freed_large,
		.freed = mt_growth_freed,
	};

	if (!on) {
		mt_asleep_give_up();
		mt_heap_serve(mt_system_plain_ops());
		return;
	}
	mt_glibc_accounting_use(glibc_event);
	mt_growth_begin();
	(void)mt_address_space_follow();
	mt_assert(!mt_backend()); /* served once */
	hooks.shadowed = mt_heap_is_shadowed();
	choice = mt_backend_choose(mt_config(), &hooks);
	if (choice == MT_BACKEND_SYSTEM ||
	    (!serve_embedded(choice == MT_BACKEND_EMBEDDED, &hooks) && !mt_asleep_stay()))
		serve_system(&hooks);
}

/* ---- the constructor ---- */

/* Chromium and what is built on it (Electron, CEF) fork their sandboxed processes from one that
 * ends itself if it finds a second thread. */
static bool is_browser_zygote(void)
{
	static const char word[] = "\0--type=zygote";
	char line[4096];
	ssize_t length = mt_os_read_file("/proc/self/cmdline", line, sizeof(line));

	return length > 0 && memmem(line, (size_t)length, word, sizeof(word) - 1);
}

/* No allocation passes through us if malloc is somebody else's, so growth would never be seen:
 * this is the only chance to start the worker. A thread that could do nothing is not started: the
 * program may be a browser, whose malloc is its own and whose sandboxes refuse a process of two
 * threads. A tool's user wants the program's errors: helgrind reports each flag of ours that goes
 * without a lock, and what the tool's malloc keeps cannot be returned. */
static bool shadowed_has_work(void)
{
	const struct mt_config *cfg = mt_config();

	if (!mt_backend_is_shadowed() || mt_backend_is_replaced_by_tool())
		return false;
	return (!mt_backend()->purge_impossible || cfg->min_mb == 0 || cfg->rss_limit_mb != 0 ||
		mt_loader_symbol_beside("Py_IsInitialized", "Py_IsInitialized") != NULL) &&
	       !is_browser_zygote();
}

static void load(bool on)
{
	if (!on)
		return;
	mt_account_know_main();
	mt_system_load();
	if (mt_asleep_is_awake())
		mt_jemalloc_prof_begin(mt_backend_identity()->conf);
	mt_log(MT_LOG_INFO, "mtshim %s: %s (%s)", MT_VERSION, mt_backend_identity()->allocator,
	       mt_backend_identity()->evidence);
	if (shadowed_has_work())
		(void)mt_init_start_worker();
}

/* ---- fork ---- */

static void fork_prepare(void)
{
	mt_rss_shared_note_fork();
	mt_asleep_fork_prepare();
	if (mt_asleep_is_awake())
		mt_jemalloc_know_thread();
	mt_account_fork_prepare();
	mt_jemalloc_fork_prepare();
}

static void fork_parent(void)
{
	mt_jemalloc_fork_parent();
	mt_account_fork_parent();
	mt_asleep_fork_parent();
	mt_rss_shared_note_fork();
}

static void fork_child(void)
{
	mt_jemalloc_fork_child();
	mt_rss_shared_note_fork();
	mt_account_fork_child();
	mt_asleep_fork_child();
	mt_heap_trim_fork_child();
	mt_growth_fork_child();
}

static void before_start(void)
{
	(void)mt_asleep_wake();
}

/* ---- mtctl: what the heap consists of ---- */

/* The allocator's table of size classes, and its profile of live blocks by stack. Worker thread
 * only, with no lock held, since switching the profiler on calls the loader. */

#define PATH_BYTES  512
#define LOOKS_COUNT 8

/* A look of mtctl for which the profiler samples. mtctl may be killed, so each has its end. */
static struct look {
	uint64_t number;
	uint64_t until_ns; /* CLOCK_MONOTONIC; 0: an empty row */
} looks[LOOKS_COUNT];

/* Whether the profiler samples when no look wants it: as it did before the first one, or as MT_PROF
 * has been set since. */
static bool samples_without;

/* Stores the profiler's state in the snapshot: 0 missing, 1 ready, 2 sampling. */
static void publish_profiler(void)
{
	const struct mt_heap_profiler *profiler = mt_backend()->profiler;
	uint64_t state = profiler ? (uint64_t)profiler->state() : MT_PROFILER_NONE;

	mt_assert(mt_thread_is_ours());
	mt_publish_lock()->prof_state = state;
	mt_publish_unlock();
}

static bool has_look(void)
{
	for (size_t i = 0; i < LOOKS_COUNT; i++)
		if (looks[i].until_ns)
			return true;
	return false;
}

/* Switches the profiler as `wanted` says; it goes on while a look wants it. MT_ERR_NOT_AVAILABLE:
 * it was not prepared at the start of the process, or the allocator has none. MT_ERR_SYSTEM: stacks
 * cannot be walked here. */
static enum mt_err follow_setting(const struct mt_config *wanted)
{
	const struct mt_heap_profiler *profiler = mt_backend()->profiler;
	bool on = wanted->prof == MT_PROF_ON;
	enum mt_err error = profiler ? profiler->sample(on || has_look()) : MT_ERR_NOT_AVAILABLE;

	if (error == MT_ERR_OK)
		samples_without = on;
	return error;
}

/* The row of a look, an empty one, or that of the look which ends first. */
static struct look *find_look(uint64_t number)
{
	struct look *found = &looks[0];

	for (size_t i = 0; i < LOOKS_COUNT; i++) {
		if (looks[i].until_ns && looks[i].number == number)
			return &looks[i];
		if (looks[i].until_ns < found->until_ns)
			found = &looks[i];
	}
	return found;
}

static enum mt_err begin_look(uint64_t number, uint64_t until_ns)
{
	const struct mt_heap_profiler *profiler = mt_backend()->profiler;
	struct look *look = find_look(number);
	enum mt_err error = MT_ERR_OK;

	mt_assert(mt_thread_is_ours() && until_ns);
	if (!has_look()) {
		samples_without = profiler->state() == MT_PROFILER_SAMPLES;
		error = samples_without ? MT_ERR_OK : profiler->sample(true);
	}
	if (error == MT_ERR_OK)
		*look = (struct look){.number = number, .until_ns = until_ns};
	return error;
}

static void end_look(struct look *look)
{
	mt_assert(look >= looks && look < looks + LOOKS_COUNT);
	*look = (struct look){0};
	if (!has_look())
		(void)mt_backend()->profiler->sample(samples_without);
}

/* Has the profiler sample for a look of mtctl (MT_REQUEST_SAMPLE), extends its time, or ends it.
 * Sampling ends with the last look if MT_PROF, or MALLOC_CONF, does not want it. Errors: as
 * follow_setting, and MT_ERR_INVALID, MT_ERR_RANGE for a malformed value. */
static enum mt_err handle_look(const struct mt_request *request)
{
	const struct mt_heap_profiler *profiler = mt_backend()->profiler;
	const char *space = strchr(request->value, ' ');
	uint64_t number = mt_os_parse_number(request->value);
	uint64_t ms = space ? mt_os_parse_number(space) : 0;
	struct look *look = find_look(number);

	if (!profiler || profiler->state() == MT_PROFILER_NONE)
		return MT_ERR_NOT_AVAILABLE;
	if (!space)
		return MT_ERR_INVALID;
	if (ms > MT_SAMPLE_MS_MAX)
		return MT_ERR_RANGE;
	if (ms)
		return begin_look(number, mt_os_now_ns() + ms * MT_NS_PER_MS);
	if (look->until_ns && look->number == number)
		end_look(look);
	return MT_ERR_OK;
}

/* Ends looks whose time is over. Returns when the next one ends, in ns of CLOCK_MONOTONIC;
 * UINT64_MAX: none. */
static uint64_t end_looks(uint64_t now_ns)
{
	uint64_t next_ns = UINT64_MAX;

	mt_assert(mt_thread_is_ours());
	for (size_t i = 0; i < LOOKS_COUNT; i++) {
		if (looks[i].until_ns && looks[i].until_ns <= now_ns)
			end_look(&looks[i]);
		if (looks[i].until_ns && looks[i].until_ns < next_ns)
			next_ns = looks[i].until_ns;
	}
	return next_ns;
}

/* Fills and publishes the table of size classes. */
static enum mt_err publish_classes(void)
{
	struct mt_heap_class found[MT_CLASSES_COUNT];
	struct mt_stats_class table[MT_CLASSES_COUNT];
	uint32_t count;

	if (!mt_backend()->classes)
		return MT_ERR_NOT_AVAILABLE;
	mt_assert(mt_thread_is_ours());
	count = mt_backend()->classes(found, MT_CLASSES_COUNT);
	for (uint32_t i = 0; i < count; i++)
		table[i] = (struct mt_stats_class){.block_bytes = found[i].block_bytes,
						   .live_count = found[i].live_count};
	mt_publish_set_classes(table, count);
	return MT_ERR_OK;
}

/* Writes a profile, beside the stats file. */
static enum mt_err dump_profile(void)
{
	const struct mt_heap_profiler *profiler = mt_backend()->profiler;
	char path[PATH_BYTES];
	enum mt_err answer = profiler && profiler->state() != MT_PROFILER_NONE
				     ? MT_ERR_OK
				     : MT_ERR_NOT_AVAILABLE;
	enum mt_err placed;

	mt_assert(mt_thread_is_ours());
	if (answer == MT_ERR_OK)
		answer = mt_publish_begin_dump(path, sizeof(path));
	if (answer != MT_ERR_OK)
		return answer;
	answer = profiler->dump(path);
	placed = mt_publish_end_dump(MT_DUMP_HEAP, answer == MT_ERR_OK);
	return answer != MT_ERR_OK ? answer : placed;
}

/* ---- mtctl: requests ---- */

static bool request(const struct mt_request *wanted, enum mt_err *out)
{
	if (wanted->kind == MT_REQUEST_CLASSES)
		*out = publish_classes();
	else if (wanted->kind == MT_REQUEST_PROFILE)
		*out = dump_profile();
	else if (wanted->kind == MT_REQUEST_SAMPLE)
		*out = handle_look(wanted);
	else
		return false;
	return true;
}

/* Names may come as in the environment, too. */
static enum mt_err check_setting(const struct mt_config *wanted, const char *name)
{
	if (strcasecmp(name, "prof") == 0 || strcasecmp(name, "MT_PROF") == 0)
		return follow_setting(wanted);
	return MT_ERR_OK;
}

static uint64_t tick(uint64_t now_ns, uint32_t bits)
{
	mt_assert(mt_thread_is_ours());
	mt_heap_trim_tick(bits);
	(void)mt_address_space_follow();
	return end_looks(now_ns);
}

static void publish(bool all)
{
	if (all)
		publish_profiler();
}

const struct mt_component mt_heap_component = {
	.name = "heap",
	.serve = serve,
	.load = load,
	.before_start = before_start,
	.fork_prepare = fork_prepare,
	.fork_parent = fork_parent,
	.fork_child = fork_child,
	.tick = tick,
	.request = request,
	.check_setting = check_setting,
	.publish = publish,
	.prepare_trim = mt_heap_prepare_trim,
	.trim = mt_heap_trim,
};

/* ---- pthread_atfork ---- */

/* The function behind pthread_atfork (a static stub in each object). The handler that is registered
 * first is prepared last: a library that registers before the shim, and allocates in its handlers,
 * would find the allocator locked for the fork. So the shim's handlers come first. */

typedef void (*handler_fn)(void);

MT_EXPORT int __register_atfork(handler_fn prepare, handler_fn parent, handler_fn child,
				void *owner);

/* A program may open and close a library that registers handlers, again and again. */
#define LAST_HANDLERS 64

extern void *__dso_handle __attribute__((visibility("hidden")));

/* The handler that is registered last is prepared first. It ends the moment in which libc leaves
 * out its locks for fork (sys/libc.h), before handlers of the program allocate. */
static void stay_last(int (*next)(handler_fn, handler_fn, handler_fn, void *))
{
	static _Atomic unsigned int count; /* counter, no ordering */

	if (mt_add_relaxed(&count, 1) < LAST_HANDLERS)
		(void)next(mt_libc_count_all_threads, NULL, NULL, &__dso_handle);
}

MT_EXPORT int __register_atfork(handler_fn prepare, handler_fn parent, handler_fn child,
				void *owner)
{
	int (*next)(handler_fn, handler_fn, handler_fn, void *);
	int answer;

	/* A malloc of the program's own may be in its first call, and register handlers with its
	 * lock held: choosing a backend would call that malloc, which waits for itself for ever
	 * (chromium did). Then our constructor registers ours. */
	if (mt_loader_symbol(RTLD_DEFAULT, "malloc") == (void *)(uintptr_t)mt_own_malloc)
		mt_init_start_heap();
	*(void **)(void *)&next = mt_loader_symbol(RTLD_NEXT, "__register_atfork");
	if (!next)
		return ENOMEM;
	answer = next(prepare, parent, child, owner);
	if (answer == 0)
		stay_last(next);
	return answer;
}
