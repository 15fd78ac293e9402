/* test_control_file.c -- core/control_file: wake-ups before, with and after a control file, and
 * requests that nobody should believe. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "sys/os.h"
#include "core/control_file.h"
#include "core/files.h"
#include "core/publish.h"
#include "core/stats_layout.h"
#include "core/core_internal.h"

#define SOON_NS (50 * MT_NS_PER_MS)
#define LONG_NS (20 * MT_NS_PER_S) /* longer than a test may take */

static char folder[64];
static char path[256];

static void begin(void)
{
	strcpy(folder, "/dev/shm/mtshim-control-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
}

static void end(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(control, .init = begin, .fini = end);

static void make_file_kept(bool keep)
{
	struct mt_config config;
	uint64_t ticks;
	uint64_t space;
	int at = -1;

	mt_config_defaults(&config);
	strcpy(config.dir, folder);
	cr_assert_eq(mt_files_open_folder(&config, &at), MT_ERR_OK);
	(void)mt_publish_lock();
	cr_assert_eq(mt_files_make(at, &ticks, &space), MT_ERR_OK);
	mt_publish_unlock();
	close(at);
	snprintf(path, sizeof(path), "%s/%d-%llu-%llu.control", folder, (int)getpid(),
		 (unsigned long long)ticks, (unsigned long long)space);
	mt_control_use_file(keep);
}

static void make_file(void)
{
	make_file_kept(false);
}

static uint64_t slept_ns(uint32_t word, uint64_t timeout_ns)
{
	uint64_t began = mt_os_now_ns();

	mt_control_wait(word, timeout_ns);
	return mt_os_now_ns() - began;
}

/* What mtctl does: maps the file and adds 1 to the word, in the kernel. */
static void ring_from_outside(void)
{
	int fd = open(path, O_RDWR);
	struct mt_control_file *file =
		mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	cr_assert_neq(file, MAP_FAILED);
	cr_expect_eq(mt_os_futex_add_wake(
			     (_Atomic uint32_t *)(void *)((char *)file +
							  offsetof(struct mt_control_file, word))),
		     0);
	munmap(file, sizeof(*file));
	close(fd);
}

static void *ring_later(void *bits)
{
	usleep(30000);
	if (bits)
		mt_control_notify((uint32_t)(uintptr_t)bits);
	else
		ring_from_outside();
	return NULL;
}

/* Sleeps, is woken by another thread after 30 ms, and says how long that took. */
static uint64_t woken_after_ns(uint32_t bits)
{
	uint32_t word = mt_control_read_word();
	pthread_t thread;
	uint64_t slept;

	cr_assert_eq(pthread_create(&thread, NULL, ring_later, (void *)(uintptr_t)bits), 0);
	slept = slept_ns(word, LONG_NS);
	pthread_join(thread, NULL);
	return slept;
}

Test(control, a_notification_before_there_is_a_worker_waits_for_it)
{
	uint32_t word = mt_control_read_word();

	cr_expect_eq(mt_control_pending_bits(), 0);
	mt_control_notify(MT_CONTROL_API);
	mt_control_notify(MT_CONTROL_SIGNAL);
	cr_expect_eq(mt_control_pending_bits(), MT_CONTROL_API | MT_CONTROL_SIGNAL);
	cr_expect_neq(mt_control_read_word(), word);
	cr_expect_lt(slept_ns(word, LONG_NS), 5 * MT_NS_PER_S,
		     "a worker that read the word before the notification does not sleep");
	mt_control_clear_bits(MT_CONTROL_API);
	cr_expect_eq(mt_control_pending_bits(), MT_CONTROL_SIGNAL);
	mt_control_clear_bits(MT_CONTROL_SIGNAL | MT_CONTROL_GC);
	cr_expect_eq(mt_control_pending_bits(), 0);
}

Test(control, sleeps_until_the_time_is_over)
{
	cr_expect_geq(slept_ns(mt_control_read_word(), SOON_NS), SOON_NS);
	make_file();
	cr_expect_geq(slept_ns(mt_control_read_word(), SOON_NS), SOON_NS);
}

Test(control, ten_thousand_notifications_are_one_wake)
{
	uint32_t word;

	for (int with_file = 0; with_file < 2; with_file++) {
		if (with_file)
			make_file();
		word = mt_control_read_word();
		for (int i = 0; i < 10000; i++)
			mt_control_notify(MT_CONTROL_SIGNAL);
		cr_expect_eq(mt_control_read_word(), word + 1);
		mt_control_clear_bits(MT_CONTROL_SIGNAL);
		mt_control_notify(MT_CONTROL_SIGNAL);
		cr_expect_eq(mt_control_read_word(), word + 2,
			     "and a new one once the bit was taken");
		mt_control_clear_bits(MT_CONTROL_SIGNAL);
	}
}

Test(control, wakes_who_sleeps)
{
	cr_expect_lt(woken_after_ns(MT_CONTROL_GROWTH), 5 * MT_NS_PER_S, "by the private word");
	mt_control_clear_bits(MT_CONTROL_GROWTH);
	make_file();
	cr_expect_lt(woken_after_ns(MT_CONTROL_GROWTH), 5 * MT_NS_PER_S, "by the word in the file");
	mt_control_clear_bits(MT_CONTROL_GROWTH);
	cr_expect_lt(woken_after_ns(0), 5 * MT_NS_PER_S, "from outside");
}

Test(control, keeps_errno)
{
	errno = ERANGE;
	mt_control_notify(MT_CONTROL_GC);
	cr_expect_eq(errno, ERANGE);
	make_file();
	cr_assert_eq(truncate(path, 0), 0);
	errno = ERANGE;
	mt_control_notify(MT_CONTROL_SIGNAL);
	(void)mt_control_read_word();
	mt_control_wait(mt_control_read_word(), MT_NS_PER_MS);
	cr_expect_eq(errno, ERANGE);
}

static void ring_in_handler(int number)
{
	(void)number;
	mt_control_notify(MT_CONTROL_SIGNAL);
}

Test(control, may_be_notified_from_a_handler_that_interrupts_a_sleep)
{
	struct sigaction action = {.sa_handler = ring_in_handler};
	const struct itimerval soon = {.it_value = {.tv_usec = 30000}};

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &soon, NULL);
	cr_expect_lt(slept_ns(mt_control_read_word(), LONG_NS), 5 * MT_NS_PER_S);
	cr_expect_eq(mt_control_pending_bits(), MT_CONTROL_SIGNAL);
}

/* ---- a control file that is removed ---- */

Test(control, a_notification_at_a_vanished_page_reaches_the_private_word)
{
	uint32_t word = mt_control_read_word();

	make_file();
	cr_assert_eq(truncate(path, 0), 0);
	mt_control_notify(MT_CONTROL_API);
	cr_expect_eq(mt_control_read_word(), word + 1);
}

Test(control, falls_back_when_the_file_is_truncated)
{
	make_file();
	cr_assert_eq(truncate(path, 0), 0);
	mt_control_notify(MT_CONTROL_API); /* no SIGBUS */
	cr_expect_eq(mt_control_pending_bits(), MT_CONTROL_API);
	mt_control_clear_bits(MT_CONTROL_API);
	(void)mt_control_read_word();
	cr_expect_geq(slept_ns(mt_control_read_word(), SOON_NS), SOON_NS,
		      "asleep on a word that is there");
	cr_expect_lt(woken_after_ns(MT_CONTROL_SIGNAL), 5 * MT_NS_PER_S);
}

Test(control, notices_in_its_sleep_that_the_page_is_gone)
{
	uint32_t word;

	make_file();
	word = mt_control_read_word();
	cr_assert_eq(truncate(path, 0), 0);
	cr_expect_lt(slept_ns(word, LONG_NS), 5 * MT_NS_PER_S, "EFAULT is no sleep");
	cr_expect_lt(woken_after_ns(MT_CONTROL_SIGNAL), 5 * MT_NS_PER_S);
}

Test(control, falls_back_when_the_file_is_replaced_or_deleted)
{
	make_file();
	unlink(path);
	cr_expect_lt(woken_after_ns(MT_CONTROL_SIGNAL), 5 * MT_NS_PER_S);
	mt_control_clear_bits(MT_CONTROL_SIGNAL);
	cr_expect_geq(slept_ns(mt_control_read_word(), SOON_NS), SOON_NS);
}

/* ---- requests ---- */

static void write_file(const struct mt_control_file *file)
{
	int fd = open(path, O_WRONLY);

	cr_assert_eq(pwrite(fd, file, sizeof(*file), 0), (ssize_t)sizeof(*file));
	close(fd);
}

static struct mt_control_file sound_file(uint64_t seq, uint32_t kind, uint32_t level)
{
	return (struct mt_control_file){
		.magic = MT_CONTROL_MAGIC,
		.version = MT_STATS_VERSION,
		.request = {.seq = seq,
			    .kind = kind,
			    .level = level,
			    .name = "slack_mb",
			    .value = "5"},
	};
}

Test(control, takes_each_request_once)
{
	struct mt_request out = {0};

	cr_expect_not(mt_control_read_request(&out), "no file");
	make_file();
	cr_expect_not(mt_control_read_request(&out), "none yet");
	for (uint64_t seq = 1; seq <= 3; seq++) {
		const struct mt_control_file file = sound_file(seq, MT_REQUEST_SET, MT_LEVEL_HEAVY);

		write_file(&file);
		cr_assert(mt_control_read_request(&out));
		cr_expect_arr_eq(&out, &file.request, sizeof(out));
		cr_expect_not(mt_control_read_request(&out));
	}
}

/* An mtctl that timed out leaves its request, and the next one writes another over it. */
Test(control, a_request_that_is_being_written_is_taken_once_it_is_whole)
{
	struct mt_control_file file = sound_file(1, MT_REQUEST_SET, MT_LEVEL_PURGE);
	struct mt_request out;

	make_file();
	write_file(&file);
	cr_assert(mt_control_read_request(&out));
	file.request.seq = 0;
	write_file(&file);
	cr_expect_not(mt_control_read_request(&out));
	file.request.seq = 2;
	write_file(&file);
	cr_expect(mt_control_read_request(&out));
}

Test(control, a_truncated_file_requests_nothing)
{
	const struct mt_control_file file = sound_file(1, MT_REQUEST_TRIM, MT_LEVEL_LIGHT);
	struct mt_request out;

	make_file();
	write_file(&file);
	cr_assert_eq(truncate(path, (off_t)sizeof(struct mt_control_file) - 1), 0);
	cr_expect_not(mt_control_read_request(&out));
}

/* A newer mtctl may ask for what this shim does not know; it used to wait for its answer without
 * effect. */
Test(control, does_nothing_of_what_it_does_not_know_and_says_so)
{
	static const struct {
		uint32_t kind, level;
	} rows[] = {
		{MT_REQUEST_COUNT, 0},
		{UINT32_MAX, 0},
		{0x80000001u, 0},
		{MT_REQUEST_TRIM, MT_LEVEL_COUNT},
		{MT_REQUEST_TRIM, UINT32_MAX},
		{MT_REQUEST_TRIM, 0x80000000u},
		{MT_REQUEST_SET, MT_LEVEL_COUNT},
	};
	struct mt_request out;
	struct mt_control_file file;

	make_file();
	file = sound_file(1, MT_REQUEST_NONE, 0);
	write_file(&file);
	memset(&out, 0x5a, sizeof(out));
	cr_expect_not(mt_control_read_request(&out));
	cr_expect_eq(out.kind, 0x5a5a5a5a, "written on success only");
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		file = sound_file(i + 2, rows[i].kind, rows[i].level);
		write_file(&file);
		cr_expect(mt_control_read_request(&out), "row %zu", i);
		cr_expect_eq(out.kind, MT_REQUEST_COUNT, "row %zu", i);
		cr_expect_lt(out.level, MT_LEVEL_COUNT, "row %zu", i);
		cr_expect_eq(out.seq, i + 2, "row %zu", i);
	}
	file = sound_file(100, MT_REQUEST_TRIM, MT_LEVEL_HEAVY);
	write_file(&file);
	cr_expect(mt_control_read_request(&out), "and goes on with one that makes sense");
}

