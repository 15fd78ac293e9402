/* ctl/metrics/recording.c -- see recording.h: storage and order. */
#include "ctl/metrics/recording.h"

#include <stdlib.h>
#include <string.h>

/* Makes room for one more element of `bytes`. Capacities are powers of two. */
static void *make_room(void *list, size_t count, size_t bytes)
{
	if (count & (count - 1) || count == 1)
		return list;
	return mt_error_check_memory(realloc(list, (count ? count * 2 : 2) * bytes));
}

bool mt_recording_add_sample(struct mt_recording *recording,
			     const struct mt_recording_sample *sample)
{
	if (recording->samples_count >= MT_RECORDING_SAMPLES_MAX)
		return false;
	recording->samples =
		make_room(recording->samples, recording->samples_count, sizeof(*sample));
	recording->samples[recording->samples_count++] = *sample;
	return true;
}

bool mt_recording_add_device(struct mt_recording *recording,
			     const struct mt_recording_device *device)
{
	if (recording->devices_count >= MT_RECORDING_SAMPLES_MAX)
		return false;
	recording->devices =
		make_room(recording->devices, recording->devices_count, sizeof(*device));
	recording->devices[recording->devices_count++] = *device;
	return true;
}

bool mt_recording_add_mark(struct mt_recording *recording, const struct mt_recording_mark *mark)
{
	if (recording->marks_count >= MT_RECORDING_MARKS_MAX)
		return false;
	recording->marks = make_room(recording->marks, recording->marks_count, sizeof(*mark));
	recording->marks[recording->marks_count++] = *mark;
	return true;
}

static struct mt_recording_process *find_process(const struct mt_recording *recording, uint64_t pid)
{
	for (size_t i = 0; i < recording->processes_count; i++)
		if (recording->processes[i].pid == pid)
			return &recording->processes[i];
	return NULL;
}

struct mt_recording_process *mt_recording_add_process(struct mt_recording *recording, uint64_t pid)
{
	struct mt_recording_process *process = find_process(recording, pid);

	if (process || recording->processes_count >= MT_RECORDING_PROCESSES_MAX)
		return process;
	recording->processes =
		make_room(recording->processes, recording->processes_count, sizeof(*process));
	process = &recording->processes[recording->processes_count++];
	*process = (struct mt_recording_process){.pid = pid};
	return process;
}

const struct mt_recording_process *mt_recording_process(const struct mt_recording *recording,
							uint64_t pid)
{
	return find_process(recording, pid);
}

static int by_time(const void *a, const void *b)
{
	uint64_t left, right;

	/* time_ns is the first member of samples and of devices */
	memcpy(&left, a, sizeof(left));
	memcpy(&right, b, sizeof(right));
	return (left > right) - (left < right);
}

static int marks_by_time(const void *a, const void *b)
{
	const struct mt_recording_mark *left = a, *right = b;

	if (left->time_ns != right->time_ns)
		return left->time_ns > right->time_ns ? 1 : -1;
	return (left->number > right->number) - (left->number < right->number);
}

static void sort(void *list, size_t count, size_t bytes, int (*compare)(const void *, const void *))
{
	for (size_t i = 1; i < count; i++)
		if (compare((const char *)list + (i - 1) * bytes, (const char *)list + i * bytes) >
		    0) {
			qsort(list, count, bytes, compare);
			return;
		}
}

void mt_recording_sort(struct mt_recording *recording)
{
	_Static_assert(offsetof(struct mt_recording_sample, time_ns) == 0,
		       "by_time reads it there");
	_Static_assert(offsetof(struct mt_recording_device, time_ns) == 0,
		       "by_time reads it there");
	sort(recording->samples, recording->samples_count, sizeof(*recording->samples), by_time);
	sort(recording->devices, recording->devices_count, sizeof(*recording->devices), by_time);
	sort(recording->marks, recording->marks_count, sizeof(*recording->marks), marks_by_time);
}

uint64_t mt_recording_begin_ns(const struct mt_recording *recording)
{
	return recording->samples_count ? recording->samples[0].time_ns : 0;
}

uint64_t mt_recording_end_ns(const struct mt_recording *recording)
{
	uint64_t sample_ns = recording->samples_count
				     ? recording->samples[recording->samples_count - 1].time_ns
				     : 0;
	uint64_t mark_ns =
		recording->marks_count ? recording->marks[recording->marks_count - 1].time_ns : 0;

	if (!sample_ns)
		return 0;
	if (mark_ns < recording->ended_ns)
		mark_ns = recording->ended_ns;
	return mark_ns > sample_ns ? mark_ns : sample_ns;
}

void mt_recording_free(struct mt_recording *recording)
{
	free(recording->processes);
	free(recording->samples);
	free(recording->devices);
	free(recording->marks);
	json_decref(recording->header);
	json_decref(recording->root);
	*recording = (struct mt_recording){0};
}
