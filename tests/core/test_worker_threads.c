/* test_worker_threads.c -- the worker's thread, the account, the control file, the actions and the
 * stats file at once, over the embedded jemalloc, with threads that live and die: for
 * ThreadSanitizer and the checker of lock ranks more than for what is counted. */
#include <criterion/criterion.h>

#ifndef MT_NO_JEMALLOC
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "heap/account.h"
#include "heap/jemalloc.h"
#include "heap/backend.h"
#include "core/config.h"
#include "sys/lock.h"
#include "sys/os.h"
#include "core/cleanup.h"
#include "core/components.h"
#include "core/control_file.h"
#include "core/worker.h"
#include "purge/purge.h"
#include "core/files.h"
#include "core/publish.h"
#include "core/stats_layout.h"

#define PLAY_NS (2 * MT_NS_PER_S)
#define BLOCKS  64

static char folder[64];
static atomic_bool over;
static atomic_ulong lives, cleanups, reads, notifications, requests;

static void thread_born(void *counters)
{
	mt_account_thread_born(counters);
}

static void allocated(void)
{
	mt_components_grown();
}

static void begin(void)
{
	static struct mt_backend_hooks hooks = {.thread_born = thread_born, .allocated = allocated};
	static char dir[96];
	const char *environment[] = {dir,
				     "MT_ALLOCATOR=jemalloc",
				     "MT_MIN_MB=0",
				     "MT_TICK_MS=10",
				     "MT_IDLE_MS=10",
				     "MT_SLACK_MB=0",
				     "MT_SLACK_PCT=0",
				     "MT_SETTLE_MS=100",
				     "MT_BUDGET_PCT=100",
				     NULL};

	strcpy(folder, "/dev/shm/mtshim-threads-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	snprintf(dir, sizeof(dir), "MT_DIR=%s", folder);
	mt_config_read(environment);
	mt_backend_prepare_jemalloc(mt_config(), &hooks);
	mt_backend_use_jemalloc();
	mt_account_start(mt_jemalloc_counters, NULL);
	/* Its beginnings before there are threads: how it tells them of it, ThreadSanitizer does
	 * not see. */
	cr_assert_null(mt_jemalloc_begins());
}

static void end(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(worker_threads, .init = begin, .fini = end, .timeout = 240);

/* ---- what goes on at once; the blocks' content is not touched: jemalloc is not instrumented
 * ---- */

static void *live(void *unused)
{
	const struct mt_heap_ops *heap = mt_backend()->ops;
	void *blocks[BLOCKS] = {NULL};
	size_t bytes = 100;

	for (int i = 0; i < 2000; i++) {
		heap->free(blocks[i % BLOCKS]);
		bytes = (bytes * 7 + 4099) % 200000;
		blocks[i % BLOCKS] = heap->malloc(bytes);
	}
	for (int i = 0; i < BLOCKS; i++)
		heap->free(blocks[i]);
	atomic_fetch_add(&lives, 1);
	return unused;
}

static void *keep_alive(void *unused)
{
	pthread_t thread;

	while (!atomic_load(&over))
		if (pthread_create(&thread, NULL, live, NULL) == 0)
			pthread_join(thread, NULL);
	return unused;
}

static void *clean(void *unused)
{
	const struct mt_trim_request order = {
		.reason = MT_REASON_API, .level = MT_LEVEL_HEAVY, .here = true};
	struct mt_stats_cleanup record;

	while (!atomic_load(&over)) {
		mt_cleanup_run(&order, &record);
		atomic_fetch_add(&cleanups, 1);
		usleep(1000);
	}
	return unused;
}

static void *look(void *unused)
{
	struct mt_account_totals now;

	while (!atomic_load(&over)) {
		cr_assert(mt_account_read(&now));
		(void)mt_account_partial_sum(&now);
		(void)mt_publish_lock()->purge_count;
		mt_publish_unlock();
		atomic_fetch_add(&reads, 1);
		usleep(200); /* valgrind runs one thread at a time, and this one would be it */
	}
	return unused;
}

static void *notify(void *unused)
{
	while (!atomic_load(&over)) {
		mt_control_notify(MT_CONTROL_GROWTH);
		(void)mt_rounds_end();
		mt_control_notify(MT_CONTROL_API);
		mt_control_notify(MT_CONTROL_SIGNAL);
		atomic_fetch_add(&notifications, 1);
		usleep(200);
	}
	return unused;
}

/* As mtctl does it: into the file, then a wake-up by the word. Of settings only what the worker
 * alone reads. */
static struct mt_control_file *find_control(void)
{
	struct mt_control_file *file = MAP_FAILED;
	char command[160], path[160] = "";
	int fd = -1;

	for (int tries = 0; tries < 500 && fd < 0; tries++) {
		FILE *list;

		snprintf(command, sizeof(command), "ls '%s'/*.control 2>/dev/null", folder);
		list = popen(command, "r");
		if (fgets(path, sizeof(path), list))
			path[strcspn(path, "\n")] = 0;
		pclose(list);
		fd = path[0] ? open(path, O_RDWR) : -1;
		usleep(10000);
	}
	if (fd >= 0) {
		file = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
	}
	return file;
}

static void *request(void *unused)
{
	struct mt_control_file *file = find_control();

	cr_assert_neq(file, MAP_FAILED);
	for (uint64_t seq = 1; !atomic_load(&over); seq++) {
		file->request = (struct mt_request){.kind = MT_REQUEST_SET};
		strcpy(file->request.name, "tick_ms");
		strcpy(file->request.value, seq % 2 ? "10" : "20");
		file->request.seq = seq;
		mt_os_futex_add_wake((_Atomic uint32_t *)(void *)&file->word);
		atomic_fetch_add(&requests, 1);
		usleep(5000);
	}
	return unused;
}

Test(worker_threads, all_at_once)
{
	void *(*const jobs[])(void *) = {keep_alive, keep_alive, keep_alive, clean,
					 look,       notify,     request};
	pthread_t threads[sizeof(jobs) / sizeof(jobs[0])];
	struct mt_account_totals now;
	uint64_t until;

	cr_assert(mt_worker_start());
	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
		cr_assert_eq(pthread_create(&threads[i], NULL, jobs[i], NULL), 0);
	until = mt_os_now_ns() + PLAY_NS;
	while (mt_os_now_ns() < until || !atomic_load(&requests) || atomic_load(&cleanups) < 4 ||
	       atomic_load(&lives) < 4)
		usleep(10000);
	atomic_store(&over, true);
	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
		pthread_join(threads[i], NULL);
	mt_lock_check_wait("the end");
	cr_expect_gt(atomic_load(&lives), 3);
	cr_expect_gt(atomic_load(&cleanups), 3);
	cr_expect_gt(atomic_load(&reads), 3);
	cr_expect_gt(atomic_load(&notifications), 3);
	cr_assert(mt_account_read(&now));
	cr_expect_gt(now.allocated_bytes, 0);
	mt_publish_end(mt_config(), false);
}
#endif
