/* test_rescue.c -- core/control_file: whom a process asks for device memory, and what it reads
 * back. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/files.h"
#include "core/publish.h"
#include "core/control_file.h"
#include "core/core_internal.h"
#include "sys/os.h"

#define DEVICE "0000:01:00.0"

static char folder[64];
static uint64_t pidns;
static pid_t other; /* a living process */

static void begin(void)
{
	const char *none[] = {NULL};
	struct mt_config config;
	uint64_t ticks;
	int at = -1;

	mt_config_read(none);
	mt_config_defaults(&config);
	strcpy(folder, "/dev/shm/mtshim-rescue-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	strcpy(config.dir, folder);
	cr_assert_eq(mt_files_open_folder(&config, &at), MT_ERR_OK);
	(void)mt_publish_lock();
	cr_assert_eq(mt_files_make(at, &ticks, &pidns), MT_ERR_OK);
	mt_publish_unlock();
	close(at);
	other = fork();
	if (other == 0)
		for (;;)
			pause();
}

static void end(void)
{
	char command[128];

	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	cr_assert_eq(system(command), 0);
}

TestSuite(rescue, .init = begin, .fini = end);

static uint64_t start_of(pid_t pid)
{
	char path[64], text[1024];

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	cr_assert_gt(mt_os_read_file(path, text, sizeof(text)), 0);
	return mt_os_procstat_number(text, 22);
}

static const char *path_of(pid_t pid, uint64_t ticks, uint64_t space)
{
	static char path[160];

	snprintf(path, sizeof(path), "%s/%d-%llu-%llu.control", folder, (int)pid,
		 (unsigned long long)ticks, (unsigned long long)space);
	return path;
}

static void write_file(const char *path, const struct mt_control_file *content)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(ftruncate(fd, 4096), 0);
	cr_assert_eq(pwrite(fd, content, sizeof(*content), 0), (ssize_t)sizeof(*content));
	close(fd);
}

static struct mt_control_file read_file(const char *path)
{
	struct mt_control_file content;
	int fd = open(path, O_RDONLY);

	cr_assert_eq(pread(fd, &content, sizeof(content), 0), (ssize_t)sizeof(content));
	close(fd);
	return content;
}

static const struct mt_control_file good = {
	.magic = MT_CONTROL_MAGIC, .version = MT_STATS_VERSION, .is_rescuer = 1};

static uint32_t ask(void)
{
	struct mt_rescue_request request = {.pid = (uint64_t)getpid()};

	strcpy(request.device, DEVICE);
	return mt_control_rescue_send(&request);
}

Test(rescue, a_living_process_that_uses_cuda_is_asked_and_woken)
{
	const char *path = path_of(other, start_of(other), pidns);
	uint64_t before_ns = mt_os_now_ns();
	struct mt_control_file seen;

	write_file(path, &good);

	cr_expect_eq(ask(), 1);
	seen = read_file(path);
	cr_expect_geq(seen.rescue.asked_ns, before_ns, "the time at which it was written");
	cr_expect_leq(seen.rescue.asked_ns, mt_os_now_ns());
	cr_expect_eq(seen.rescue.pid, (uint64_t)getpid());
	cr_expect_str_eq(seen.rescue.device, DEVICE);
	cr_expect_eq(seen.word, 1);
}

/* Two processes that ask at once may reach their rescuers in different orders. The one whose
 * request is overwritten knows its reply by a time that is no earlier: so each file has the time at
 * which it was written, not that of the whole question. */
