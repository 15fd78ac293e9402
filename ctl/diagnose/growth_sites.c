/* ctl/diagnose/growth_sites.c -- which call sites allocate what grows. jemalloc's sampler is
 * switched on between the first and the last sample where it is ready; the profiles from before and
 * after are compared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/process/control_file.h"
#include "ctl/diagnose/diagnose.h"
#include "ctl/profile/sites.h"

#define SET_TIMEOUT_MS 3000u

struct mt_diagnose_profile {
	bool switched_on;
	struct mt_sites before;
};

static enum mt_err switch_profiler(const struct mt_process *process, const char *value,
				   struct mt_error_reason *why)
{
	struct mt_request request = {.kind = MT_REQUEST_SET, .name = "prof"};

	snprintf(request.value, sizeof(request.value), "%s", value);
	return mt_control_file_request(process, request, SET_TIMEOUT_MS, why);
}

struct mt_diagnose_profile *mt_diagnose_begin_profile(struct mt_facts *facts)
{
	const struct mt_stats_snapshot *now = &facts->first.head.snapshot;
	struct mt_diagnose_profile *profile = mt_error_check_memory(calloc(1, sizeof(*profile)));
	const char *why_not = mt_stats_why_no_profile(&facts->first.head);
	struct mt_error_reason why;
	enum mt_err error =
		why_not ? mt_error_because(&why, MT_ERR_NOT_AVAILABLE, "%s", why_not) : MT_ERR_OK;

	if (!error && now->prof_state == MT_DIAGNOSE_PROF_READY) {
		error = switch_profiler(&facts->process, "on", &why);
		profile->switched_on = !error;
	}
	if (!error)
		error = mt_sites_collect(&facts->process, &profile->before, &why);
	if (!error)
		return profile;
	snprintf(facts->sites.why_not, sizeof(facts->sites.why_not), "%.150s", why.text);
	if (profile->switched_on)
		(void)switch_profiler(&facts->process, "off", &why);
	free(profile);
	return NULL;
}

/* The first two frames of a stack: the second one tells callers of a helper apart. The line of
 * Python does so better. */
static void describe(const struct mt_site *site, char *out, size_t out_bytes)
{
	size_t first = mt_sites_first_frame(site);

	snprintf(out, out_bytes, "%.100s", mt_sites_name(site));
	if (site->python)
		snprintf(out + strlen(out), out_bytes - strlen(out), ", from %.100s", site->python);
	else if (first + 1 < site->frames_count)
		snprintf(out + strlen(out), out_bytes - strlen(out), ", called by %.100s",
			 site->frames[first + 1]);
	mt_text_clean(out, out_bytes);
}

static void note_growth(const struct mt_sites *grown, struct mt_diagnose_sites *to)
{
	to->known = true;
	for (size_t i = 0; i < grown->count && to->count < MT_DIAGNOSE_SITES; i++) {
		struct mt_diagnose_site *site = &to->list[to->count++];

		describe(&grown->list[i], site->name, sizeof(site->name));
		site->grown_bytes = grown->list[i].live_bytes;
		site->grown_count = grown->list[i].live_count;
		site->sampled_count = grown->list[i].sampled_count;
	}
}

void mt_diagnose_end_profile(struct mt_facts *facts, struct mt_diagnose_profile *profile)
{
	struct mt_sites after, grown;
	struct mt_error_reason why;

	if (!profile)
		return;
	if (mt_sites_collect(&facts->process, &after, &why) == MT_ERR_OK) {
		mt_sites_growth(&profile->before, &after, &grown);
		note_growth(&grown, &facts->sites);
		mt_sites_free(&grown);
		mt_sites_free(&after);
	} else {
		snprintf(facts->sites.why_not, sizeof(facts->sites.why_not), "%.150s", why.text);
	}
	if (profile->switched_on)
		(void)switch_profiler(&facts->process, "off", &why);
	mt_sites_free(&profile->before);
	free(profile);
}
