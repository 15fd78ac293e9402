/* ctl/diagnose/findings_gpu.c -- the devices: cache, fragmentation, live tensors, page-locked host
 * memory. */

#include "ctl/diagnose/diagnose.h"

#define CACHE_BYTES (64 * MT_MIB)
/* of the reserved bytes: a training step leaves less between its ends */
#define CACHE_SHARE  0.40
#define FULL_SHARE   0.90 /* of the device, by live memory of this process */
#define PINNED_BYTES (64 * MT_MIB)
#define PINNED_SHARE 0.25 /* of RSS */
#define OOM_AGE_NS   ((uint64_t)900 * 1000000000u)

/* The last out-of-memory report, unless it is older than 15 minutes. */
static const struct mt_stats_oom *last_oom(const struct mt_facts *facts)
{
	const struct mt_stats_oom *oom =
		mt_stats_file_oom(&facts->last, facts->last.head.ooms_count);

	return oom && mt_sat_sub(facts->last.head.time_ns, oom->time_ns) < OOM_AGE_NS ? oom : NULL;
}

/* Bytes that a heavy cleanup has returned to the devices and the program has not allocated again
 * since: a training step allocates again what it uses. */
uint64_t mt_diagnose_gpu_returned(const struct mt_facts *facts)
{
	const struct mt_stats_cleanup *record = &facts->trim.record;
	uint64_t after = record->gpu_after_bytes > facts->trim.gpu_later_bytes
				 ? record->gpu_after_bytes
				 : facts->trim.gpu_later_bytes;

	if (!facts->trim.done || facts->trim.level != MT_LEVEL_HEAVY || !record->gpu_before_bytes)
		return 0;
	return mt_sat_sub(record->gpu_before_bytes, after);
}

static void show_memory(const struct mt_facts *facts, struct mt_finding *finding)
{
	const struct mt_stats_snapshot *now = &facts->last.head.snapshot;
	const struct mt_sample *last = &facts->samples[facts->samples_count - 1];

	mt_finding_bytes(finding, "reserved from the driver", "gpu_reserved_bytes",
			 last->gpu_reserved_bytes);
	mt_finding_bytes(finding, "allocated by the program", "gpu_allocated_bytes",
			 last->gpu_allocated_bytes);
	mt_finding_show(finding, "devices", "gpu_free_bytes", (double)now->gpu_free_bytes,
			"%s free of %s", mt_text_bytes(now->gpu_free_bytes).text,
			mt_text_bytes(now->gpu_total_bytes).text);
}

static void find_cache(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_sample *last = &facts->samples[facts->samples_count - 1];
	uint64_t idle = mt_diagnose_minimum(facts, 2, offsetof(struct mt_sample, gpu_idle_bytes));
	uint64_t returned = mt_diagnose_gpu_returned(facts),
		 bytes = returned > idle ? returned : idle;
	bool tried = facts->trim.done && facts->trim.level == MT_LEVEL_HEAVY;
	struct mt_finding *finding;

	if (bytes < CACHE_BYTES || (double)bytes < (double)last->gpu_reserved_bytes * CACHE_SHARE)
		return;
	if (returned)
		finding =
			mt_finding_add(out, MT_VERDICT_GPU_CACHE, (double)bytes, tried ? 0.9 : 0.7,
				       "%s of device memory were reserved and not used: a heavy "
				       "cleanup just returned them",
				       mt_text_bytes(returned).text);
	else
		finding = mt_finding_add(out, MT_VERDICT_GPU_CACHE, (double)bytes, 0.7,
					 "%s of device memory are reserved and not used",
					 mt_text_bytes(bytes).text);
	show_memory(facts, finding);
	mt_finding_bytes(finding, "idle in the pool throughout", "gpu_idle_bytes", idle);
	if (tried)
		mt_finding_show(finding, "a heavy cleanup returned", "gpu_returned_bytes",
				(double)returned, "%s%s", mt_text_bytes(returned).text,
				facts->trim.record.frameworks & MT_FRAMEWORK_TORCH
					? " (torch.cuda.empty_cache() was called)"
					: "");
	if (facts->trim.record.frameworks)
		mt_finding_advise(
			finding,
			"Let PyTorch's own cache go back by itself: MT_FRAMEWORK_DECAY_MS=5000.");
	if (idle >= CACHE_BYTES)
		mt_finding_advise(finding,
				  "Let the pool decay: mtctl set %d cuda_decay_ms=5000, or cap it "
				  "by cuda_max_mb.",
				  (int)facts->process.pid);
	mt_finding_advise(finding,
			  "Empty it between phases or rounds: mtctl trim %d, or MT_HEAVY_ROUNDS=1.",
			  (int)facts->process.pid);
}

