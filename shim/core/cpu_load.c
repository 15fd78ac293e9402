#include "core/cpu_load.h"

#include <sched.h>
#include <string.h>

#include "sys/os.h"
#include "core/cgroup_path.h"
#include "sys/format.h"
#include "sys/saturating.h"

#define RECOUNT_NS (60 * MT_NS_PER_S)
#define CPUS_MAX   8192 /* the largest number that a kernel supports */

static uint64_t counted_cpus;
static uint64_t quota_pct;
static uint64_t counted_at_ns;

bool mt_cpu_load_parse(const char *text, uint64_t *out_thousandths)
{
	uint64_t value = 0;
	int decimals = -1; /* number of digits after the point; -1: no point yet */
	const char *at = text;

	for (; (*at >= '0' && *at <= '9') || (*at == '.' && decimals < 0 && at > text); at++) {
		if (*at == '.') {
			decimals = 0;
		} else if (decimals < 3) {
			if (value > UINT64_MAX / 100000)
				return false;
			value = value * 10 + (uint64_t)(*at - '0');
			decimals += decimals >= 0;
		}
	}
	if (at == text || at[-1] == '.' || (*at && *at != ' ' && *at != '\n'))
		return false;
	for (; decimals < 3; decimals += decimals < 0 ? 2 : 1)
		value *= 10;
	*out_thousandths = value;
	return true;
}

/* ---- CPUs ---- */

static uint64_t count_affinity(void)
{
	static unsigned char mask[CPUS_MAX / 8];
	uint64_t count = 0;

	memset(mask, 0, sizeof(mask));
	if (sched_getaffinity(mt_os_getpid(), sizeof(mask), (cpu_set_t *)(void *)mask) != 0)
		return 1;
	for (size_t i = 0; i < sizeof(mask); i++)
		count += (uint64_t)__builtin_popcount(mask[i]);
	return count ? count : 1;
}

/* cpu.max: "max 100000" or "150000 100000", microseconds of CPU time in each period of
 * microseconds. */
static bool read_v2(const struct mt_cgroup_path *place, size_t length, uint64_t *out_quota,
		    uint64_t *out_period)
{
	char text[64];
	char *blank;

	if (!mt_cgroup_path_read(place, length, "cpu.max", text, sizeof(text)) ||
	    !(blank = strchr(text, ' ')))
		return false;
	*blank = 0;
	return mt_cgroup_path_number(text, out_quota) &&
	       mt_cgroup_path_number(blank + 1, out_period);
}

/* A quota of -1 means no quota; the parser rejects it. */
static bool read_v1(const struct mt_cgroup_path *place, size_t length, uint64_t *out_quota,
		    uint64_t *out_period)
{
	char quota[64], period[64];

	return mt_cgroup_path_read(place, length, "cpu.cfs_quota_us", quota, sizeof(quota)) &&
	       mt_cgroup_path_number(quota, out_quota) &&
	       mt_cgroup_path_read(place, length, "cpu.cfs_period_us", period, sizeof(period)) &&
	       mt_cgroup_path_number(period, out_period);
}

/* Returns the smallest quota of the cgroup and its ancestors, in whole CPUs, up to max_count; and
 * sets quota_pct. */
static uint64_t read_quotas(const char *root, uint64_t max_count)
{
	static struct mt_cgroup_path place;

	quota_pct = 100;
	for (int is_v1 = 0; is_v1 < 2; is_v1++) {
		if (!mt_cgroup_path_find(root, 0, is_v1 ? "cpu" : NULL, &place))
			continue;
		for (size_t length = place.length; length;
		     length = mt_cgroup_path_parent(&place, length)) {
			uint64_t quota, period, count;

			if (!(is_v1 ? read_v1 : read_v2)(&place, length, &quota, &period) ||
			    !quota || !period)
				continue;
			count = quota / period + (quota % period != 0);
			max_count = mt_min_u64(max_count, count);
			if (quota < period)
				quota_pct =
					mt_min_u64(quota_pct, mt_max_u64(quota * 100 / period, 1));
		}
	}
	return max_count;
}

static void recount(const char *root, uint64_t now_ns)
{
	if (counted_cpus && now_ns - counted_at_ns < RECOUNT_NS)
		return;
	counted_cpus = read_quotas(root, count_affinity());
	counted_at_ns = now_ns;
}

uint64_t mt_cpu_load_quota_pct(const char *root, uint64_t now_ns)
{
	recount(root, now_ns);
	return quota_pct;
}

void mt_cpu_load_read(const char *root, uint64_t now_ns, struct mt_load *out)
{
	char path[256 + 32];
	char text[64];

	recount(root, now_ns);
	out->cpus_count = counted_cpus;
	out->load_thousandths = 0;
	(void)mt_format(path, sizeof(path), "%s/proc/loadavg", root);
	out->known = mt_os_read_file(path, text, sizeof(text)) > 0 &&
		     mt_cpu_load_parse(text, &out->load_thousandths);
}

void mt_cpu_load_fork_child(void)
{
	counted_cpus = 0;
}
