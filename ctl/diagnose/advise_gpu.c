/* ctl/diagnose/advise_gpu.c -- rules on device memory: PyTorch's cache, the pool. */
#include <stdio.h>
#include <string.h>

#include "ctl/diagnose/advise.h"

#define CACHE_BYTES  (64 * MT_MIB)
#define CACHE_SHARE  0.40 /* of what is held: as diagnose has it */
#define ALLOCS_LEAST 1000
#define HITS_LEAST   0.5
#define LOW_SHARE    0.10 /* of the devices' memory free */
/* MB; PyTorch and the pool take none up to 20 */
#define SPLIT_LEAST 32u

static const struct mt_stats_oom *last_fragmented(const struct mt_stats_file *file)
{
	for (uint64_t number = file->head.ooms_count; number; number--) {
		const struct mt_stats_oom *oom = mt_stats_file_oom(file, number);

		if (!oom || oom->cause == MT_OOM_CACHE)
			return oom;
	}
	return NULL;
}

/* Below what was asked for, so that blocks of its size are never cut into smaller ones. */
static unsigned split_mb(uint64_t asked_bytes)
{
	unsigned split = SPLIT_LEAST;

	while (split < 1024 && (uint64_t)split * 4 * MT_MIB <= asked_bytes)
		split *= 2;
	return split;
}

static void say_fragmented(const struct mt_stats_oom *oom, uint64_t idle_bytes, const char *whose,
			   struct mt_advice *out)
{
	snprintf(out->reason, sizeof(out->reason),
		 "%s were refused on GPU %llu while %s lay unused in pieces in %s",
		 mt_text_bytes(oom->asked_bytes).text, (unsigned long long)oom->device,
		 mt_text_bytes(idle_bytes).text, whose);
}

static bool has_fragments_in_torch(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_oom *oom = last_fragmented(&facts->look.last);
	const char *kept = facts->alloc_conf;

	if (!oom || oom->framework_idle_bytes < oom->asked_bytes || !mt_advise_may_join(kept) ||
	    strstr(kept, "max_split_size_mb") || strstr(kept, "expandable_segments:True") ||
	    strstr(kept, "cudaMallocAsync"))
		return false;
	say_fragmented(oom, oom->framework_idle_bytes, "PyTorch's cache", out);
	if (strstr(kept, "expandable_segments")) /* switched off on purpose */
		snprintf(out->environment, sizeof(out->environment),
			 "PYTORCH_CUDA_ALLOC_CONF=%.80s,max_split_size_mb:%u,garbage_collection_"
			 "threshold:0.8",
			 kept, split_mb(oom->asked_bytes));
	else
		snprintf(out->environment, sizeof(out->environment),
			 "PYTORCH_CUDA_ALLOC_CONF=%.80s%sexpandable_segments:True", kept,
			 *kept ? "," : "");
	return true;
}

static bool has_fragments_in_the_pool(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_oom *oom = last_fragmented(&facts->look.last);
	const char *conf = mt_stats_file_setting(&facts->look.last, "cuda_conf");

	if (!oom || oom->idle_bytes < oom->asked_bytes ||
	    oom->framework_idle_bytes >= oom->asked_bytes || !conf ||
	    strstr(conf, "garbage_collection_threshold") || strstr(conf, "max_split_size_mb") ||
	    !mt_advise_may_join(conf))
		return false;
	say_fragmented(oom, oom->idle_bytes, "the pool", out);
	snprintf(out->environment, sizeof(out->environment),
		 "MT_CUDA_CONF=%.80s%sgarbage_collection_threshold:0.8,max_split_size_mb:%u", conf,
		 *conf ? "," : "", split_mb(oom->asked_bytes));
	return true;
}

static bool keeps_torch_cache(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_snapshot *now = mt_advise_figures(facts);
	uint64_t unused = mt_sat_sub(now->framework_reserved_bytes, now->framework_allocated_bytes);

	if (unused < CACHE_BYTES ||
	    (double)unused < (double)now->framework_reserved_bytes * CACHE_SHARE ||
	    mt_advise_setting(facts, "framework_decay_ms"))
		return false;
	snprintf(out->reason, sizeof(out->reason),
		 "when a cleanup last came to Python, PyTorch's cache held %s, of which tensors "
		 "used %s",
		 mt_text_bytes(now->framework_reserved_bytes).text,
		 mt_text_bytes(now->framework_allocated_bytes).text);
	mt_advise_set(facts, out, "framework_decay_ms", "5000");
	return true;
}

