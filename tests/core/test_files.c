/* test_files.c -- core/files and core/publish: the two files of a process, against everything
 * that may be done to them and to their folder. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/os.h"
#include "core/files.h"
#include "core/publish.h"
#include "core/core_internal.h"

static char root[64];
static char folder[96];
static struct mt_config config;
static uint64_t start_ticks, pidns;

/* Lines of ours go to a file in root, so that they can be counted. */
static void begin(void)
{
	static char log[128];
	const char *list[] = {log, NULL};

	strcpy(root, "/dev/shm/mtshim-files-XXXXXX");
	cr_assert_not_null(mkdtemp(root));
	snprintf(folder, sizeof(folder), "%s/files", root);
	snprintf(log, sizeof(log), "MT_LOG=%s/log", root);
	mt_config_read(list);
	mt_config_defaults(&config);
	strcpy(config.dir, folder);
}

static void end(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	cr_assert_eq(system(command), 0);
}

/* core/files.h is for callers that hold the publish lock. */
static void begin_locked(void)
{
	begin();
	(void)mt_publish_lock();
}

TestSuite(files, .init = begin_locked, .fini = end);
TestSuite(publish, .init = begin, .fini = end);

static unsigned log_lines(const char *with)
{
	char path[128];
	char text[4096];
	unsigned lines = 0;

	snprintf(path, sizeof(path), "%s/log", root);
	(void)mt_os_read_file(path, text, sizeof(text));
	for (const char *at = strstr(text, with); at; at = strstr(at + 1, with))
		lines++;
	return lines;
}

static enum mt_err make(void)
{
	int at = -1;
	enum mt_err answer = mt_files_open_folder(&config, &at);

	if (answer == MT_ERR_OK) {
		answer = mt_files_make(at, &start_ticks, &pidns);
		close(at);
	}
	mt_files_log_failure();
	return answer;
}

/* The path of one of our files: "stats" or "control file". */
static const char *path_of(const char *kind)
{
	static char paths[2][256];
	char *path = paths[*kind == 's'];

	snprintf(path, sizeof(paths[0]), "%s/%d-%llu-%llu.%s", folder, (int)getpid(),
		 (unsigned long long)start_ticks, (unsigned long long)pidns, kind);
	return path;
}

static struct stat look(const char *path)
{
	struct stat seen;

	cr_assert_eq(lstat(path, &seen), 0, "%s: %s", path, strerror(errno));
	return seen;
}

static bool is_there(const char *path)
{
	struct stat seen;

	return lstat(path, &seen) == 0;
}

static enum mt_err write_word(uint64_t word, size_t offset)
{
	const struct mt_piece piece = {&word, sizeof(word), offset};

	return mt_files_write_stats(&piece, 1);
}

Test(files, are_named_and_closed_to_others_as_the_layout_says)
{
	struct mt_control_file control;

	umask(0);
	errno = ERANGE;
	cr_assert_eq(make(), MT_ERR_OK);
	cr_expect_eq(errno, ERANGE);
	cr_expect(mt_files_exist());
	cr_expect_gt(start_ticks, 0);
	cr_expect_gt(pidns, 0);
	cr_expect_eq(look(folder).st_mode & 07777, 0700);
	cr_expect_eq(look(path_of("stats")).st_mode & 07777, 0600);
	cr_expect_eq(look(path_of("control")).st_mode & 07777, 0600);
	cr_expect_eq(look(path_of("stats")).st_size, (off_t)sizeof(struct mt_stats_file));
	cr_assert_eq(mt_files_read_control(&control, sizeof(control)), (ssize_t)sizeof(control));
	cr_expect_eq(control.magic, MT_CONTROL_MAGIC);
	cr_expect_eq(control.version, MT_STATS_VERSION);
	cr_expect_eq(control.request.kind, MT_REQUEST_NONE);
	mt_files_remove();
	cr_expect_not(is_there(path_of("stats")));
	cr_expect_not(is_there(path_of("control")));
	cr_expect_not(mt_files_exist());
	cr_expect_eq(log_lines("\n"), 0);
}

Test(files, keep_no_descriptor)
{
	int before = dup(0);

	close(before);
	cr_assert_eq(make(), MT_ERR_OK);
	cr_expect_not_null(mt_files_map_word());
	cr_expect_eq(write_word(1, 0), MT_ERR_OK);
	cr_expect_eq(dup(0), before, "the lowest free number is what it was");
}

