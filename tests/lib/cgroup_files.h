/* cgroup_files.h -- machines with cgroups of version 2 and of version 1, in files below a root of
 * our own. */
#ifndef CGROUP_FILES_H
#define CGROUP_FILES_H

#include "sense_files.h"

#include <inttypes.h>

#include "sys/os.h"
#include "core/cgroup.h"
#include "core/core_internal.h"

#define MB        MT_MIB
#define S         MT_NS_PER_S
#define UNLIMITED "9223372036854771712\n"

#define V2_MOUNT "/sys/fs/cgroup"
#define V1_MOUNT "/sys/fs/cgroup/memory"

static struct mt_config config;
static uint64_t now_ns;

static UNUSED void begin_cgroup(void)
{
	begin();
	mt_config_defaults(&config);
	mt_cgroup_of(0);
	now_ns = 1000 * S;
	put("/proc/meminfo", "MemTotal:       16777216 kB\nMemFree:         1048576 "
			     "kB\nMemAvailable:    4194304 kB\n");
}

/* ---- the machines that the tests are on ---- */

static UNUSED void in_v2(const char *path)
{
	put("/proc/self/cgroup", "0::%s\n", path);
	put("/proc/self/mountinfo",
	    "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
	    "30 22 0:26 / %s rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
	    V2_MOUNT);
}

static UNUSED void in_v1(const char *path)
{
	put("/proc/self/cgroup", "9:name=systemd:/init\n4:cpu,memory:%s\n3:cpuset:/\n0::/\n", path);
	put("/proc/self/mountinfo",
	    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
	    "32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
	    "35 31 0:32 / %s rw - cgroup cgroup rw,memory,cpu\n"
	    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
	    V1_MOUNT);
	put("/sys/fs/cgroup/unified/memory.pressure",
	    "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n");
	put(V1_MOUNT "/memory.usage_in_bytes", "%llu\n", 99999 * MB);
	put(V1_MOUNT "/memory.limit_in_bytes", UNLIMITED);
	put(V1_MOUNT "/release_agent", "\n");
}

static UNUSED void put_in(const char *directory, const char *file, const char *content)
{
	char path[8192];

	snprintf(path, sizeof(path), "%s/%s", directory, file);
	put(path, "%s", content);
}

static UNUSED const char *mb(uint64_t count)
{
	static char texts[4][32];
	static unsigned next;
	char *out = texts[next++ % 4];

	snprintf(out, sizeof(texts[0]), "%" PRIu64 "\n", count * (uint64_t)MB);
	return out;
}

/* 0: "max". */
static UNUSED void v2_group(const char *directory, uint64_t used_mb, uint64_t max_mb,
			    uint64_t high_mb, uint64_t inactive_mb)
{
	char stat[256];

	snprintf(stat, sizeof(stat),
		 "anon 12345\nfile 1\nactive_file 77\nworkingset_inactive_file 1\ninactive_file "
		 "%" PRIu64 "\nslab 5\n",
		 inactive_mb * (uint64_t)MB);
	put_in(directory, "memory.current", mb(used_mb));
	put_in(directory, "memory.max", max_mb ? mb(max_mb) : "max\n");
	put_in(directory, "memory.high", high_mb ? mb(high_mb) : "max\n");
	put_in(directory, "memory.stat", stat);
}

static UNUSED void v1_group(const char *directory, uint64_t used_mb, uint64_t limit_mb,
			    uint64_t inactive_mb)
{
	char stat[256];

	snprintf(stat, sizeof(stat),
		 "cache 5\ninactive_file 1\ntotal_cache 7\ntotal_inactive_file %" PRIu64
		 "\ntotal_active_file 2\n",
		 inactive_mb * (uint64_t)MB);
	put_in(directory, "memory.usage_in_bytes", mb(used_mb));
	put_in(directory, "memory.limit_in_bytes", limit_mb ? mb(limit_mb) : UNLIMITED);
	put_in(directory, "memory.stat", stat);
}

static UNUSED struct mt_cgroup_sample look_at(uint64_t exact_pct)
{
	struct mt_cgroup_sample out;

	memset(&out, 0x5a, sizeof(out));
	mt_cgroup_read(root, &config, now_ns, exact_pct, &out);
	return out;
}

static UNUSED struct mt_cgroup_sample look(void)
{
	return look_at(80);
}

static UNUSED void expect(uint64_t used_mb, uint64_t limit_mb, const char *source)
{
	struct mt_cgroup_sample out = look();
	const char *seen = strncmp(out.source, root, strlen(root)) == 0 ? out.source + strlen(root)
									: out.source;

	cr_expect_eq(out.used_bytes, used_mb * MB, "used %" PRIu64 ", not %" PRIu64 " MB",
		     out.used_bytes / (uint64_t)MB, used_mb);
	cr_expect_eq(out.limit_bytes, limit_mb * MB, "limit %" PRIu64 ", not %" PRIu64 " MB",
		     out.limit_bytes / (uint64_t)MB, limit_mb);
	cr_expect_str_eq(seen, source);
	cr_expect_eq(out.is_cgroup, strstr(out.source, "/memory.") != NULL);
}

static UNUSED void expect_machine(void)
{
	expect(12288, 16384, "/proc/meminfo");
}

#endif
