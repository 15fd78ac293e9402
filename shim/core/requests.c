#include "core/requests.h"

#include <string.h>

#include "core/config.h"
#include "sys/os.h"
#include "core/cleanup.h"
#include "core/control_file.h"
#include "gpu/gpu.h"
#include "heap/profile_dump.h"
#include "pressure/pressure.h"
#include "purge/rounds.h"
#include "purge/tick.h"
#include "core/publish.h"

static void trim(const struct mt_request *request, uint64_t *cleaned_ns)
{
	const struct mt_trim_request order = {
		.reason = MT_REASON_REQUEST,
		.level = (enum mt_level)request->level,
		.request_seq = request->seq,
	};
	struct mt_stats_record record;

	mt_cleanup_run(&order, &record);
	mt_tick_note_cleanup(&record, false);
	*cleaned_ns = mt_os_now_ns();
}

/* Names may come as in the environment, too. */
static bool is_prof(const char *name)
{
	return strcasecmp(name, "prof") == 0 || strcasecmp(name, "MT_PROF") == 0;
}

/* A setting that cannot be followed is not taken over either. */
static enum mt_err set(const struct mt_request *request)
{
	struct mt_config wanted = *mt_config();
	enum mt_err answer = mt_config_set(&wanted, request->name, request->value);

	if (answer == MT_ERR_OK && is_prof(request->name))
		answer = mt_heap_profile_follow(&wanted);
	if (answer == MT_ERR_OK)
		answer = mt_config_set_live(request->name, request->value);
	mt_publish_settings(mt_config());
	mt_gpu_configure();
	return answer;
}

static enum mt_err carry_out(const struct mt_request *request, uint64_t *cleaned_ns)
{
	enum mt_err answer = MT_ERR_OK;

	switch ((enum mt_request_kind)request->kind) {
	case MT_REQUEST_TRIM:
		trim(request, cleaned_ns);
		break;
	case MT_REQUEST_ROUND:
		(void)mt_rounds_end();
		break;
	case MT_REQUEST_SET:
		answer = set(request);
		break;
	case MT_REQUEST_RESET_PEAK:
		mt_tick_reset_peak();
		break;
	case MT_REQUEST_PUBLISH:
		break;
	case MT_REQUEST_CLASSES:
		answer = mt_heap_profile_classes();
		break;
	case MT_REQUEST_PROFILE:
		answer = mt_heap_profile_profile();
		break;
	case MT_REQUEST_SNAPSHOT:
		answer = mt_gpu_snapshot();
		break;
	case MT_REQUEST_NONE:
	case MT_REQUEST_COUNT:
		answer = MT_ERR_OLDER; /* said, so that nobody waits for it without effect */
		break;
	}
	return answer;
}

void mt_requests_answer(uint64_t *cleaned_ns)
{
	struct mt_stats_snapshot *figures;
	struct mt_request request;
	enum mt_err answer;

	if (!mt_control_request(&request))
		return;
	answer = carry_out(&request, cleaned_ns);
	mt_pressure_refresh();
	mt_tick_refresh();
	figures = mt_publish_lock();
	figures->prof_state = mt_heap_profile_state();
	figures->requests_count++;
	figures->request_error = answer;
	figures->request_seq = request.seq;
	mt_publish_unlock();
	mt_publish_write();
}
