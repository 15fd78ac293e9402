#include "ctl/diagnose/diagnose.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/output/text.h"

#define BUCKETS (MT_DIAGNOSE_SAMPLES / 2)

static uint64_t or_zero(uint64_t bytes)
{
	return bytes == MT_RECORDING_UNKNOWN ? 0 : bytes;
}

/* What the recording does not have stays 0, as what an allocator does not report does. */
static struct mt_sample sample_of(const struct mt_recording_sample *from, uint64_t origin_ns,
				  uint64_t rounds_count)
{
	const uint64_t *bytes = from->bytes;
	uint64_t rss = bytes[MT_RECORDING_RSS], live = or_zero(bytes[MT_RECORDING_LIVE]),
		 dirty = or_zero(bytes[MT_RECORDING_DIRTY]),
		 shmem = or_zero(bytes[MT_RECORDING_SHMEM]);
	uint64_t anon =
		bytes[MT_RECORDING_ANON] == MT_RECORDING_UNKNOWN ? rss : bytes[MT_RECORDING_ANON];

	return (struct mt_sample){.at_s = (double)(from->time_ns - origin_ns) / 1e9,
				  .rss_bytes = rss,
				  .anon_bytes = anon,
				  .file_bytes = mt_sat_sub(rss, anon + shmem),
				  .shmem_bytes = shmem,
				  .live_bytes = live,
				  .held_bytes = live,
				  .dirty_bytes = dirty,
				  .idle_bytes = or_zero(bytes[MT_RECORDING_IDLE]),
				  .slack_bytes = mt_min_u64(dirty, mt_sat_sub(anon, live)),
				  .other_bytes = rss - (live + dirty),
				  .gpu_allocated_bytes = or_zero(bytes[MT_RECORDING_GPU_ALLOCATED]),
				  .gpu_reserved_bytes = or_zero(bytes[MT_RECORDING_GPU_RESERVED]),
				  .rounds_count = rounds_count};
}

struct samples {
	const struct mt_recording_sample **list;
	size_t count;
};

/* Those of the root that can be diagnosed together: of its last program, and with figures of its
 * heap, if there are any. */
static struct samples pick(const struct mt_recording *recording, bool *out_awake)
{
	const struct mt_recording_process *root = mt_recording_process(recording, recording->pid);
	struct samples all = {.list = mt_error_check_memory(
				      calloc(recording->samples_count + 1, sizeof(*all.list)))};

	*out_awake = false;
	for (size_t i = 0; i < recording->samples_count; i++) {
		const struct mt_recording_sample *sample = &recording->samples[i];
		bool has_heap = sample->bytes[MT_RECORDING_LIVE] != MT_RECORDING_UNKNOWN;

		if (sample->pid != recording->pid || (root && sample->time_ns < root->program_ns) ||
		    sample->bytes[MT_RECORDING_RSS] == MT_RECORDING_UNKNOWN ||
		    (*out_awake && !has_heap))
			continue;
		if (has_heap && !*out_awake) {
			*out_awake = true;
			all.count = 0;
		}
		all.list[all.count++] = sample;
	}
	return all;
}

static uint64_t rounds_at(const struct mt_recording *recording, uint64_t time_ns, size_t *at,
			  uint64_t before)
{
	for (; *at < recording->marks_count && recording->marks[*at].time_ns <= time_ns; (*at)++)
		if (recording->marks[*at].kind == MT_RECORDING_ROUND &&
		    recording->marks[*at].pid == recording->pid)
			before = recording->marks[*at].number;
	return before;
}

/* Adds the lowest and the highest RSS from `first` up to and without `end`, in their order. */
static void add_bucket(const struct samples *all, size_t first, size_t end, struct samples *out)
{
	size_t low = first, high = first;

	for (size_t i = first; i < end; i++) {
		if (all->list[i]->bytes[MT_RECORDING_RSS] < all->list[low]->bytes[MT_RECORDING_RSS])
			low = i;
		if (all->list[i]->bytes[MT_RECORDING_RSS] >
		    all->list[high]->bytes[MT_RECORDING_RSS])
			high = i;
	}
	out->list[out->count++] = all->list[low < high ? low : high];
	if (low != high)
		out->list[out->count++] = all->list[low < high ? high : low];
}

static void thin(struct samples *all)
{
	struct samples few = {
		.list = mt_error_check_memory(calloc(2 * BUCKETS + 1, sizeof(*few.list)))};

	for (size_t i = 0; i < BUCKETS; i++)
		add_bucket(all, i * all->count / BUCKETS, (i + 1) * all->count / BUCKETS, &few);
	free(all->list);
	*all = few;
}

static void fill_head(const struct mt_recording *recording, struct mt_facts *out)
{
	const struct mt_sample *last = &out->samples[out->samples_count - 1];
	const char *allocator = json_string_value(json_object_get(recording->root, "allocator"));
	struct mt_stats_head *head = &out->last.head;

	head->snapshot.heap_live_bytes = last->live_bytes;
	head->snapshot.heap_dirty_bytes = last->dirty_bytes;
	head->snapshot.gpu_allocated_bytes = last->gpu_allocated_bytes;
	head->snapshot.gpu_reserved_bytes = last->gpu_reserved_bytes;
	snprintf(head->allocator, sizeof(head->allocator), "%s", allocator ? allocator : "");
	mt_text_clean(head->allocator, sizeof(head->allocator));
	if (last->gpu_reserved_bytes)
		snprintf(head->cuda, sizeof(head->cuda), "recorded");
}

static void fill_process(const struct mt_recording_process *from, struct mt_facts *out)
{
	snprintf(out->process.comm, sizeof(out->process.comm), "%s", from->comm);
	snprintf(out->process.command, sizeof(out->process.command), "%s", from->command);
	out->process.shimmed = strcmp(from->state, "plain") != 0;
	out->awake |= strcmp(from->state, "awake") == 0; /* its allocator may count nothing */
	out->asleep = !out->awake && strcmp(from->state, "refused") != 0;
	if (!out->process.shimmed)
		snprintf(out->why_not, sizeof(out->why_not), "it did not carry the shim");
	else if (out->asleep)
		snprintf(out->why_not, sizeof(out->why_not), "asleep: %s",
			 mt_target_asleep_text(MT_ASLEEP_RECORDED));
	else if (!out->awake)
		snprintf(out->why_not, sizeof(out->why_not), "%s", from->why);
}

void mt_recorded_facts(const struct mt_recording *recording, struct mt_facts *out)
{
	const struct mt_recording_process *root = mt_recording_process(recording, recording->pid);
	struct samples all = pick(recording, &out->awake);
	size_t mark = 0;
	uint64_t rounds = 0;

	out->process = (struct mt_process){.pid = (pid_t)recording->pid, .shimmed = true};
	out->source = MT_FACTS_RECORDED;
	out->asleep = !out->awake;
	out->asleep_reason = MT_ASLEEP_RECORDED;
	if (root)
		fill_process(root, out);
	out->is_python = strncmp(out->process.comm, "python", strlen("python")) == 0;
	if (all.count > MT_DIAGNOSE_SAMPLES)
		thin(&all);
	for (size_t i = 0; i < all.count; i++) {
		rounds = rounds_at(recording, all.list[i]->time_ns, &mark, rounds);
		out->samples[out->samples_count++] =
			sample_of(all.list[i], all.list[0]->time_ns, rounds);
	}
	if (out->samples_count) {
		out->duration_s = out->samples[out->samples_count - 1].at_s;
		fill_head(recording, out);
	}
	free(all.list);
}