/* Bytes that PyTorch's cache held unused after a heavy cleanup had emptied it: parts of segments
 * that are in use. The driver counts them as allocated. */
static uint64_t stuck_bytes(const struct mt_facts *facts)
{
	const struct mt_stats_snapshot *now = &facts->last.head.snapshot;

	return facts->trim.done && facts->trim.level == MT_LEVEL_HEAVY
		       ? mt_sat_sub(now->framework_reserved_bytes, now->framework_allocated_bytes)
		       : 0;
}

static void find_fragments(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_oom *oom = last_oom(facts);
	struct mt_finding *finding;
	uint64_t unused, stuck = stuck_bytes(facts);

	if (!oom || (oom->cause != MT_OOM_CACHE && stuck < oom->asked_bytes))
		return;
	unused = oom->idle_bytes + oom->framework_idle_bytes;
	unused = unused > stuck ? unused : stuck;
	finding = mt_finding_add(out, MT_VERDICT_GPU_FRAGMENTS,
				 (double)(unused > oom->asked_bytes ? unused : oom->asked_bytes),
				 unused >= oom->asked_bytes ? 0.9 : 0.6,
				 "%s were asked for and refused while %s lay unused in pieces",
				 mt_text_bytes(oom->asked_bytes).text, mt_text_bytes(unused).text);
	mt_finding_bytes(finding, "asked for", "oom_asked_bytes", oom->asked_bytes);
	mt_finding_bytes(finding, "unused in PyTorch's cache", "oom_framework_idle_bytes",
			 oom->framework_idle_bytes);
	mt_finding_bytes(finding, "still there once it is emptied", "framework_stuck_bytes", stuck);
	mt_finding_bytes(finding, "unused in the pool", "oom_idle_bytes", oom->idle_bytes);
	mt_finding_bytes(finding, "largest unused block", "oom_largest_idle_bytes",
			 oom->largest_idle_bytes);
	mt_finding_show(finding, "out-of-memory errors", "gpu_num_ooms",
			(double)facts->last.head.snapshot.gpu_num_ooms, "%s, the last by %s",
			mt_text_count(facts->last.head.snapshot.gpu_num_ooms).text, oom->function);
	show_memory(facts, finding);
	if (oom->framework_idle_bytes || stuck)
		mt_finding_advise(
			finding,
			"Restart it with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or "
			"max_split_size_mb:128.");
	mt_finding_advise(
		finding,
		"Pad inputs to a few sizes, and allocate what is large and lives long first.");
	mt_finding_advise(finding, "Read the reports: mtctl stat %d --oom.",
			  (int)facts->process.pid);
}

/* Less where a cleanup has returned the growth: then it was a framework's cache, not live tensors.
 */
static double live_growth_confidence(const struct mt_facts *facts, const struct mt_trend *gpu)
{
	double back = (double)mt_diagnose_gpu_returned(facts) / gpu->growth;

	return gpu->confidence * (back < 1 ? 1 - back : 0);
}