Test(rescue, each_process_is_asked_with_a_time_of_its_own_and_replies_by_it)
{
	const pid_t asked[2] = {other, getppid()};
	struct mt_control_file content = good;
	struct mt_rescue_gain gain;
	uint64_t times[2];

	for (int i = 0; i < 2; i++)
		write_file(path_of(asked[i], start_of(asked[i]), pidns), &good);
	cr_assert_eq(ask(), 2);
	for (int i = 0; i < 2; i++)
		times[i] = read_file(path_of(asked[i], start_of(asked[i]), pidns)).rescue.asked_ns;
	cr_expect_neq(times[0], times[1]);

	for (int i = 0; i < 2; i++) {
		content.rescue_reply = (struct mt_rescue_reply){
			.asked_ns = times[i], .device = DEVICE, .is_final = 1};
		write_file(path_of(asked[i], start_of(asked[i]), pidns), &content);
		mt_control_rescue_read(&gain);
		cr_expect_eq(gain.open_count, 1 - (uint32_t)i);
	}
}

/* Nobody is asked: the file stays as it is. */
static void expect_left_alone(const char *path, const struct mt_control_file *content)
{
	struct mt_control_file seen;

	write_file(path, content);
	cr_expect_eq(ask(), 0);
	seen = read_file(path);
	cr_expect_eq(memcmp(&seen, content, sizeof(seen)), 0);
}

Test(rescue, no_other_process_is_asked)
{
	struct mt_control_file idle = good, newer = good, odd = good;
	const uint64_t ticks = start_of(other);

	idle.is_rescuer = 0;
	newer.version++;
	odd.magic++;
	expect_left_alone(path_of(other, ticks, pidns), &idle);
	expect_left_alone(path_of(other, ticks, pidns), &newer);
	expect_left_alone(path_of(other, ticks, pidns), &odd);
	unlink(path_of(other, ticks, pidns));
	expect_left_alone(path_of(other, ticks, pidns + 1), &good);
	expect_left_alone(path_of(other, ticks + 1, pidns), &good);
	expect_left_alone(path_of(getpid(), start_of(getpid()) + 1, pidns), &good);
}

Test(rescue, a_process_that_runs_another_program_since_is_not_asked)
{
	char path[160], text[1024], name[128];
	uint64_t stack_start;
	int fd;

	strcpy(path, path_of(other, start_of(other), pidns));
	write_file(path, &good);
	snprintf(name, sizeof(name), "/proc/%d/stat", (int)other);
	cr_assert_gt(mt_os_read_file(name, text, sizeof(text)), 0);
	stack_start = mt_os_procstat_number(text, 28);
	strcpy(strstr(path, ".control"), ".stats");
	fd = open(path, O_RDWR | O_CREAT, 0600);
	for (int is_old = 0; is_old < 2; is_old++) {
		uint64_t written = stack_start + 16 * (uint64_t)is_old;

		cr_assert_eq(pwrite(fd, &written, sizeof(written),
				    offsetof(struct mt_stats_file, head.stack_start)),
			     (ssize_t)sizeof(written));
		cr_expect_eq(ask(), !is_old);
	}
	close(fd);
}

Test(rescue, a_file_that_others_may_write_or_that_is_a_link_is_no_file_of_a_process)
{
	const char *path = path_of(other, start_of(other), pidns);
	char elsewhere[128];

	snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", folder);
	write_file(elsewhere, &good);
	cr_assert_eq(symlink(elsewhere, path), 0);
	cr_expect_eq(ask(), 0);
	unlink(path);
	cr_assert_eq(link(elsewhere, path), 0);
	cr_expect_eq(ask(), 0);
	unlink(elsewhere);
	cr_expect_eq(ask(), 1);
	cr_assert_eq(chmod(path, 0666), 0);
	cr_expect_eq(ask(), 0);
	cr_assert_eq(chmod(path, 0600), 0);
	if (geteuid() == 0 && chown(path, 1, 1) == 0)
		cr_expect_eq(ask(), 0);
}

/* Asks the one process whose control file has this content. Returns the time of the request. */
static uint64_t ask_one(const char *path, const struct mt_control_file *content)
{
	write_file(path, content);
	cr_assert_eq(ask(), 1);
	return read_file(path).rescue.asked_ns;
}