Test(control, believes_no_file_of_another_make)
{
	struct mt_request out;
	struct mt_control_file file = sound_file(1, MT_REQUEST_TRIM, MT_LEVEL_LIGHT);

	make_file();
	file.magic ^= 1;
	write_file(&file);
	cr_expect_not(mt_control_read_request(&out));
	file = sound_file(2, MT_REQUEST_TRIM, MT_LEVEL_LIGHT);
	file.version++;
	write_file(&file);
	cr_expect_not(mt_control_read_request(&out));
}

Test(control, ends_texts_that_have_no_end)
{
	struct mt_request out;
	struct mt_control_file file = sound_file(1, MT_REQUEST_SET, MT_LEVEL_PURGE);

	make_file();
	memset(file.request.name, 'n', sizeof(file.request.name));
	memset(file.request.value, 'v', sizeof(file.request.value));
	write_file(&file);
	cr_assert(mt_control_read_request(&out));
	cr_expect_eq(strnlen(out.name, sizeof(out.name)), sizeof(out.name) - 1);
	cr_expect_eq(strnlen(out.value, sizeof(out.value)), sizeof(out.value) - 1);
}

Test(control, lives_through_noise)
{
	struct mt_control_file file;
	uint64_t dice = 42;
	unsigned taken = 0;

	make_file();
	for (int i = 0; i < 2000; i++) {
		struct mt_request out = {0};

		for (size_t at = 0; at < sizeof(file); at++) {
			dice = dice * 6364136223846793005ull + 1442695040888963407ull;
			((unsigned char *)&file)[at] = (unsigned char)(dice >> 56);
		}
		if (i % 2) { /* past the first check */
			file.magic = MT_CONTROL_MAGIC;
			file.version = MT_STATS_VERSION;
			file.request.kind %= 8;
			file.request.level %= 4;
		}
		write_file(&file);
		if (!mt_control_read_request(&out))
			continue;
		taken++;
		cr_expect_gt(out.kind, MT_REQUEST_NONE);
		cr_expect_leq(out.kind, MT_REQUEST_COUNT);
		cr_expect_lt(out.level, MT_LEVEL_COUNT);
		cr_expect_eq(out.name[sizeof(out.name) - 1], 0);
		cr_expect_eq(out.value[sizeof(out.value) - 1], 0);
	}
	cr_expect_gt(taken, 100);
	cr_expect_lt(taken, 1000);
}

