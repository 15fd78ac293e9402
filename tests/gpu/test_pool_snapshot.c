/* test_pool_snapshot.c -- the pool's blocks on their way into a file. (What reads it is tested in
 * test_blocksfile.c, and both of them together in test_snapshot.py: ctl's headers and the shim's
 * do not go into one file.) */
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/os.h"
#include "null_driver.h"
#include "pool_fixture.h"
#include "gpu/stats.h"
#include "core/dump_layout.h"
#include "core/stats_layout.h"
#include "core/publish.h"

static char folder[64];
static struct mt_blocks_head head;
static struct mt_blocks_entry *entries; /* in the order of the file, which is that of the records */

static void start(void)
{
	static const struct mt_publish_identity identity = {"jemalloc", "", "", MT_MODE_JEMALLOC};
	static char dir[80];
	const char *list[] = {dir, "MT_CUDA_DECAY_MS=1234", NULL};
	struct mt_config config;

	begin_with(NULL, "5000");
	strcpy(folder, "/dev/shm/mtshim-blocks-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	snprintf(dir, sizeof(dir), "MT_DIR=%s", folder);
	mt_config_read(list);
	config = *mt_config();
	mt_publish_start(&config, &identity);
}

static void end(void)
{
	mt_publish_end(mt_config(), false);
	cr_expect_eq(rmdir(folder), 0, "no file is left behind");
	finish();
}

TestSuite(pool_snapshot, .init = start, .fini = end);

/* The path of our one file of this kind; NULL: there is none. */
static const char *path_of(const char *kind)
{
	static char path[256];
	char pattern[128];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s/*.%s", folder, kind);
	path[0] = '\0';
	if (glob(pattern, 0, NULL, &found) == 0)
		snprintf(path, sizeof(path), "%s", found.gl_pathv[0]);
	globfree(&found);
	return path[0] ? path : NULL;
}

static void read_back(void)
{
	struct stat seen;
	size_t bytes;
	int fd;

	cr_assert_not_null(path_of("blocks"));
	fd = open(path_of("blocks"), O_RDONLY);
	cr_assert_eq(read(fd, &head, sizeof(head)), (ssize_t)sizeof(head));
	bytes = head.entries_count * sizeof(*entries);
	cr_assert(fstat(fd, &seen) == 0 && (size_t)seen.st_size == sizeof(head) + bytes);
	entries = calloc(head.entries_count + 1, sizeof(*entries));
	cr_assert_eq(read(fd, entries, bytes), (ssize_t)bytes);
	close(fd);
	cr_expect_eq(head.magic, MT_BLOCKS_MAGIC);
	cr_expect_eq(head.entries_sum, mt_stats_checksum(MT_CHECKSUM_START, entries, bytes));
	cr_expect_eq(head.checksum, mt_stats_checksum(MT_CHECKSUM_START, &head,
						      offsetof(struct mt_blocks_head, checksum)));
}

Test(pool_snapshot, what_is_beyond_a_million_blocks_is_counted)
{
	driver.cuMemAlloc_v2 = null_driver.cuMemAlloc_v2;
	for (uint32_t i = 0; i < MT_BLOCKS_MAX + 1000; i++)
		(void)allocate(512);
	cr_assert_eq(mt_gpu_stats_write_blocks(), MT_ERR_OK);
	read_back();
	cr_expect_eq(head.entries_count, MT_BLOCKS_MAX);
	cr_expect_eq(head.left_out_count, 1000);
	free(entries);
}

Test(pool_snapshot, a_new_one_takes_the_place_of_the_last)
{
	cr_assert_eq(mt_gpu_stats_write_blocks(), MT_ERR_OK);
	(void)allocate(512);
	cr_assert_eq(mt_gpu_stats_write_blocks(), MT_ERR_OK);
	read_back();
	cr_expect_eq(head.entries_count, 1);
	free(entries);
}

Test(pool_snapshot, one_that_nobody_fetches_goes_after_a_minute)
{
	uint64_t now_ns = mt_os_now_ns();

	cr_expect_eq(mt_gpu_stats_tick(now_ns), UINT64_MAX);
	cr_assert_eq(mt_gpu_stats_write_blocks(), MT_ERR_OK);
	cr_expect_leq(mt_gpu_stats_tick(now_ns + 59 * MT_NS_PER_S), now_ns + 61 * MT_NS_PER_S);
	cr_expect_not_null(path_of("blocks"));
	cr_expect_eq(mt_gpu_stats_tick(now_ns + 61 * MT_NS_PER_S), UINT64_MAX);
	cr_expect_null(path_of("blocks"));
}

Test(pool_snapshot, one_that_was_fetched_is_not_missed)
{
	cr_assert_eq(mt_gpu_stats_write_blocks(), MT_ERR_OK);
	cr_assert_eq(unlink(path_of("blocks")), 0);
	cr_expect_eq(mt_gpu_stats_tick(mt_os_now_ns() + 61 * MT_NS_PER_S), UINT64_MAX);
}

Test(pool_snapshot, a_full_disk_leaves_nothing_behind)
{
	struct rlimit before, little = {4096, RLIM_INFINITY};

	for (int i = 0; i < 1000; i++)
		(void)allocate(512);
	cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
	little.rlim_max = before.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &little), 0);
	cr_expect_eq(mt_gpu_stats_write_blocks(), MT_ERR_SYSTEM);
	cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
	cr_expect_null(path_of("blocks"));
	cr_expect_null(path_of("fresh"));
}
