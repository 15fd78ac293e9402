/* tests/ctl/test_limit_process.c -- the limit that a process has published, and where it says that
 * it stands. */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "ctl/channel/target.h"
#include "ctl/process/limit.h"

static struct mt_stats_file file;
static struct mt_process process;

static struct mt_limit find(const char *source)
{
	size_t length = strlen(source);
	struct mt_limit limit;

	process.pid = getpid();
	file.head.snapshot.pressure_limit_bytes = 12345;
	file.head.snapshot.pressure_used_bytes = 1000;
	memcpy(file.head.limit_source, source,
	       length < sizeof(file.head.limit_source) ? length
						       : sizeof(file.head.limit_source) - 1);
	cr_assert_eq(mt_process_limit_find(&process, &file, &limit), MT_ERR_OK);
	return limit;
}

Test(limit_process, a_group_whose_name_was_cut_is_still_a_group)
{
	struct mt_limit limit =
		find("/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-"
		     "pod0123456789abcdef0123456789abcdef01234567.slice/cri-containerd-0123.scope/"
		     "memory.max");

	cr_expect(limit.is_cgroup);
	cr_expect_eq(limit.limit_bytes, 12345);
}

Test(limit_process, a_group_and_the_machine_are_told_apart)
{
	cr_expect(find("/sys/fs/cgroup/a/memory.high").is_cgroup);
	memset(&file, 0, sizeof(file));
	cr_expect_not(find("/proc/meminfo").is_cgroup);
	memset(&file, 0, sizeof(file));
	cr_expect_not(find("MT_LIMIT_MB").is_cgroup);
}
