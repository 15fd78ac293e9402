#include "gpu/oom_cause.h"

#include "sys/saturating.h"
#include "sys/os.h"
#include "sys/format.h"

#define GB_BYTES     (1024 * MT_MIB)
#define LIVE_PERCENT 80u
/* the process's own context, kernels and libraries: up to 1 GiB, or this share of a small device */
#define CONTEXT_SHARE 8u

/* What is neither free nor allocated by this process, where that is more than its own context may
 * be. */
static uint64_t unexplained_bytes(const struct mt_stats_oom *oom)
{
	uint64_t share = oom->total_bytes / CONTEXT_SHARE;
	uint64_t rest = mt_sat_sub(oom->total_bytes, oom->free_bytes + oom->reserved_bytes);

	return rest > (share < GB_BYTES ? share : GB_BYTES) ? rest : 0;
}

static enum mt_oom_cause find_cause(const struct mt_stats_oom *oom, uint64_t frag_thousandths)
{
	uint64_t idle = oom->idle_bytes + oom->framework_idle_bytes;
	uint64_t missing = mt_sat_sub(oom->asked_bytes, oom->free_bytes);
	uint64_t others = oom->others_known ? oom->others_bytes : unexplained_bytes(oom);

	/* Before all else: an empty device would not do. */
	if (oom->total_bytes && oom->asked_bytes > oom->total_bytes)
		return MT_OOM_REQUEST;
	if (idle > frag_thousandths * GB_BYTES / 1000)
		return MT_OOM_CACHE;
	if (!oom->total_bytes)
		return MT_OOM_UNKNOWN;
	if (oom->allocated_bytes >= oom->total_bytes / 100 * LIVE_PERCENT)
		return MT_OOM_LIVE;
	/* The device has room: a limit of the driver, or memory that was freed since the call. */
	if (!missing)
		return MT_OOM_UNKNOWN;
	/* Other processes hold as much as was missing, or more. */
	if (others >= missing)
		return MT_OOM_OTHERS;
	return oom->allocated_bytes >= missing ? MT_OOM_LIVE : MT_OOM_UNKNOWN;
}

static const char *find_advice(const struct mt_stats_oom *oom, enum mt_oom_cause cause)
{
	switch (cause) {
	case MT_OOM_CACHE:
		if (oom->framework_idle_bytes > oom->idle_bytes)
			return "PyTorch's own cache holds it: MT_FRAMEWORK_DECAY_MS=5000, or "
			       "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True";
		return "kept for reuse while a capture or running work forbids its return: lower "
		       "MT_CUDA_DECAY_MS or "
		       "MT_CUDA_MAX_MB";
	case MT_OOM_LIVE:
		return "the program holds it: smaller batches, gradient checkpointing, lower "
		       "precision, or a larger device";
	case MT_OOM_OTHERS:
		return "see nvidia-smi for who else is on the device; end it, or choose another "
		       "one by CUDA_VISIBLE_DEVICES";
	case MT_OOM_REQUEST:
		return "one allocation asks for more than the device has: smaller batches, or the "
		       "model split over devices";
	case MT_OOM_UNKNOWN:
	case MT_OOM_CAUSE_COUNT:
		break;
	}
	return "compare mtctl stat with nvidia-smi: contexts, modules and libraries take memory "
	       "that no allocation shows";
}

void mt_oom_judge(struct mt_stats_oom *oom, uint64_t frag_thousandths)
{
	enum mt_oom_cause cause = find_cause(oom, frag_thousandths);

	oom->cause = cause;
	(void)mt_format(oom->advice, sizeof(oom->advice), "%s", find_advice(oom, cause));
}