Test(files, are_written_in_pieces)
{
	uint64_t first = 0x1111;
	uint64_t second = 0x2222;
	const struct mt_piece pieces[] = {{&first, 8, 16}, {NULL, 0, 0}, {&second, 8, 4096}};
	uint64_t seen[2] = {0};
	int fd;

	cr_assert_eq(make(), MT_ERR_OK);
	cr_expect_eq(mt_files_write_stats(pieces, 3), MT_ERR_OK);
	fd = open(path_of("stats"), O_RDONLY);
	cr_assert_eq(pread(fd, &seen[0], 8, 16), 8);
	cr_assert_eq(pread(fd, &seen[1], 8, 4096), 8);
	close(fd);
	cr_expect_eq(seen[0], first);
	cr_expect_eq(seen[1], second);
}

/* ---- folders that will not do ---- */

static void expect_refused(enum mt_err answer, const char *line)
{
	struct mt_control_file control;

	cr_expect_eq(make(), answer);
	cr_expect_eq(make(), answer);
	cr_expect_not(mt_files_exist());
	cr_expect_eq(log_lines(line), 1, "said once: %s", line);
	cr_expect_eq(log_lines("\n"), 1, "and nothing else");
	cr_expect_not(is_there(path_of("stats")));
	cr_expect_eq(write_word(1, 0), MT_ERR_NOT_AVAILABLE);
	cr_expect_lt(mt_files_read_control(&control, sizeof(control)), 0);
	cr_expect_null(mt_files_map_word());
	mt_files_remove();
}

Test(files, refuse_a_folder_that_others_can_enter)
{
	cr_assert_eq(mkdir(folder, 0700), 0);
	cr_assert_eq(chmod(folder, 0750), 0);
	expect_refused(MT_ERR_FOREIGN, "is not private to this user");
}

Test(files, refuse_a_folder_of_somebody_else)
{
	/* Without root's rights there is none of mode 0700 that could be looked into. */
	if (geteuid() != 0) {
		strcpy(config.dir, "/dev/shm");
		strcpy(folder, "/dev/shm");
	} else {
		cr_assert_eq(mkdir(folder, 0700), 0);
		cr_assert_eq(chown(folder, 4711, 4711), 0);
	}
	expect_refused(MT_ERR_FOREIGN, "is not private to this user");
}

Test(files, refuse_a_folder_behind_a_symlink)
{
	char target[96];

	snprintf(target, sizeof(target), "%s/target", root);
	cr_assert_eq(mkdir(target, 0700), 0);
	cr_assert_eq(symlink(target, folder), 0);
	expect_refused(MT_ERR_SYSTEM, "cannot use");
	cr_expect_eq(rmdir(target), 0, "nothing was put there");
}

Test(files, refuse_what_is_no_folder)
{
	int fd = open(folder, O_CREAT | O_WRONLY, 0600);

	close(fd);
	expect_refused(MT_ERR_SYSTEM, "cannot use");
}

Test(files, refuse_a_folder_whose_parent_does_not_exist)
{
	strcat(config.dir, "/deeper");
	strcat(folder, "/deeper");
	expect_refused(MT_ERR_SYSTEM, "cannot make");
}

Test(files, refuse_a_folder_that_is_not_in_memory)
{
	strcpy(config.dir, "/proc/mtshim");
	strcpy(folder, "/proc/mtshim");
	expect_refused(
		MT_ERR_NOT_AVAILABLE,
		"/proc/mtshim is not on a file system in memory (tmpfs, ramfs); running without");
}

Test(files, leave_nothing_behind_where_there_is_no_room)
{
	const struct rlimit small = {2048, RLIM_INFINITY}; /* stands for a full disk */
	const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};

	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	cr_expect_eq(make(), MT_ERR_SYSTEM);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
	cr_expect_not(mt_files_exist());
	cr_expect_eq(log_lines("cannot write"), 1);
	cr_expect_eq(rmdir(folder), 0, "empty");
}

