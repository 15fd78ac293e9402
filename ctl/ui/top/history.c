#include "ctl/ui/top/history.h"

#define SPAN_MIN_NS   (60u * UINT64_C(1000000000))
#define CLOCK_STEP_NS (10u * UINT64_C(1000000000))

static struct mt_top_point *at(struct mt_top_history *history, size_t index)
{
	return &history->points[(history->first + index) % MT_TOP_HISTORY_POINTS];
}

static const struct mt_top_point *point_at(const struct mt_top_history *history, size_t index)
{
	return &history->points[(history->first + index) % MT_TOP_HISTORY_POINTS];
}

/* Three points in the time of two: the middle one goes. The newest one stays as it is. */
static bool is_crowded(const struct mt_top_history *history, uint64_t time_ns)
{
	return history->count >= 2 && time_ns - point_at(history, history->count - 2)->time_ns <
					      2 * (MT_TOP_HISTORY_NS / MT_TOP_HISTORY_POINTS);
}

/* Keeps the larger one of the last two at the time of the earlier one, so that a peak between two
 * updates is not lost. */
static void merge_last(struct mt_top_history *history)
{
	struct mt_top_point *before = at(history, history->count - 2);
	const struct mt_top_point last = *at(history, history->count - 1);
	uint64_t time_ns = before->time_ns;

	if (last.rss_bytes > before->rss_bytes)
		*before = last;
	before->time_ns = time_ns;
	history->count--;
}

/* Whether the clock was set back. Two readings may cross by less. */
static bool went_back(uint64_t last_ns, uint64_t time_ns)
{
	return time_ns < last_ns && last_ns - time_ns > CLOCK_STEP_NS;
}

void mt_top_history_add(struct mt_top_history *history, const struct mt_top_point *point)
{
	if (history->count && went_back(at(history, history->count - 1)->time_ns, point->time_ns))
		history->count = 0;
	if (history->count && point->time_ns <= at(history, history->count - 1)->time_ns)
		return;
	if (history->count && is_crowded(history, point->time_ns))
		merge_last(history);
	if (history->count == MT_TOP_HISTORY_POINTS)
		history->first = (history->first + 1) % MT_TOP_HISTORY_POINTS;
	else
		history->count++;
	*at(history, history->count - 1) = *point;
}

void mt_top_history_seed(struct mt_top_history *history, const struct mt_stats_file *file,
			 uint64_t now_ns)
{
	for (size_t i = 0; i < MT_SAMPLES_COUNT; i++) {
		const struct mt_stats_sample *sample =
			&file->samples[(file->head.samples_count + i) % MT_SAMPLES_COUNT];
		const struct mt_top_point point = {sample->time_ns, sample->rss_bytes,
						   mt_memory_parts_of_sample(sample)};

		/* Of two times out of order nobody knows which is wrong. */
		if (history->count && sample->time_ns <= at(history, history->count - 1)->time_ns)
			continue;
		if (sample->time_ns && sample->time_ns < now_ns &&
		    now_ns - sample->time_ns < MT_TOP_HISTORY_NS)
			mt_top_history_add(history, &point);
	}
}

uint64_t mt_top_history_span(const struct mt_top_history *history, uint64_t now_ns)
{
	uint64_t first_ns = history->count ? point_at(history, 0)->time_ns : now_ns;
	uint64_t span_ns = now_ns > first_ns ? now_ns - first_ns : 0;

	if (span_ns > MT_TOP_HISTORY_NS)
		return MT_TOP_HISTORY_NS;
	return span_ns < SPAN_MIN_NS ? SPAN_MIN_NS : span_ns;
}

void mt_top_history_resample(const struct mt_top_history *history, uint64_t now_ns,
			     struct mt_top_point *out, size_t count)
{
	uint64_t span_ns = mt_top_history_span(history, now_ns),
		 start_ns = now_ns > span_ns ? now_ns - span_ns : 0;
	struct mt_top_point before = {0};
	size_t next = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t end_ns =
			start_ns + (uint64_t)((double)span_ns * (double)(i + 1) / (double)count);
		bool is_first = true;

		out[i] = before;
		for (; next < history->count &&
		       (point_at(history, next)->time_ns <= end_ns || i + 1 == count);
		     next++) {
			const struct mt_top_point *point = point_at(history, next);

			before = *point;
			if (is_first || point->rss_bytes > out[i].rss_bytes)
				out[i] = *point;
			/* too old: only the value at the start of the first part */
			is_first = point->time_ns < start_ns;
		}
	}
}
