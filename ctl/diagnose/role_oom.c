/* ctl/diagnose/role_oom.c -- memory has run out, or is about to: who holds what, what would come
 * back at once, what a larger limit would have to be. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/diagnose/role.h"

#define NEAR_PERCENT 85
#define PROFILE_MOST 10

struct holder {
	const char *what;
	uint64_t bytes;
};

static int by_size(const void *a, const void *b)
{
	const struct holder *x = a, *y = b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

static void say_profile(const struct mt_diagnose_facts *facts, struct mt_checks *out)
{
	const struct mt_diagnose_sample *last =
		&facts->samples[facts->samples_count ? facts->samples_count - 1 : 0];
	struct holder list[PROFILE_MOST] = {
		{"live blocks of the heap", last->live_bytes},
		{"free heap that a purge returns",
		 last->dirty_bytes < last->slack_bytes ? last->dirty_bytes : last->slack_bytes},
		{"free heap between live blocks", mt_sat_sub(last->slack_bytes, last->dirty_bytes)},
		{"live objects in Python's arenas", last->arenas_live_bytes},
		{"free space in Python's arenas",
		 mt_sat_sub(last->arenas_bytes, last->arenas_live_bytes)},
		{facts->awake ? "anonymous memory outside of the heap" : "anonymous memory",
		 facts->awake ? last->outside_bytes : last->anon_bytes},
		{"mapped files", last->file_bytes},
		{"shared memory", mt_sat_sub(last->shmem_bytes, last->gpu_pinned_bytes)},
		{"page-locked memory of the GPU", last->gpu_pinned_bytes},
		{"swapped out", last->swap_bytes},
	};

	qsort(list, PROFILE_MOST, sizeof(list[0]), by_size);
	for (size_t i = 0; i < PROFILE_MOST && list[i].bytes >= MT_MIB; i++) {
		char name[40];

		snprintf(name, sizeof(name), "holder_%zu", i + 1);
		mt_role_say(out, MT_FINDING_OK, name, NULL, "%zu. %-38s %10s  %3.0f %%", i + 1,
			    list[i].what, mt_text_bytes(list[i].bytes).text,
			    100 * (double)list[i].bytes /
				    (double)(last->rss_bytes + last->swap_bytes + 1));
	}
}

static void check_limit(const struct mt_diagnose_facts *facts, struct mt_checks *out)
{
	const struct mt_limit *limit = &facts->limit;
	double percent = facts->limit_known ? mt_limit_percent(limit) : 0;

	if (!facts->limit_known)
		return;
	mt_role_say(out, percent >= NEAR_PERCENT ? MT_FINDING_WARN : MT_FINDING_OK, "limit",
		    percent >= NEAR_PERCENT ? "what comes next in this list says what to do first"
					    : NULL,
		    "%s of %s used, %.1f %% (%.100s)", mt_text_bytes(limit->used_bytes).text,
		    mt_text_bytes(limit->limit_bytes).text, percent, limit->source);
}

static void check_kills(const struct mt_diagnose_facts *facts, struct mt_checks *out)
{
	const struct mt_diagnose_group *group = &facts->group;

	if (!group->known) {
		mt_role_say(out, MT_FINDING_NOTE, "kernel_kills", NULL,
			    "no memory cgroup of its own could be read");
		return;
	}
	mt_role_say(out, group->oom_kill_count ? MT_FINDING_WARN : MT_FINDING_OK, "kernel_kills",
		    group->oom_kill_count ? "dmesg names the processes and what they held" : NULL,
		    "the kernel has killed %s of its cgroup (%s oom_kill)",
		    mt_text_counted(group->oom_kill_count, "process", "processes").text,
		    group->is_v1 ? "memory.oom_control" : "memory.events");
	mt_role_say(out, group->max_count ? MT_FINDING_NOTE : MT_FINDING_OK, "limit_hits", NULL,
		    "the cgroup has run into its limit %s (%s)",
		    mt_text_counted(group->max_count, "time", "times").text,
		    group->is_v1 ? "memory.failcnt" : "memory.events max");
}

static void check_reports(const struct mt_diagnose_facts *facts, struct mt_checks *out)
{
	const struct mt_stats_oom *oom =
		mt_stats_file_oom(&facts->last, facts->last.head.ooms_count);
	const struct mt_stats_alarm *alarm =
		mt_stats_file_alarm(&facts->last, facts->last.head.alarms_count);

	if (oom)
		mt_role_say(out, MT_FINDING_WARN, "gpu_out_of_memory", oom->advice,
			    "%s of a GPU; the last: %s asked for, %s",
			    mt_text_counted(facts->last.head.snapshot.gpu_num_ooms,
					    "out-of-memory error", "out-of-memory errors")
				    .text,
			    mt_text_bytes(oom->asked_bytes).text,
			    mt_stats_word_oom_cause(oom->cause));
	else
		mt_role_say(out, MT_FINDING_OK, "gpu_out_of_memory", NULL,
			    "no out-of-memory error of a GPU");
	if (alarm)
		mt_role_say(
			out, MT_FINDING_WARN, "alarms", alarm->advice,
			"MT_RSS_LIMIT_MB was reached %s; the last: %s of %s, %s live in the heap",
			mt_text_counted(facts->last.head.alarms_count, "time", "times").text,
			mt_text_bytes(alarm->rss_bytes).text,
			mt_text_bytes(alarm->limit_bytes).text,
			mt_text_bytes(alarm->heap_live_bytes).text);
	else
		mt_role_say(out, MT_FINDING_OK, "alarms", NULL, "no alarm of MT_RSS_LIMIT_MB");
}

static void check_return(const struct mt_diagnose_facts *facts, struct mt_checks *out)
{
	const struct mt_diagnose_sample *last =
		&facts->samples[facts->samples_count ? facts->samples_count - 1 : 0];
	const struct mt_stats_cleanup *record = &facts->trim.record;
	uint64_t bytes = facts->trim.done
				 ? mt_sat_sub(record->rss_before_bytes, record->rss_after_bytes)
				 : last->dirty_bytes;

	mt_role_say(
		out, bytes >= 64 * MT_MIB ? MT_FINDING_WARN : MT_FINDING_OK, "returns_at_once",
		bytes >= 64 * MT_MIB
			? "mtctl trim PID whenever you need it; MT_PRESSURE=1 does it near a limit"
			: NULL,
		facts->trim.done ? "a trim has just returned %s" : "a trim would return about %s",
		mt_text_bytes(bytes).text);
}

/* What is held now and what grows in an hour, with a quarter to spare. */
static void check_larger(const struct mt_diagnose_facts *facts,
			 const struct mt_diagnosis *diagnosis, struct mt_checks *out)
{
	const struct mt_trend *rss = &diagnosis->rss;
	uint64_t used = facts->limit.used_bytes;
	double hours;

	if (!facts->limit_known)
		return;
	if (rss->shape != MT_TREND_GROWS) {
		mt_role_say(out, MT_FINDING_OK, "larger_limit", NULL,
			    "nothing grows: a limit of %s leaves a quarter to spare",
			    mt_text_bytes(used + used / 3).text);
		return;
	}
	hours = (double)mt_sat_sub(facts->limit.limit_bytes, used) / rss->slope / 3600;
	mt_role_say(
		out, MT_FINDING_WARN, "larger_limit",
		"no limit is large enough for what grows: see the verdict",
		"it grows by %s: the limit is reached in %.1f hours; each GB more buys %.1f hours",
		mt_diagnose_rate(rss->slope).text, hours,
		1024.0 * (double)MT_MIB / rss->slope / 3600);
}

void mt_role_check_oom(const struct mt_diagnose_facts *facts, const struct mt_diagnosis *diagnosis,
		       struct mt_checks *out)
{
	check_limit(facts, out);
	say_profile(facts, out);
	check_kills(facts, out);
	if (facts->awake) {
		check_reports(facts, out);
		check_return(facts, out);
	}
	check_larger(facts, diagnosis, out);
}
