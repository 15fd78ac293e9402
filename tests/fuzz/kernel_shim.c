/* kernel_shim.c -- see kernel.h. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/config.h"
#include "core/log.h"
#include "sys/os.h"
#include "kernel.h"
#include "core/cgroup.h"
#include "core/core_internal.h"
#include "gpu/frameworks.h"
#include "sys/rss.h"
#include "sys/format.h"

/* Looks now, when limits are read again, and when the groups are found again. */
static void look_at_cgroup(const struct mt_config *config, uint64_t exact_pct)
{
	static const uint64_t seconds[] = {1000, 1001, 1006, 1070};
	uint64_t events = 0;

	mt_cgroup_of(0);
	for (size_t i = 0; i < sizeof(seconds) / sizeof(seconds[0]); i++) {
		struct mt_cgroup_sample look;

		mt_cgroup_read(fuzz_root(), config, seconds[i] * MT_NS_PER_S, exact_pct, &look);
		fuzz_expect(look.events_count >= events, "%llu events after %llu",
			    (unsigned long long)look.events_count, (unsigned long long)events);
		fuzz_expect(look.source && strlen(look.source) < 2 * MT_CGROUP_PATH_BYTES, "%s",
			    "no source");
		fuzz_expect(!look.is_cgroup || look.limit_bytes, "%s", "a group without a limit");
		fuzz_expect(strncmp(mt_cgroup_directory(), fuzz_root(), strlen(fuzz_root())) == 0 ||
				    !*mt_cgroup_directory(),
			    "%s", mt_cgroup_directory());
		events = look.events_count;
	}
}

static void look_at_stalls(const struct mt_launch_env *facts)
{
	struct mt_psi_sample look;

	mt_cgroup_psi_fork_child();
	for (int turn = 0; turn < 3; turn++) {
		mt_cgroup_psi_read(fuzz_root(), mt_cgroup_directory(), facts->pressure_watch,
				   &look);
		fuzz_expect(look.known || !look.some_us || turn, "%s",
			    "figures that are not known");
	}
}

static void copy(const char *text, char *out, size_t room)
{
	if (strlen(text) < room)
		strcpy(out, text);
}

void kernel_shim(const struct kernel_options *options)
{
	static struct mt_launch_env facts;
	struct mt_config config;
	struct mt_rss_full full;
	struct mt_load load;
	char path[128];

	mt_config_defaults(&config);
	config.limit_mb = options->limit_mb;
	copy(options->cgroup, config.cgroup, sizeof(config.cgroup));
	look_at_cgroup(&config, options->exact_pct);
	memset(&facts, 0, sizeof(facts));
	if (!strstr(options->watch, ".."))
		copy(options->watch, facts.pressure_watch, sizeof(facts.pressure_watch));
	look_at_stalls(&facts);
	mt_cgroup_load_fork_child();
	mt_cgroup_load_read(fuzz_root(), 1000 * MT_NS_PER_S, &load);
	fuzz_expect(load.cpus_count >= 1, "%llu CPUs", (unsigned long long)load.cpus_count);
	(void)mt_format(path, sizeof(path), "%s/proc/42/status", fuzz_root());
	(void)mt_rss_read_status(path, &full);
}

void kernel_shim_text(const struct fuzz_part *part)
{
	struct mt_frameworks_seen seen = {0};
	uint64_t number;

	if (fuzz_is(part, "psi", NULL)) {
		(void)mt_cgroup_psi_parse(part->text, "some", &number);
		(void)mt_cgroup_psi_parse(part->text, "full", &number);
		(void)mt_cgroup_path_keyed(part->text, "total ", &number);
	} else if (fuzz_is(part, "loadavg", NULL)) {
		(void)mt_cgroup_load_parse(part->text, &number);
	} else if (fuzz_is(part, "stat", NULL)) {
		for (int field = 3; field < 53; field++)
			(void)mt_os_procstat_number(part->text, field);
	} else if (fuzz_is(part, "library", NULL)) {
		mt_frameworks_note(part->text, &seen);
		for (uint64_t choice = 0; choice < 4; choice++)
			(void)mt_frameworks_decide(choice, mt_config_launch_env(), &seen);
	}
}
