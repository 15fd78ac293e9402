/* ctl/diagnose/rules_gpu.c -- the devices: cache, fragmentation, live tensors, page-locked host
 * memory. */

#include <inttypes.h>
#include <string.h>

#include "ctl/diagnose/diagnose.h"

#define CACHE_BYTES (64 * MT_MIB)
/* of the reserved bytes: a training step leaves less between its ends */
#define CACHE_SHARE  0.40
#define FULL_SHARE   0.90 /* of the device, by live memory of this process */
#define PINNED_BYTES (64 * MT_MIB)
#define PINNED_SHARE 0.25 /* of RSS */
#define LOW_SHARE    0.10 /* of the devices' memory is free */
#define SPLIT_MIN_MB 32u  /* PyTorch and the pool ignore values up to 20 */
#define DECAY_MS     5000 /* what is advised */
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
static uint64_t gpu_returned(const struct mt_facts *facts)
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
	const struct mt_stats_snapshot *now = mt_facts_now(facts);
	const struct mt_sample *last = mt_facts_last(facts);

	mt_finding_bytes(finding, "reserved from the driver", "gpu_reserved_bytes",
			 last->gpu_reserved_bytes);
	mt_finding_bytes(finding, "allocated by the program", "gpu_allocated_bytes",
			 last->gpu_allocated_bytes);
	mt_finding_show(finding, "devices", "gpu_free_bytes", (double)now->gpu_free_bytes,
			"%s free of %s", mt_text_bytes(now->gpu_free_bytes).text,
			mt_text_bytes(now->gpu_total_bytes).text);
}

bool mt_diagnose_has_low_devices(const struct mt_stats_snapshot *now)
{
	return now->gpu_total_bytes &&
	       (double)now->gpu_free_bytes < (double)now->gpu_total_bytes * LOW_SHARE;
}

/* idle: bytes of the pool that nothing has used throughout. */
static void advise_cache(const struct mt_facts *facts, uint64_t idle, struct mt_finding *finding)
{
	if (facts->trim.record.frameworks)
		mt_finding_advise(
			finding,
			"Let PyTorch's own cache go back by itself: MT_FRAMEWORK_DECAY_MS=5000.");
	/* idle blocks serve the next allocation: too many are those that a full device lacks */
	if (idle >= CACHE_BYTES && mt_diagnose_has_low_devices(mt_facts_now(facts))) {
		mt_finding_name(finding, "cuda-decay");
		mt_finding_set(finding, facts, "cuda_decay_ms=5000");
	}
	if (idle >= CACHE_BYTES)
		mt_finding_advise(finding, "Let the pool decay: mtctl set PID cuda_decay_ms=5000.");
	mt_finding_advise(
		finding,
		"Empty it between phases or rounds: mtctl trim PID, or MT_HEAVY_ROUNDS=1.");
}

void mt_rule_gpu_cache(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_sample *last = mt_facts_last(facts);
	uint64_t decay_ms = mt_stats_file_number(&facts->last, "cuda_decay_ms");
	/* What a short decay leaves is in use again and again, or about to go. */
	uint64_t idle =
		decay_ms && decay_ms <= DECAY_MS
			? 0
			: mt_diagnose_minimum(facts, 2, offsetof(struct mt_sample, gpu_idle_bytes));
	uint64_t returned = gpu_returned(facts);
	uint64_t bytes = returned > idle ? returned : idle;
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
	advise_cache(facts, idle, finding);
}

/* Bytes that PyTorch's cache held unused after a heavy cleanup had emptied it: parts of segments
 * that are in use. The driver counts them as allocated. */
static uint64_t stuck_bytes(const struct mt_facts *facts)
{
	const struct mt_stats_snapshot *now = mt_facts_now(facts);

	return facts->trim.done && facts->trim.level == MT_LEVEL_HEAVY
		       ? mt_sat_sub(now->framework_reserved_bytes, now->framework_allocated_bytes)
		       : 0;
}

/* max_split_size_mb below the refused size, so that blocks of that size are not split. */
static unsigned split_mb(uint64_t bytes)
{
	unsigned split = SPLIT_MIN_MB;

	while (split < 1024 && (uint64_t)split * 4 * MT_MIB <= bytes)
		split *= 2;
	return split;
}

