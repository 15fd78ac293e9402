#include "core/requests.h"

#include "core/cleanup.h"
#include "core/components.h"
#include "core/config.h"
#include "core/control_file.h"
#include "core/publish.h"

static void trim(const struct mt_request *request)
{
	const struct mt_trim_request wanted = {
		.reason = MT_REASON_REQUEST,
		.level = (enum mt_level)request->level,
		.request_seq = request->seq,
	};

	mt_cleanup_run_requested(&wanted);
}

/* A component may reject a setting, which is then not stored. */
static enum mt_err set(const struct mt_request *request)
{
	struct mt_config wanted = *mt_config();
	enum mt_err answer = mt_config_set(&wanted, request->name, request->value);

	if (answer == MT_ERR_OK)
		answer = mt_components_check_setting(&wanted, request->name);
	if (answer == MT_ERR_OK)
		answer = mt_config_set_live(request->name, request->value);
	mt_publish_set_settings(mt_config());
	mt_components_configure();
	return answer;
}

static enum mt_err carry_out(const struct mt_request *request)
{
	switch ((enum mt_request_kind)request->kind) {
	case MT_REQUEST_TRIM:
		trim(request);
		return MT_ERR_OK;
	case MT_REQUEST_SET:
		return set(request);
	case MT_REQUEST_RESET_PEAK:
		mt_components_reset_peak();
		return MT_ERR_OK;
	case MT_REQUEST_PUBLISH:
		return MT_ERR_OK;
	default:
		/* MT_ERR_OLDER where no component knows it, so that mtctl does not wait for a
		 * result */
		return mt_components_request(request);
	}
}

void mt_requests_answer(void)
{
	struct mt_stats_snapshot *figures;
	struct mt_request request;
	enum mt_err answer;

	if (!mt_control_read_request(&request))
		return;
	answer = carry_out(&request);
	mt_components_refresh();
	figures = mt_publish_lock();
	figures->requests_count++;
	figures->request_error = answer;
	figures->request_seq = request.seq;
	mt_publish_unlock();
	mt_publish_write();
}