Test(files, are_not_written_where_that_would_end_the_program)
{
	const struct rlimit nothing = {0, RLIM_INFINITY}; /* as a sandbox sets it */
	const struct rlimit before = {RLIM_INFINITY, RLIM_INFINITY};
	uint64_t value = 0x1111;
	const struct mt_piece piece = {&value, 8, 16};

	signal(SIGXFSZ, SIG_DFL);
	cr_assert_eq(make(), MT_ERR_OK);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &nothing), 0);
	cr_expect_eq(mt_files_write_stats(&piece, 1), MT_ERR_SYSTEM);
	mt_files_remove();
	cr_expect_eq(make(), MT_ERR_SYSTEM);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
}

/* ---- files that are not what they were ---- */

Test(files, replace_what_was_planted_and_touch_nothing_behind_it)
{
	char victim[96];
	int fd;

	snprintf(victim, sizeof(victim), "%s/victim", root);
	fd = open(victim, O_CREAT | O_WRONLY, 0600);
	cr_assert_eq(write(fd, "precious", 8), 8);
	close(fd);
	cr_assert_eq(make(), MT_ERR_OK);
	mt_files_remove();
	cr_assert_eq(symlink(victim, path_of("stats")), 0);
	cr_assert_eq(link(victim, path_of("control")), 0);
	cr_assert_eq(make(), MT_ERR_OK);
	cr_expect_eq(write_word(UINT64_MAX, 0), MT_ERR_OK);
	cr_expect(S_ISREG(look(path_of("stats")).st_mode));
	cr_expect_eq(look(victim).st_size, 8);
	cr_expect_eq(look(victim).st_nlink, 1);
}

/* Puts something else in the place of a file of ours, and expects that it is left alone. */
static void expect_foreign(void)
{
	struct mt_control_file control;

	cr_expect_eq(write_word(UINT64_MAX, 0), MT_ERR_FOREIGN);
	cr_expect_lt(mt_files_read_control(&control, sizeof(control)), 0);
	cr_expect_null(mt_files_map_word());
	mt_files_remove();
	cr_expect(is_there(path_of("stats")), "not ours to remove");
	cr_expect(is_there(path_of("control")));
}

Test(files, do_not_touch_a_file_that_has_taken_their_place)
{
	static const char *const kinds[] = {"stats", "control"};

	cr_assert_eq(make(), MT_ERR_OK);
	for (int i = 0; i < 2; i++) {
		char other[128];
		int fd;

		snprintf(other, sizeof(other), "%s/other-%d", root, i);
		fd = open(other, O_CREAT | O_WRONLY, 0600);
		cr_assert_eq(write(fd, "other", 5), 5);
		close(fd);
		cr_assert_eq(rename(other, path_of(kinds[i])), 0);
	}
	expect_foreign();
	cr_expect_eq(look(path_of("stats")).st_size, 5);
}

Test(files, do_not_follow_a_symlink_that_has_taken_their_place)
{
	char stats[300];
	char control[300];

	cr_assert_eq(make(), MT_ERR_OK);
	snprintf(stats, sizeof(stats), "%.250s.moved", path_of("stats"));
	snprintf(control, sizeof(control), "%.250s.moved", path_of("control"));
	cr_assert_eq(rename(path_of("stats"), stats), 0);
	cr_assert_eq(rename(path_of("control"), control), 0);
	cr_assert_eq(symlink(stats, path_of("stats")), 0);
	cr_assert_eq(symlink(control, path_of("control")), 0);
	expect_foreign();
}

Test(files, do_not_wait_at_a_pipe_that_has_taken_their_place)
{
	cr_assert_eq(make(), MT_ERR_OK);
	unlink(path_of("stats"));
	unlink(path_of("control"));
	cr_assert_eq(mkfifo(path_of("stats"), 0600), 0);
	cr_assert_eq(mkfifo(path_of("control"), 0600), 0);
	expect_foreign();
}

Test(files, live_on_when_they_are_deleted)
{
	struct mt_control_file control;

	cr_assert_eq(make(), MT_ERR_OK);
	unlink(path_of("stats"));
	unlink(path_of("control"));
	errno = ERANGE;
	cr_expect_eq(write_word(1, 0), MT_ERR_FOREIGN);
	cr_expect_eq(mt_files_read_control(&control, sizeof(control)), -1);
	cr_expect_null(mt_files_map_word());
	mt_files_remove();
	cr_expect_eq(errno, ERANGE);
	cr_expect_not(is_there(path_of("stats")), "and not made again");
}