/* For PyTorch's cache, if as much as was refused lay unused there and its settings allow it. */
static void suggest_split(const struct mt_facts *facts, const struct mt_stats_oom *oom,
			  struct mt_finding *finding)
{
	const char *conf = mt_facts_variable(facts, "PYTORCH_CUDA_ALLOC_CONF");

	if (!conf || !*conf)
		conf = mt_facts_variable(facts, "PYTORCH_ALLOC_CONF");
	conf = conf ? conf : "";
	if (oom->framework_idle_bytes < oom->asked_bytes || !mt_finding_may_join(conf) ||
	    strstr(conf, "max_split_size_mb") || strstr(conf, "expandable_segments:True") ||
	    strstr(conf, "cudaMallocAsync"))
		return;
	mt_finding_name(finding, "split");
	if (strstr(conf, "expandable_segments")) /* expandable_segments:False: chosen */
		mt_finding_start_with(finding,
				      "PYTORCH_CUDA_ALLOC_CONF=%.80s,max_split_size_mb:%u,garbage_"
				      "collection_threshold:0.8",
				      conf, split_mb(oom->asked_bytes));
	else
		mt_finding_start_with(finding,
				      "PYTORCH_CUDA_ALLOC_CONF=%.80s%sexpandable_segments:True",
				      conf, *conf ? "," : "");
}

void mt_rule_gpu_fragments(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_oom *oom = last_oom(facts);
	struct mt_finding *finding;
	uint64_t unused, stuck = stuck_bytes(facts);

	if (!oom || (mt_stats_oom_cause(oom) != MT_OOM_CACHE && stuck < oom->asked_bytes))
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
	mt_finding_show(finding, "out-of-memory errors", "gpu_num_ooms",
			(double)mt_facts_now(facts)->gpu_num_ooms, "%s, the last by %s",
			mt_text_count(mt_facts_now(facts)->gpu_num_ooms).text, oom->function);
	show_memory(facts, finding);
	if (mt_stats_oom_cause(oom) == MT_OOM_CACHE)
		suggest_split(facts, oom, finding);
	if (oom->framework_idle_bytes || stuck)
		mt_finding_advise(
			finding,
			"Restart it with PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or "
			"max_split_size_mb:128.");
	mt_finding_advise(
		finding,
		"Pad inputs to a few sizes, and allocate what is large and lives long first.");
	mt_finding_advise(finding, "Read the reports: mtctl stat PID --oom.");
}

/* What was refused longer ago is no cause any more; the setting helps all the same. */
void mt_rule_old_fragments(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_oom *oom =
		mt_stats_file_oom(&facts->last, facts->last.head.ooms_count);

	if (oom && oom != last_oom(facts) && mt_stats_oom_cause(oom) == MT_OOM_CACHE)
		suggest_split(
			facts, oom,
			mt_finding_note(
				out, MT_NOTE, "split", NULL,
				"%s were refused on GPU %" PRIu64 " while %s lay unused in pieces",
				mt_text_bytes(oom->asked_bytes).text, oom->device,
				mt_text_bytes(oom->framework_idle_bytes + oom->idle_bytes).text));
}

/* Less if a cleanup has returned the growth: then it was a framework's cache, not live tensors.
 */
static double live_growth_confidence(const struct mt_facts *facts, const struct mt_trend *gpu)
{
	double back = (double)gpu_returned(facts) / gpu->growth;

	return gpu->confidence * (back < 1 ? 1 - back : 0);
}

void mt_rule_gpu_live(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_sample *last = mt_facts_last(facts);
	const struct mt_stats_oom *oom = last_oom(facts);
	uint64_t total = mt_facts_now(facts)->gpu_total_bytes;
	bool grows = out->gpu.shape == MT_TREND_GROWS;
	uint64_t stuck = stuck_bytes(facts), live = mt_sat_sub(last->gpu_allocated_bytes, stuck);
	bool full = (oom && mt_stats_oom_cause(oom) == MT_OOM_LIVE && stuck < oom->asked_bytes) ||
		    (total && (double)live >= (double)total * FULL_SHARE &&
		     !(oom && mt_stats_oom_cause(oom) == MT_OOM_CACHE));
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
				mt_stats_word_oom_cause(mt_stats_oom_cause(oom)),
				mt_stats_word_oom_advice(mt_stats_oom_cause(oom)));
	if (grows)
		mt_finding_advise(finding, "Keep numbers, not tensors: loss.item(), "
					   "tensor.detach(); a kept loss keeps its whole graph.");
	mt_finding_advise(finding, "Run evaluation under torch.inference_mode(), and "
				   "optimizer.zero_grad(set_to_none=True).");
	if (!grows)
		mt_finding_advise(finding, "Take a smaller batch, activation checkpointing, or a "
					   "lower precision: no cache can give this back.");
}

