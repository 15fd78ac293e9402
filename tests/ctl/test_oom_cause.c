/* test_oom_cause.c -- what an out-of-memory error is put down to. */
#include <criterion/criterion.h>

#include <string.h>

#include "ctl/figures/figures.h"
#include "sys/os.h"

#define GB (1ull << 30)

static const struct {
	struct mt_stats_oom seen;
	enum mt_oom_cause cause;
	const char *word; /* of the advice */
} cases[] = {
	{{.total_bytes = 80 * GB, .allocated_bytes = 70 * GB, .idle_bytes = 2 * GB},
	 MT_OOM_CACHE,
	 "MT_CUDA_DECAY_MS"},
	{{.total_bytes = 80 * GB, .allocated_bytes = 70 * GB, .framework_idle_bytes = 2 * GB},
	 MT_OOM_CACHE,
	 "MT_FRAMEWORK_DECAY_MS"},
	{{.total_bytes = 80 * GB, .allocated_bytes = 10 * GB, .idle_bytes = GB + 1},
	 MT_OOM_CACHE,
	 ""},
	{{.total_bytes = 80 * GB, .allocated_bytes = 70 * GB, .idle_bytes = GB},
	 MT_OOM_LIVE,
	 "smaller batches"},
	{{.total_bytes = 100 * GB, .allocated_bytes = 80 * GB}, MT_OOM_LIVE, ""},
	/* whoever holds what was missing */
	{{.total_bytes = 100 * GB,
	  .allocated_bytes = 79 * GB,
	  .reserved_bytes = 79 * GB,
	  .asked_bytes = 2 * GB},
	 MT_OOM_OTHERS,
	 "nvidia-smi"},
	{{.total_bytes = 80 * GB,
	  .allocated_bytes = GB,
	  .asked_bytes = 10 * GB,
	  .free_bytes = 9 * GB,
	  .others_known = 1,
	  .others_count = 2,
	  .others_bytes = 70 * GB},
	 MT_OOM_OTHERS,
	 "CUDA_VISIBLE_DEVICES"},
	{{.total_bytes = 80 * GB,
	  .allocated_bytes = 60 * GB,
	  .asked_bytes = 20 * GB,
	  .free_bytes = 18 * GB,
	  .others_known = 1,
	  .others_count = 1,
	  .others_bytes = 10 * MT_MIB},
	 MT_OOM_LIVE,
	 "smaller batches"},
	{{.total_bytes = 80 * GB,
	  .allocated_bytes = GB,
	  .asked_bytes = 10 * GB,
	  .free_bytes = 5 * GB,
	  .others_known = 1},
	 MT_OOM_UNKNOWN,
	 "mtctl stat"},
	{{.total_bytes = 80 * GB,
	  .allocated_bytes = 60 * GB,
	  .asked_bytes = 10 * GB,
	  .free_bytes = 10 * GB},
	 MT_OOM_UNKNOWN,
	 "mtctl stat"},
	/* free and own are all there is of the device: nobody else is on it */
	{{.total_bytes = 1024 * MT_MIB,
	  .allocated_bytes = 428 * MT_MIB,
	  .reserved_bytes = 428 * MT_MIB,
	  .asked_bytes = 900 * MT_MIB,
	  .free_bytes = 596 * MT_MIB},
	 MT_OOM_LIVE,
	 "smaller batches"},
	/* what is left may be our own context */
	{{.total_bytes = 1024 * MT_MIB,
	  .allocated_bytes = 328 * MT_MIB,
	  .reserved_bytes = 328 * MT_MIB,
	  .asked_bytes = 650 * MT_MIB,
	  .free_bytes = 596 * MT_MIB},
	 MT_OOM_LIVE,
	 ""},
	{{.total_bytes = 80 * GB,
	  .allocated_bytes = 60 * GB,
	  .reserved_bytes = 60 * GB,
	  .asked_bytes = 20 * GB,
	  .free_bytes = 15 * GB},
	 MT_OOM_OTHERS,
	 "nvidia-smi"},
	{{.allocated_bytes = GB}, MT_OOM_UNKNOWN, ""},
	{{.total_bytes = 8 * GB, .allocated_bytes = 7 * GB, .asked_bytes = 9 * GB},
	 MT_OOM_REQUEST,
	 "more than the device"},
	{{.total_bytes = 8 * GB, .idle_bytes = 7 * GB, .asked_bytes = 8 * GB + 1},
	 MT_OOM_REQUEST,
	 ""},
	{{.total_bytes = 8 * GB, .allocated_bytes = 7 * GB, .asked_bytes = 8 * GB},
	 MT_OOM_LIVE,
	 ""},
	{{.asked_bytes = 9 * GB}, MT_OOM_UNKNOWN, ""},
};

Test(oom_cause, follows_from_the_figures)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		enum mt_oom_cause cause = mt_stats_oom_cause(&cases[i].seen);
		const char *advice = mt_stats_word_oom_advice(cause);

		cr_expect_eq(cause, cases[i].cause, "case %zu: %d", i, (int)cause);
		cr_expect_not_null(strstr(advice, cases[i].word), "case %zu: %s", i, advice);
		cr_expect_gt(strlen(advice), 20);
	}
}