Test(control, a_forked_child_has_neither_its_parents_bits_nor_its_file)
{
	struct mt_control_file file = sound_file(1, MT_REQUEST_TRIM, MT_LEVEL_HEAVY);
	struct mt_request out;
	uint32_t word;

	make_file();
	write_file(&file);
	mt_control_notify(MT_CONTROL_SIGNAL);
	word = mt_control_read_word();
	mt_control_fork_child(); /* as in the child: this process plays it */
	mt_files_fork_child();
	cr_expect_eq(mt_control_pending_bits(), 0);
	cr_expect_not(mt_control_read_request(&out));
	mt_control_notify(MT_CONTROL_API);
	cr_expect_eq(mt_control_pending_bits(), MT_CONTROL_API);
	ring_from_outside();
	cr_expect_neq(mt_control_read_word(), word + 1, "the parent's word");
	cr_expect_geq(slept_ns(mt_control_read_word(), SOON_NS), SOON_NS);
}

/* By its name it could not be read any more, and wake-ups from outside would be missed. */
Test(control, a_file_that_is_kept_open_is_heard_when_its_name_is_gone)
{
	struct mt_control_file *file;
	int fd;

	make_file_kept(true);
	fd = open(path, O_RDWR);
	file = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cr_assert_neq(file, MAP_FAILED);
	cr_assert_eq(unlink(path), 0);

	file->word = 7;

	cr_expect_eq(mt_control_read_word(), 7u);
	munmap(file, sizeof(*file));
	close(fd);
}
