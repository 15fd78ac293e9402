/* heap/heap.c -- the component: who serves malloc, and what the heap does at fork, in cleanups and
 * at requests of mtctl. */
#include <dlfcn.h>
#include <strings.h>

#include "core/components.h"
#include "core/config.h"
#include "core/init.h"
#include "core/log.h"
#include "core/main_exit.h"
#include "core/publish.h"
#include "core/shared_pages.h"
#include "heap/account.h"
#include "heap/allocation_event.h"
#include "heap/backend.h"
#include "heap/entries.h"
#include "heap/growth.h"
#include "heap/jemalloc.h"
#include "heap/jemalloc_watch.h"
#include "heap/profile_dump.h"
#include "heap/purge_lock.h"
#include "heap/trim.h"
#include "sys/symbol.h"

/* ---- the first call ---- */

static void thread_born(void *counters)
{
	mt_account_thread_born(counters);
}

static void serve_chosen(const struct mt_backend *backend)
{
	if (backend->counting == MT_COUNTING_OWN) {
		mt_account_start(mt_jemalloc_counters, mt_main_exit_handle);
		if (mt_jemalloc_begins()) {
			mt_heap_serve_jemalloc();
			return;
		}
		backend = mt_backend_fall_back(mt_config());
	}
	if (backend->counting == MT_COUNTING_CHUNKS) {
		mt_account_start(NULL, mt_main_exit_handle);
		mt_heap_serve(mt_counted_ops());
		return;
	}
	mt_account_watch_main(mt_main_exit_handle);
	mt_heap_serve(mt_backend_is_shadowed() ? mt_heap_shadowed_ops() : mt_uncounted_ops());
}

static void serve(bool on)
{
	static struct mt_backend_hooks hooks = {
		.thread_born = thread_born,
		.grew = mt_growth_mapped,
		.took = mt_allocation_event_took,
		.freed_large = mt_allocation_event_freed_large,
	};

	if (!on) {
		mt_heap_serve(mt_system_plain_ops());
		return;
	}
	hooks.shadowed = mt_heap_is_shadowed();
	serve_chosen(mt_backend_choose(mt_config(), &hooks));
	mt_state_note_heap(mt_backend_identity()->allocator,
			   mt_backend()->counting == MT_COUNTING_OWN);
	mt_growth_begin();
}

/* ---- the constructor ---- */

/* No allocation passes through us where malloc is somebody else's, so growth would never be seen:
 * it is now or never. A thread that could do nothing is not started: the program may be a browser,
 * whose malloc is its own and whose sandboxes refuse a process of two threads. */
static bool shadowed_has_work(void)
{
	const struct mt_config *cfg = mt_config();

	if (!mt_backend_is_shadowed())
		return false;
	return !mt_backend()->purge_impossible || cfg->min_mb == 0 || cfg->rss_limit_mb != 0 ||
	       mt_symbol(RTLD_DEFAULT, "Py_IsInitialized") != NULL;
}

static void load(bool on)
{
	if (!on)
		return;
	mt_account_know_main();
	mt_jemalloc_prof_begin(mt_backend_identity()->conf);
	mt_log(MT_LOG_INFO, "mtshim %s: %s (%s)", MT_VERSION, mt_backend_identity()->allocator,
	       mt_backend_identity()->evidence);
	if (shadowed_has_work())
		(void)mt_init_start_worker();
}

/* ---- fork ---- */

static void fork_prepare(void)
{
	mt_shared_pages_note_fork();
	if (mt_backend()->counting == MT_COUNTING_OWN)
		mt_jemalloc_know_thread();
	mt_account_fork_prepare();
	mt_jemalloc_fork_prepare();
}

static void fork_parent(void)
{
	mt_jemalloc_fork_parent();
	mt_account_fork_parent();
	mt_shared_pages_note_fork();
}

static void fork_child(void)
{
	mt_jemalloc_fork_child();
	mt_purge_forget();
	mt_shared_pages_note_fork();
	mt_account_fork_child();
	mt_heap_trim_fork_child();
	mt_growth_fork_child();
	if (mt_config()->min_mb != 0)
		mt_jemalloc_watch_child();
}

/* ---- mtctl ---- */

static bool request(const struct mt_request *wanted, enum mt_err *out)
{
	if (wanted->kind == MT_REQUEST_CLASSES)
		*out = mt_heap_profile_classes();
	else if (wanted->kind == MT_REQUEST_PROFILE)
		*out = mt_heap_profile_profile();
	else
		return false;
	return true;
}

/* Names may come as in the environment, too. */
static enum mt_err check_setting(const struct mt_config *wanted, const char *name)
{
	if (strcasecmp(name, "prof") == 0 || strcasecmp(name, "MT_PROF") == 0)
		return mt_heap_profile_follow(wanted);
	return MT_ERR_OK;
}

static void refresh(void)
{
	uint64_t state = mt_heap_profile_state();

	mt_publish_lock()->prof_state = state;
	mt_publish_unlock();
}

const struct mt_component mt_heap_component = {
	.name = "heap",
	.serve = serve,
	.load = load,
	.start = mt_heap_profile_start,
	.fork_prepare = fork_prepare,
	.fork_parent = fork_parent,
	.fork_child = fork_child,
	.request = request,
	.check_setting = check_setting,
	.refresh = refresh,
	.prepare_trim = mt_heap_prepare_trim,
	.trim = mt_heap_trim,
};
