/* ctl/diagnose/growth_sites.c -- which call sites allocate what grows. jemalloc's sampler samples
 * between the first and the last sample where it is ready; the profiles from before and after are
 * compared. The setting prof belongs to the user: the process samples by a request of its own,
 * which is renewed at each sample, and runs out where mtctl is killed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/process/clock.h"
#include "ctl/process/control_file.h"
#include "ctl/diagnose/diagnose.h"
#include "ctl/profile/sites.h"

#define SAMPLE_TIMEOUT_MS 3000u
/* The process samples for so long after the last request: the steps between samples, and what a
 * cleanup and a profile may take. */
#define SAMPLE_MIN_MS 60000u
#define SAMPLE_STEPS  4 /* of the look */

struct mt_diagnose_profile {
	uint64_t number; /* of this look, for MT_REQUEST_SAMPLE */
	struct mt_sites before;
};

/* ms 0: no longer. */
static struct mt_request sample_for(const struct mt_diagnose_profile *profile, uint64_t ms)
{
	struct mt_request request = {.kind = MT_REQUEST_SAMPLE};

	snprintf(request.value, sizeof(request.value), "%" PRIu64 " %" PRIu64, profile->number, ms);
	return request;
}

/* How long the process samples from a request on. */
static uint64_t sampled_ms(const struct mt_facts *facts)
{
	double ms = SAMPLE_MIN_MS + facts->duration_s * 1000 * SAMPLE_STEPS / MT_DIAGNOSE_SAMPLES;

	return ms < MT_SAMPLE_MS_MAX ? (uint64_t)ms : MT_SAMPLE_MS_MAX;
}

static void end_sampling(const struct mt_process *process,
			 const struct mt_diagnose_profile *profile)
{
	struct mt_error_reason why;

	(void)mt_control_file_request(process, sample_for(profile, 0), SAMPLE_TIMEOUT_MS, &why);
}

struct mt_diagnose_profile *mt_diagnose_begin_profile(struct mt_facts *facts)
{
	struct mt_diagnose_profile *profile = mt_error_check_memory(calloc(1, sizeof(*profile)));
	const char *why_not = mt_stats_why_no_profile(&facts->first.head);
	struct mt_error_reason why;
	enum mt_err error =
		why_not ? mt_error_because(&why, MT_ERR_NOT_AVAILABLE, "%s", why_not) : MT_ERR_OK;

	profile->number = mt_clock_now_ns();
	/* also where it samples already: the user may switch it off meanwhile */
	if (!error)
		error = mt_control_file_request(&facts->process,
						sample_for(profile, sampled_ms(facts)),
						SAMPLE_TIMEOUT_MS, &why);
	if (!error) {
		error = mt_sites_collect(&facts->process, &profile->before, &why);
		if (!error)
			return profile;
		end_sampling(&facts->process, profile);
	}
	snprintf(facts->sites.why_not, sizeof(facts->sites.why_not), "%.150s", why.text);
	free(profile);
	return NULL;
}

bool mt_diagnose_refresh(const struct mt_facts *facts)
{
	struct mt_error_reason why;

	if (!facts->profile)
		return mt_control_file_refresh(&facts->process);
	return mt_control_file_request(&facts->process,
				       sample_for(facts->profile, sampled_ms(facts)),
				       MT_CONTROL_FRESH_MS, &why) == MT_ERR_OK;
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
	end_sampling(&facts->process, profile);
	mt_sites_free(&profile->before);
	free(profile);
}