Test(files, live_on_when_they_are_truncated)
{
	struct mt_control_file control;

	cr_assert_eq(make(), MT_ERR_OK);
	cr_assert_eq(truncate(path_of("stats"), 0), 0);
	cr_assert_eq(truncate(path_of("control"), 3), 0);
	cr_expect_eq(write_word(7, 8192), MT_ERR_OK);
	cr_expect_eq(look(path_of("stats")).st_size, 8200);
	cr_expect_eq(mt_files_read_control(&control, sizeof(control)), 3);
}

/* ---- the heap profile ---- */

/* Begins a profile and writes the file as the allocator does; answers its path. */
static const char *write_profile(const char *text, mode_t mode)
{
	static char path[512];
	int fd;

	cr_assert_eq(mt_files_begin_dump(path, sizeof(path)), MT_ERR_OK);
	cr_assert_not(is_there(path));
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	return path;
}

Test(files, a_whole_profile_takes_the_place_of_the_last_one)
{
	const char *fresh;

	cr_assert_eq(make(), MT_ERR_OK);
	write_profile("one", 0600);
	cr_expect_eq(mt_files_end_dump(MT_DUMP_HEAP, true), MT_ERR_OK);
	cr_expect_eq(look(path_of("heap")).st_size, 3);
	fresh = write_profile("second", 0600);
	cr_expect_eq(mt_files_end_dump(MT_DUMP_HEAP, true), MT_ERR_OK);
	cr_expect_eq(look(path_of("heap")).st_size, 6);
	cr_expect_eq(look(path_of("heap")).st_mode & 07777, 0600);
	cr_expect_not(is_there(fresh));
	mt_files_remove();
	cr_expect_not(is_there(path_of("heap")));
}

Test(files, a_profile_that_is_not_whole_leaves_the_last_one)
{
	const char *fresh;

	cr_assert_eq(make(), MT_ERR_OK);
	write_profile("one", 0600);
	cr_expect_eq(mt_files_end_dump(MT_DUMP_HEAP, true), MT_ERR_OK);
	fresh = write_profile("half", 0600);
	cr_expect_eq(mt_files_end_dump(MT_DUMP_HEAP, false), MT_ERR_SYSTEM);
	cr_expect_not(is_there(fresh));
	cr_expect_eq(look(path_of("heap")).st_size, 3);
	fresh = write_profile("", 0600);
	cr_expect_eq(mt_files_end_dump(MT_DUMP_HEAP, true), MT_ERR_SYSTEM,
		     "an empty one is not whole");
	fresh = write_profile("for all", 0644);
	cr_expect_eq(mt_files_end_dump(MT_DUMP_HEAP, true), MT_ERR_SYSTEM,
		     "nor one that others may read");
	cr_expect_not(is_there(fresh));
	mt_files_remove();
}

Test(files, a_link_in_the_place_of_a_profile_is_not_followed)
{
	char victim[128];
	char fresh[512];

	cr_assert_eq(make(), MT_ERR_OK);
	snprintf(victim, sizeof(victim), "%s/victim", root);
	close(open(victim, O_WRONLY | O_CREAT, 0600));
	cr_assert_eq(mt_files_begin_dump(fresh, sizeof(fresh)), MT_ERR_OK);
	cr_assert_eq(symlink(victim, fresh), 0);
	cr_expect_eq(mt_files_end_dump(MT_DUMP_HEAP, true), MT_ERR_SYSTEM);
	cr_expect_not(is_there(fresh));
	cr_expect_not(is_there(path_of("heap")));
	cr_assert_eq(symlink(victim, fresh), 0);
	cr_expect_eq(mt_files_begin_dump(fresh, sizeof(fresh)), MT_ERR_OK);
	cr_expect_not(is_there(fresh), "what was planted is gone before anything is written");
	cr_expect(is_there(victim));
	mt_files_remove();
}

Test(files, no_profile_goes_into_a_folder_that_was_opened_to_others_since)
{
	char fresh[512];

	cr_assert_eq(make(), MT_ERR_OK);
	cr_assert_eq(chmod(folder, 0777), 0);
	cr_expect_eq(mt_files_begin_dump(fresh, sizeof(fresh)), MT_ERR_NOT_AVAILABLE);
}

