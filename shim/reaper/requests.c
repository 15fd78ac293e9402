#include "reaper/requests.h"

#include "base/config.h"
#include "base/os.h"
#include "reaper/actions.h"
#include "reaper/bell.h"
#include "reaper/gpu.h"
#include "reaper/rounds.h"
#include "reaper/tick.h"
#include "stats/publish.h"

static void trim(const struct mt_request *request, uint64_t *cleaned_ns)
{
	const struct mt_order order = {
		.reason = MT_REASON_REQUEST,
		.level = (enum mt_level)request->level,
		.request_seq = request->seq,
	};
	struct mt_stats_record record;

	mt_actions_clean(&order, &record);
	mt_tick_note_cleanup(&record, false);
	*cleaned_ns = mt_os_now_ns();
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
		answer = mt_config_set_live(request->name, request->value);
		mt_publish_settings(mt_config());
		mt_gpu_configure();
		break;
	case MT_REQUEST_RESET_PEAK:
		mt_tick_reset_peak();
		break;
	case MT_REQUEST_PUBLISH:
		break;
	case MT_REQUEST_CLASSES:
	case MT_REQUEST_PROFILE:
		answer = MT_ERR_NOT_AVAILABLE;
		break;
	case MT_REQUEST_NONE:
	case MT_REQUEST_COUNT:
		answer = MT_ERR_UNKNOWN;
		break;
	}
	return answer;
}

void mt_requests_answer(uint64_t *cleaned_ns)
{
	struct mt_stats_snapshot *figures;
	struct mt_request request;
	enum mt_err answer;

	if (!mt_bell_request(&request))
		return;
	answer = carry_out(&request, cleaned_ns);
	mt_tick_refresh();
	figures = mt_publish_lock();
	figures->requests_count++;
	figures->request_error = answer;
	figures->request_seq = request.seq;
	mt_publish_unlock();
	mt_publish_write();
}