void mt_rule_pinned(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_sample *last = mt_facts_last(facts);
	uint64_t pinned =
		mt_diagnose_minimum(facts, 2, offsetof(struct mt_sample, gpu_pinned_bytes));
	struct mt_finding *finding;

	if (facts->trim.done) /* PyTorch's cache of page-locked memory */
		pinned = mt_sat_sub(pinned, mt_sat_sub(facts->trim.record.pinned_before_bytes,
						       facts->trim.record.pinned_after_bytes));
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

/* ---- how it is set up ---- */

static bool is_one_of(char letter, const char *letters)
{
	return letter && strchr(letters, letter);
}

/* Whether "key:value" is in a list separated by commas; blanks are ignored. value NULL: any value
 * but False. */
static bool conf_says(const char *conf, const char *key, const char *value)
{
	for (const char *at = conf; (at = strstr(at, key)); at++) {
		const char *after = at + strlen(key), *text;

		if (at > conf && !is_one_of(at[-1], ", "))
			continue;
		after += strspn(after, " ");
		if (*after != ':')
			continue;
		text = after + 1 + strspn(after + 1, " ");
		if (value ? strncmp(text, value, strlen(value)) == 0 : !is_one_of(*text, "fF0"))
			return true;
	}
	return false;
}

static void check_alloc_conf(const char *name, const char *conf, struct mt_diagnosis *out)
{
	bool expandable = conf_says(conf, "expandable_segments", NULL);
	bool async = conf_says(conf, "backend", "cudaMallocAsync");

	if (expandable)
		mt_finding_note(out, MT_NOTE, "alloc-conf", NULL,
				"%s: expandable_segments are out of the pool's reach; a heavy "
				"cleanup calls empty_cache()",
				name);
	if (async)
		mt_finding_note(out, MT_NOTE, "alloc-conf", NULL,
				"%s: cudaMallocAsync is out of the pool's reach; a heavy cleanup "
				"trims the driver's own pool",
				name);
	if (*conf && !expandable && !async)
		mt_finding_note(
			out, MT_NOTE, "alloc-conf", NULL,
			"%s is set: it is for PyTorch's own cache, the pool does not read it",
			name);
}

void mt_rule_gpu_variables(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	static const char *const confs[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"};
	const char *uncached = mt_facts_variable(facts, "PYTORCH_NO_CUDA_MEMORY_CACHING"),
		   *tensorflow = mt_facts_variable(facts, "TF_GPU_ALLOCATOR"),
		   *world = mt_facts_variable(facts, "WORLD_SIZE");
	uint64_t ranks;

	if (uncached)
		mt_finding_note(out, MT_OK, "caching", NULL,
				"PYTORCH_NO_CUDA_MEMORY_CACHING=%s: %s", uncached,
				strcmp(uncached, "1") == 0
					? "PyTorch's own cache is off, the pool can serve it"
					: "not 1, so PyTorch's own cache counts as on (PyTorch "
					  "before 2.7 turns it off at any value)");
	for (size_t i = 0; i < sizeof(confs) / sizeof(confs[0]); i++)
		if (mt_facts_variable(facts, confs[i]))
			check_alloc_conf(confs[i], mt_facts_variable(facts, confs[i]), out);
	if (tensorflow && strcmp(tensorflow, "cuda_malloc_async") == 0)
		mt_finding_note(out, MT_NOTE, "tensorflow", NULL,
				"TF_GPU_ALLOCATOR: cuda_malloc_async is out of the pool's reach; a "
				"heavy cleanup trims the driver's own pool");
	if (world && mt_text_parse_u64(world, &ranks) && ranks > 1)
		mt_finding_note(out, MT_NOTE, "ranks", NULL,
				"WORLD_SIZE is %s: other ranks would wait, so no gc and no release "
				"of GPU caches without being asked",
				world);
}

static void check_memory(const struct mt_stats_file *file, const struct mt_stats_device *device,
			 struct mt_diagnosis *out)
{
	uint64_t percent = mt_stats_file_setting(file, "cuda_low_pct")
				   ? mt_stats_file_number(file, "cuda_low_pct")
				   : 5;
	bool low = (double)device->free_bytes < (double)device->total_bytes * (double)percent / 100;

	if (!device->total_bytes || !device->free_bytes)
		mt_finding_note(out, MT_OK, "device", NULL,
				"GPU %" PRIu64 " (%s): mode %s, free memory unknown",
				device->ordinal, device->name, device->mode);
	else
		mt_finding_note(out, low ? MT_WARN : MT_OK, "device",
				"mtctl trim --all (root: --all-users) returns what "
				"shimmed processes hold idle; MT_CUDA_LOW_PCT is the bound",
				"GPU %" PRIu64 " (%s): %s free of %s, mode %s%s", device->ordinal,
				device->name, mt_text_bytes(device->free_bytes).text,
				mt_text_bytes(device->total_bytes).text, device->mode,
				low ? "; so little that the pool returns unused blocks at once"
				    : "");
}

/* Memory that was allocated past the pool, and is only counted. */
static void check_kinds(const struct mt_stats_device *device, struct mt_diagnosis *out)
{
	const struct {
		uint64_t bytes;
		const char *what;
	} kinds[] = {
		{device->async_live_bytes,
		 "by cuMemAllocAsync: the driver's pool keeps its free part"},
		{device->vmm_live_bytes, "by cuMemCreate (expandable_segments and their like)"},
		{device->managed_live_bytes, "managed: the driver moves it by itself"},
		{device->array_live_bytes, "in arrays"},
		{device->pinned_live_bytes, "of page-locked host memory: a heavy cleanup empties "
					    "PyTorch's and CuPy's cache of it, no other"},
		{device->imported_live_bytes, "opened from another process"},
		{device->graph_reserved_bytes, "held for the allocations of CUDA graphs"},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].bytes)
			mt_finding_note(out, MT_NOTE, "kind", NULL,
					"out of the pool's reach: GPU %" PRIu64 ", %s %s",
					device->ordinal, mt_text_bytes(kinds[i].bytes).text,
					kinds[i].what);
}

void mt_rule_cuda(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	const struct mt_stats_head *head = &facts->last.head;

	if (!facts->awake)
		return;
	if (!mt_stats_file_uses_cuda(head)) {
		if (facts->has_libcuda)
			mt_finding_note(
				out, MT_NOTE, "cuda",
				"before the program's first CUDA memory call this is as it should "
				"be",
				"CUDA: libcuda is loaded, but no call of it has reached the shim");
		return;
	}
	mt_finding_note(out, MT_OK, "cuda", NULL, "CUDA: %s, driver %s",
			*head->cuda ? head->cuda : "mode unknown", mt_stats_word_driver(head).text);
	if (!head->driver_version)
		mt_finding_note(out, MT_WARN, "driver",
				"see with `mtctl stat PID` whether gpu_alloc_count rises",
				"CUDA: the driver's version is not known; was libcuda reached?");
}

void mt_rule_devices(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	for (size_t i = 0; i < facts->last.head.devices_count && i < MT_DEVICES_COUNT; i++) {
		check_memory(&facts->last, &facts->last.devices[i], out);
		check_kinds(&facts->last.devices[i], out);
	}
}

void mt_rule_pool(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	if (facts->last.head.snapshot.gpu_capturing)
		mt_finding_note(out, MT_NOTE, "capture", NULL,
				"a stream captures into a graph: until it ends no device memory is "
				"returned");
}

void mt_rule_gpu_ooms(const struct mt_facts *facts, struct mt_diagnosis *out)
{
	uint64_t count = mt_facts_now(facts)->gpu_num_ooms;

	if (count || facts->last.head.ooms_count)
		mt_finding_note(out, MT_WARN, "gpu-out-of-memory",
				"mtctl stat PID --oom has the reports", "%s reached the program",
				mt_text_counted(count ? count : facts->last.head.ooms_count,
						"out-of-memory error has",
						"out-of-memory errors have")
					.text);
}