Test(rescue, the_replies_say_who_gave_how_much)
{
	const char *path = path_of(other, start_of(other), pidns);
	struct mt_control_file content = good;
	struct mt_rescue_gain gain;
	uint64_t asked_ns;

	asked_ns = ask_one(path, &content);
	mt_control_rescue_read(&gain);
	cr_expect_eq(gain.open_count, 1);
	cr_expect_eq(gain.freed_bytes, 0);

	content.rescue_reply = (struct mt_rescue_reply){.asked_ns = asked_ns - 1, .bytes = 5};
	write_file(path, &content);
	mt_control_rescue_read(&gain);
	cr_expect_eq(gain.freed_bytes, 0, "a reply to an earlier request");

	content.rescue_reply = (struct mt_rescue_reply){.asked_ns = asked_ns,
							.device = DEVICE,
							.bytes = 7,
							.pid = (uint64_t)getpid(),
							.is_final = 1};
	write_file(path, &content);
	mt_control_rescue_read(&gain);
	cr_expect_eq(gain.open_count, 0);
	cr_expect_eq(gain.freed_bytes, 7);
	cr_expect_eq(gain.bytes, 7);
	cr_expect_eq(gain.most_pid, (uint64_t)other);
}

/* Two processes that lacked memory of two devices at one moment: one took the other's reply. */
Test(rescue, a_reply_about_another_device_has_the_process_asked_again)
{
	const char *path = path_of(other, start_of(other), pidns);
	struct mt_control_file content = good;
	struct mt_rescue_gain gain;
	uint64_t asked_ns;

	asked_ns = ask_one(path, &content);
	content.rescue_reply = (struct mt_rescue_reply){
		.asked_ns = asked_ns + 1, .device = "0000:02:00.0", .bytes = 7, .is_final = 1};
	write_file(path, &content);
	mt_control_rescue_read(&gain);
	cr_expect_eq(gain.open_count, 1);
	cr_expect_eq(gain.freed_bytes, 0);
	cr_expect_gt(read_file(path).rescue.asked_ns, asked_ns + 1);
	cr_expect_str_eq(read_file(path).rescue.device, DEVICE);
}

Test(rescue, the_end_of_a_process_ends_the_wait_for_its_reply)
{
	const char *path = path_of(other, start_of(other), pidns);
	struct mt_rescue_gain gain;

	write_file(path, &good);
	cr_assert_eq(ask(), 1);
	unlink(path);

	mt_control_rescue_read(&gain);
	cr_expect_eq(gain.open_count, 0);
}

static _Atomic uint64_t seen_ns;
static _Atomic bool is_asked_out;

/* Writes 500 requests into this process's own file, each when the one before was seen. */
static void *ask_often(void *path)
{
	struct mt_rescue_request request = {.pid = 1};
	int fd = open(path, O_RDWR);

	for (int i = 0; i < 500; i++) {
		uint64_t began_ns = mt_os_now_ns();

		request.asked_ns = began_ns;
		(void)!pwrite(fd, &request, sizeof(request),
			      offsetof(struct mt_control_file, rescue));
		while (seen_ns != request.asked_ns && mt_os_now_ns() - began_ns < 20 * MT_NS_PER_S)
			sched_yield(); /* valgrind runs one thread at a time */
		if (seen_ns != request.asked_ns)
			break; /* lost */
	}
	close(fd);
	is_asked_out = true;
	return NULL;
}

Test(rescue, no_request_is_lost_that_comes_while_the_file_is_read)
{
	struct mt_rescue_request request;
	char path[160];
	uint64_t asked_count = 0;
	pthread_t thread;

	strcpy(path, path_of(getpid(), start_of(getpid()), pidns));
	cr_assert_eq(pthread_create(&thread, NULL, ask_often, path), 0);
	while (!is_asked_out)
		if (mt_control_read_rescue(&request)) {
			asked_count++;
			seen_ns = request.asked_ns;
		}
	pthread_join(thread, NULL);

	cr_expect_eq(asked_count, 500);
}
