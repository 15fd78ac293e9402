/* test_oom.c -- reaper/oom: who tells of an out-of-memory, where the reaper and the end of the process come together. The
 * report's last step, its way into the stats file, is a double here: it takes as long as a test wants it to. */
#include <criterion/criterion.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "account/device.h"
#include "base/config.h"
#include "base/os.h"
#include "pool/pool.h"
#include "reaper/bell.h"
#include "reaper/framework.h"
#include "reaper/gpu_thread.h"
#include "reaper/oom.h"
#include "sense/gpu.h"
#include "sense/nvml.h"
#include "stats/publish.h"

#define UNUSED __attribute__((unused))
#define A_WHILE_NS (100 * MT_NS_PER_MS)
#define STUCK_NS   (20 * MT_NS_PER_S)

static uint64_t telling_ns; /* what each report takes */
static sem_t begun;
static atomic_uint told;

/* ---- what stands around it ---- */

void mt_pool_usage(int device UNUSED, struct mt_pool_usage *out)
{
	*out = (struct mt_pool_usage){0};
}

void mt_device_usage(int device UNUSED, struct mt_device_usage *out)
{
	*out = (struct mt_device_usage){0};
}

void mt_bell_ring(uint32_t bits UNUSED)
{
}

int mt_gpu_read(struct mt_gpu_device *out UNUSED, int most UNUSED)
{
	return 0;
}

bool mt_nvml_read(const char *pci UNUSED, bool fresh UNUSED, struct mt_nvml_usage *out UNUSED)
{
	return false;
}

bool mt_gpu_thread_run(void (*job)(void) UNUSED)
{
	return false;
}

uint64_t mt_framework_idle_bytes(int device UNUSED)
{
	return 0;
}

static void pause_for(uint64_t span_ns)
{
	static _Atomic uint32_t nobody_rings;
	uint64_t until = mt_os_now_ns() + span_ns;
	uint64_t now;

	while ((now = mt_os_now_ns()) < until)
		(void)mt_os_futex_wait(&nobody_rings, 0, until - now, MT_FUTEX_PRIVATE);
}

void mt_publish_oom(struct mt_stats_oom *oom UNUSED)
{
	uint64_t span_ns = telling_ns;

	sem_post(&begun);
	pause_for(span_ns);
	atomic_fetch_add(&told, 1);
}

/* ---- what happens ---- */

static void begin(void)
{
	const char *environment[] = {"MT_LOG=/dev/null", NULL};

	mt_config_read(environment);
	sem_init(&begun, 0, 0);
}

TestSuite(oom, .init = begin);

static void meet_one(void)
{
	mt_oom_note("cuMemAlloc", 100 * MT_MIB, 0, 0, 64 * MT_MIB);
}

static void *be_reaper(void *unused)
{
	mt_oom_finish(false);
	return unused;
}

/* And is in the middle of it. */
static pthread_t let_reaper_tell(uint64_t span_ns)
{
	pthread_t reaper;

	telling_ns = span_ns;
	meet_one();
	cr_assert_eq(pthread_create(&reaper, NULL, be_reaper, NULL), 0);
	while (sem_wait(&begun) != 0)
		;
	return reaper;
}

Test(oom, the_end_tells_what_nobody_has_told)
{
	meet_one();
	mt_oom_finish(true);
	cr_expect_eq(atomic_load(&told), 1);

	mt_oom_finish(false);
	mt_oom_finish(true);
	cr_expect_eq(atomic_load(&told), 1, "and nobody does again");
}

Test(oom, a_process_does_not_end_under_the_reaper_that_is_telling)
{
	pthread_t reaper = let_reaper_tell(A_WHILE_NS);

	mt_oom_finish(true);

	cr_expect_eq(atomic_load(&told), 1);
	pthread_join(reaper, NULL);
	cr_expect_eq(atomic_load(&told), 1, "by one of them");
}

Test(oom, a_process_ends_all_the_same_under_a_reaper_that_is_stuck)
{
	pthread_t reaper = let_reaper_tell(STUCK_NS);
	uint64_t start = mt_os_now_ns();
	uint64_t took;

	mt_oom_finish(true);

	took = mt_os_now_ns() - start;
	cr_expect_eq(atomic_load(&told), 0);
	cr_expect(took >= MT_NS_PER_S && took < 10 * MT_NS_PER_S, "%llu ns", (unsigned long long)took);
	pthread_detach(reaper);
}

Test(oom, a_forked_child_waits_for_nobody_and_reports_its_own)
{
	pthread_t reaper = let_reaper_tell(STUCK_NS);

	mt_oom_fork_child(); /* as in a child, where that thread is none */
	telling_ns = 0;
	mt_oom_finish(true);
	cr_expect_eq(atomic_load(&told), 0);

	meet_one();
	mt_oom_finish(true);
	cr_expect_eq(atomic_load(&told), 1);
	pthread_detach(reaper);
}