Test(files, a_profile_that_is_finished_after_the_end_is_removed)
{
	const char *fresh;

	cr_assert_eq(make(), MT_ERR_OK);
	fresh = write_profile("late", 0600);
	mt_files_remove();
	cr_expect_not(is_there(fresh), "nobody may be left to finish it");
	close(open(fresh, O_WRONLY | O_CREAT | O_EXCL, 0600));
	cr_expect_eq(mt_files_end_dump(MT_DUMP_HEAP, true), MT_ERR_SYSTEM);
	cr_expect_not(is_there(fresh));
	cr_expect_not(is_there(path_of("heap")));
}

Test(files, of_a_parent_are_not_its_childs)
{
	cr_assert_eq(make(), MT_ERR_OK);
	cr_expect_not_null(mt_files_map_word());
	mt_files_fork_child();
	cr_expect_eq(write_word(1, 0), MT_ERR_NOT_AVAILABLE);
	mt_files_remove();
	cr_expect(is_there(path_of("stats")));
	cr_expect(is_there(path_of("control")));
}

Test(files, of_the_program_before_an_exec_are_removed_by_name)
{
	cr_assert_eq(make(), MT_ERR_OK);
	mt_files_fork_child(); /* as after an exec: they lie there, and nobody knows of them */
	mt_files_remove_inherited(&config);
	cr_expect_eq(rmdir(folder), 0, "both files are gone");
	mt_files_remove_inherited(&config);
	cr_expect_not(is_there(folder), "and not made");
}

/* ---- publish ---- */

static struct mt_stats_file read_stats;

static void publish(void)
{
	static char long_text[400];
	const struct mt_publish_identity identity = {.allocator = "jemalloc",
						     .evidence = "because",
						     .mode = MT_MODE_JEMALLOC,
						     .conf = long_text};

	for (size_t at = 0; at + 11 < sizeof(long_text); at += 11)
		strcpy(long_text + at, "narenas:16,");
	mt_publish_start(&config, &identity);
	cr_assert(mt_files_exist());
}

/* The whole file, with its head checked as a reader does. */
static void read_back(void)
{
	const struct mt_stats_head *head = &read_stats.head;
	uint64_t sum = 0xcbf29ce484222325ull;
	char command[160];
	char path[256];
	FILE *pipe;
	int fd;

	snprintf(command, sizeof(command), "ls %s/*.stats", folder);
	pipe = popen(command, "r");
	cr_assert_not_null(fgets(path, sizeof(path), pipe));
	pclose(pipe);
	path[strcspn(path, "\n")] = 0;
	fd = open(path, O_RDONLY);
	cr_assert_eq(read(fd, &read_stats, sizeof(read_stats)), (ssize_t)sizeof(read_stats));
	close(fd);
	for (size_t i = 0; i < offsetof(struct mt_stats_head, checksum) / 8; i++) {
		uint64_t word;

		memcpy(&word, (const char *)head + i * 8, 8);
		sum = (sum ^ word) * 0x100000001b3ull;
	}
	cr_assert_eq(head->checksum, sum);
	cr_assert_eq(head->magic, MT_STATS_MAGIC);
}

Test(publish, fills_the_head)
{
	publish();
	read_back();
	cr_expect_eq(read_stats.head.version, MT_STATS_VERSION);
	cr_expect_eq(read_stats.head.head_bytes, sizeof(struct mt_stats_head));
	cr_expect_eq(read_stats.head.cleanup_bytes, sizeof(struct mt_stats_cleanup));
	cr_expect_eq(read_stats.head.sample_bytes, sizeof(struct mt_stats_sample));
	cr_expect_eq(read_stats.head.pid, (uint64_t)getpid());
	cr_expect_str_eq(read_stats.head.shim_version, MT_VERSION);
	cr_expect_str_eq(read_stats.head.allocator, "jemalloc");
	cr_expect_eq(strlen(read_stats.head.conf) % strlen("narenas:16,"),
		     strlen("narenas:16,...") % strlen("narenas:16,"), "whole pairs");
	cr_expect_gt(strlen(read_stats.head.conf), sizeof(read_stats.head.conf) - 20,
		     "as many as there is room for");
	cr_expect_str_eq(read_stats.head.conf + strlen(read_stats.head.conf) - 14, "narenas:16,...",
			 "said to be cut");
	cr_expect_gt(strlen(read_stats.head.comm), 0);
	cr_expect_null(strchr(read_stats.head.comm, '\n'));
	mt_publish_end(&config, false);
	cr_expect_eq(rmdir(folder), 0, "both files are gone");
}

