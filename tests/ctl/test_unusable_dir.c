/* test_unusable_dir.c -- where the library would keep no files, and why; /dev/shm is in memory,
 * /proc is not. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/channel/stats_dir.h"

#define NOT_IN_MEMORY "is not on a file system in memory (tmpfs)"
#define OPEN_TO_ALL   "is open to others (mode 700 is wanted)"
#define NOT_WRITABLE  "cannot be made: the directory above it is not writable"
#define NOWHERE       "cannot be made: the directory above it does not exist"

static const struct row {
	const char *name;
	mode_t mode;      /* of a directory in memory; 0: /proc */
	bool is_parent;   /* it is the one above, and the directory itself does not exist */
	bool is_anothers; /* for a user that does not own it, else for its owner */
	const char *reason;
} rows[] = {
	{"a directory of its owner's alone is used", 0700, false, false, NULL},
	{"one that its group may read is not", 0750, false, false, OPEN_TO_ALL},
	{"one that everybody may enter is not", 0701, false, false, OPEN_TO_ALL},
	{"one on another file system is not", 0, false, false, NOT_IN_MEMORY},
	{"one is made below what its owner may write", 0700, true, false, NULL},
	{"one is not made below what its owner may not write", 0500, true, false, NOT_WRITABLE},
	{"one is not made below what is another's", 0755, true, true, NOT_WRITABLE},
	{"one is made below what everybody may write", 01777, true, true, NULL},
	{"the group may be that of the process", 0770, true, true, NULL},
	{"one on another file system is not made", 0, true, false, NOT_IN_MEMORY},
};

static const char *reason_of(const struct row *row, uid_t owner)
{
	char path[] = "/dev/shm/mtshim-test-XXXXXX";
	const char *reason, *made = mkdtemp(path);
	int fd;

	cr_assert(made);
	fd = open(row->mode ? path : "/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cr_assert_geq(fd, 0);
	if (row->mode) {
		cr_assert(geteuid() != 0 || fchown(fd, owner, (gid_t)-1) == 0);
		cr_assert_eq(fchmod(fd, row->mode), 0);
	}
	reason = mt_stats_dir_check(row->is_parent ? -1 : fd, row->is_parent ? fd : -1,
				    row->is_anothers ? owner + 1 : owner);
	close(fd);
	rmdir(path);
	return reason;
}

Test(unusable_dir, is_told_by_the_rules_of_the_library)
{
	uid_t owner = geteuid() == 0 ? 54321 : geteuid();

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const char *reason = reason_of(&rows[i], owner);

		cr_expect_str_eq(reason ? reason : "used", rows[i].reason ? rows[i].reason : "used",
				 "%s", rows[i].name);
	}
}

Test(unusable_dir, is_one_below_nothing)
{
	cr_expect_str_eq(mt_stats_dir_check(-1, -1, 0), NOWHERE);
}

Test(unusable_dir, root_makes_one_anywhere_in_memory)
{
	int fd = open("/dev/shm", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	cr_expect_null(mt_stats_dir_check(-1, fd, 0));
	close(fd);
}