static void find_live(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_sample *last = &facts->samples[facts->samples_count - 1];
	const struct mt_stats_oom *oom = last_oom(facts);
	uint64_t total = facts->last.head.snapshot.gpu_total_bytes;
	bool grows = out->gpu.shape == MT_TREND_GROWS;
	uint64_t stuck = stuck_bytes(facts), live = mt_sat_sub(last->gpu_allocated_bytes, stuck);
	bool full = (oom && oom->cause == MT_OOM_LIVE && stuck < oom->asked_bytes) ||
		    (total && (double)live >= (double)total * FULL_SHARE &&
		     !(oom && oom->cause == MT_OOM_CACHE));
	struct mt_finding *finding;

	if (!grows && !full)
		return;
	if (grows)
		finding = mt_finding_add(out, MT_VERDICT_GPU_LIVE,
					 out->gpu.slope * MT_DIAGNOSE_HORIZON_S,
					 live_growth_confidence(facts, &out->gpu),
					 "device memory that the program holds grows by %s",
					 mt_diagnose_rate(out->gpu.slope).text);
	else
		finding = mt_finding_add(out, MT_VERDICT_GPU_LIVE,
					 (double)last->gpu_allocated_bytes, oom ? 0.85 : 0.6,
					 "%s of %s of device memory are held by the program itself",
					 mt_text_bytes(last->gpu_allocated_bytes).text,
					 mt_text_bytes(total).text);
	if (grows)
		mt_finding_trend(finding, "allocated", "gpu_allocated", &out->gpu);
	show_memory(facts, finding);
	if (oom)
		mt_finding_show(finding, "last out-of-memory error", "oom_asked_bytes",
				(double)oom->asked_bytes, "%s asked for, %s: %.100s",
				mt_text_bytes(oom->asked_bytes).text,
				mt_stats_word_oom_cause(oom->cause), oom->advice);
	if (grows)
		mt_finding_advise(finding, "Keep numbers, not tensors: loss.item(), "
					   "tensor.detach(); a kept loss keeps its whole graph.");
	mt_finding_advise(finding, "Run evaluation under torch.inference_mode(), and "
				   "optimizer.zero_grad(set_to_none=True).");
	if (!grows)
		mt_finding_advise(finding, "Take a smaller batch, activation checkpointing, or a "
					   "lower precision: no cache can give this back.");
}

/* Bytes of PyTorch's cache of page-locked memory that a heavy cleanup has returned. */
static uint64_t pinned_returned(const struct mt_facts *facts)
{
	return facts->trim.done ? mt_sat_sub(facts->trim.record.pinned_before_bytes,
					     facts->trim.record.pinned_after_bytes)
				: 0;
}

static void find_pinned(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_sample *last = &facts->samples[facts->samples_count - 1];
	uint64_t pinned =
		mt_diagnose_minimum(facts, 2, offsetof(struct mt_sample, gpu_pinned_bytes));
	struct mt_finding *finding;

	pinned = mt_sat_sub(pinned, pinned_returned(facts));
	if (pinned < PINNED_BYTES || (double)pinned < (double)last->rss_bytes * PINNED_SHARE)
		return;
	finding = mt_finding_add(out, MT_VERDICT_PINNED, (double)pinned, 0.85,
				 "%s of host memory are page-locked for the GPU%s",
				 mt_text_bytes(pinned).text,
				 facts->trim.done ? ", and the trim has not reached them" : "");
	mt_finding_bytes(finding, "page-locked throughout", "gpu_pinned_bytes", pinned);
	mt_finding_bytes(finding, "RSS", "rss_bytes", last->rss_bytes);
	mt_finding_advise(finding, "Take fewer batches in flight: a smaller prefetch_factor, fewer "
				   "workers, or pin_memory=False.");
	mt_finding_advise(
		finding, "PyTorch keeps freed pinned blocks for reuse. From 2.5 on a heavy cleanup "
			 "returns them; before, a few sizes of batches keep that cache small.");
}

void mt_diagnose_judge_gpu(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	if (!mt_stats_file_uses_cuda(&facts->last.head))
		return;
	find_fragments(facts, out);
	find_cache(facts, out);
	find_live(facts, out);
	find_pinned(facts, out);
}