Test(publish, writes_settings_with_where_they_came_from)
{
	publish();
	cr_assert_eq(mt_config_set(&config, "slack_mb", "77"), MT_ERR_OK);
	mt_publish_set_settings(&config);
	read_back();
	cr_expect_eq(read_stats.head.settings_count, MT_OPTION_COUNT);
	for (int i = 0; i < MT_OPTION_COUNT; i++)
		cr_expect_str_eq(read_stats.settings[i].name, mt_config_name((enum mt_option)i));
	cr_expect_str_eq(read_stats.settings[MT_OPTION_slack_mb].value, "77");
	cr_expect_str_eq(read_stats.settings[MT_OPTION_slack_mb].origin, "mtctl set");
	cr_expect_str_eq(read_stats.settings[MT_OPTION_tick_ms].value, "50");
	cr_expect_str_eq(read_stats.settings[MT_OPTION_tick_ms].origin, "default");
}

Test(publish, writes_the_snapshot_and_as_samples_one_in_a_while_and_one_after_a_cleanup)
{
	publish();
	for (uint64_t i = 1; i <= 100; i++) {
		mt_publish_lock()->rss_bytes = i;
		mt_publish_unlock();
		mt_publish_write();
	}
	read_back();
	cr_expect_eq(read_stats.head.snapshot.rss_bytes, 100);
	cr_expect_eq(read_stats.head.samples_count, 1, "one in 0.9 s");
	cr_expect_eq(read_stats.samples[0].rss_bytes, 1);
	cr_expect_gt(read_stats.samples[0].time_ns, 0);
	cr_expect_eq(read_stats.samples[1].time_ns, 0);

	mt_publish_lock()->rss_bytes = 2;
	mt_publish_unlock();
	for (int i = 0; i < 3; i++)
		mt_publish_write_after_cleanup();
	read_back();
	cr_expect_eq(read_stats.head.samples_count, 2, "and one after a cleanup");
	cr_expect_eq(read_stats.samples[1].rss_bytes, 2);
}

Test(publish, keeps_the_last_records_under_their_numbers)
{
	publish();
	for (uint64_t i = 1; i <= MT_CLEANUPS_COUNT + 5; i++) {
		struct mt_stats_cleanup record = {.rss_before_bytes = i * 10};

		mt_publish_add_cleanup(&record);
		cr_expect_eq(record.number, i);
	}
	read_back();
	cr_expect_eq(read_stats.head.cleanups_count, MT_CLEANUPS_COUNT + 5);
	for (uint64_t slot = 0; slot < MT_CLEANUPS_COUNT; slot++) {
		uint64_t number = slot < 5 ? MT_CLEANUPS_COUNT + slot + 1 : slot + 1;

		cr_expect_eq(read_stats.cleanups[slot].number, number);
		cr_expect_eq(read_stats.cleanups[slot].rss_before_bytes, number * 10);
	}
}

Test(publish, goes_on_in_memory_where_there_are_no_files)
{
	const struct mt_publish_identity identity = {
		.allocator = "glibc", .evidence = "", .mode = MT_MODE_SYSTEM, .conf = ""};
	struct mt_stats_cleanup record = {0};

	strcpy(config.dir, "/proc/nowhere");
	mt_publish_start(&config, &identity);
	mt_publish_lock()->rss_bytes = 5;
	mt_publish_unlock();
	mt_publish_write();
	mt_publish_add_cleanup(&record);
	mt_publish_set_settings(&config);
	cr_expect_eq(record.number, 1);
	cr_expect_eq(mt_publish_lock()->rss_bytes, 5);
	mt_publish_unlock();
	mt_publish_end(&config, false);
	cr_expect_eq(log_lines("running without stats file"), 1);
}

Test(publish, a_forked_child_begins_with_nothing_and_leaves_the_files_single)
{
	struct mt_stats_cleanup record = {0};

	publish();
	mt_publish_add_cleanup(&record);
	mt_publish_fork_prepare();
	mt_publish_fork_child(); /* as in the child: this process plays it */
	cr_expect_eq(mt_publish_lock()->rss_bytes, 0);
	mt_publish_unlock();
	mt_publish_write();
	mt_publish_end(&config, false);
	read_back();
	cr_expect_eq(read_stats.head.cleanups_count, 1);
	mt_publish_add_cleanup(&record);
	cr_expect_eq(record.number, 1, "records are counted from one");
}