static bool has_low_devices(const struct mt_stats_snapshot *now)
{
	return now->gpu_total_bytes &&
	       (double)now->gpu_free_bytes < (double)now->gpu_total_bytes * LOW_SHARE;
}

/* Idle blocks are what the next allocation takes: they are only too many where the device has
 * little else. */
static bool keeps_pool_for_ever(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_snapshot *now = mt_advise_figures(facts);
	uint64_t decay_ms = mt_advise_setting(facts, "cuda_decay_ms");

	if (now->gpu_idle_bytes < CACHE_BYTES ||
	    (double)now->gpu_idle_bytes < (double)now->gpu_reserved_bytes * CACHE_SHARE ||
	    (decay_ms && decay_ms <= 5000) || !has_low_devices(now))
		return false;
	snprintf(out->reason, sizeof(out->reason),
		 "%s of %s lie idle in the pool, where %s of the devices' %s are free, and %s",
		 mt_text_bytes(now->gpu_idle_bytes).text,
		 mt_text_bytes(now->gpu_reserved_bytes).text,
		 mt_text_bytes(now->gpu_free_bytes).text, mt_text_bytes(now->gpu_total_bytes).text,
		 decay_ms ? "they stay for longer than 5 s" : "they never go back by themselves");
	mt_advise_set(facts, out, "cuda_decay_ms", "5000");
	return true;
}

/* What decays is asked for again: the pool gives back too soon, and there is room to keep it. */
static bool decays_too_soon(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_snapshot *now = mt_advise_figures(facts);
	double hits = now->gpu_alloc_count
			      ? (double)now->gpu_hit_count / (double)now->gpu_alloc_count
			      : 1;
	uint64_t decay_ms = mt_advise_setting(facts, "cuda_decay_ms");

	if (now->gpu_alloc_count < ALLOCS_LEAST || hits >= HITS_LEAST || !decay_ms ||
	    decay_ms >= 30000 || now->gpu_decayed_bytes < 4 * now->gpu_reserved_peak_bytes ||
	    !now->gpu_reserved_peak_bytes || has_low_devices(now))
		return false;
	snprintf(out->reason, sizeof(out->reason),
		 "only %.0f %% of %s allocations came from the pool, and %s went back after %s ms: "
		 "several times the %s that it ever held",
		 100 * hits, mt_text_count(now->gpu_alloc_count).text,
		 mt_text_bytes(now->gpu_decayed_bytes).text, mt_text_count(decay_ms).text,
		 mt_text_bytes(now->gpu_reserved_peak_bytes).text);
	mt_advise_set(facts, out, "cuda_decay_ms", "30000");
	return true;
}

/* Counting alone, by somebody's word, where no cache of a framework sits on top. */
static bool does_without_the_pool(const struct mt_advise_facts *facts, struct mt_advice *out)
{
	const struct mt_stats_snapshot *now = mt_advise_figures(facts);

	if (!mt_advise_setting_is(facts, "cuda", "account") || facts->has_torch ||
	    now->gpu_num_device_alloc < ALLOCS_LEAST || now->framework_reserved_bytes ||
	    has_low_devices(now))
		return false;
	snprintf(out->reason, sizeof(out->reason),
		 "%s of %s allocations of device memory went to the driver, which may wait for the "
		 "device each time; no framework keeps a cache here",
		 mt_text_count(now->gpu_num_device_alloc).text,
		 mt_text_count(now->gpu_alloc_count).text);
	snprintf(out->environment, sizeof(out->environment), "MT_CUDA=auto");
	return true;
}

const struct mt_advise_rule mt_advise_gpu_rules[] = {
	{"cuda", does_without_the_pool},
	{"split", has_fragments_in_torch},
	{"split", has_fragments_in_the_pool},
	{"framework-cache", keeps_torch_cache},
	{"cuda-decay", keeps_pool_for_ever},
	{"cuda-decay", decays_too_soon},
	{NULL, NULL},
};
