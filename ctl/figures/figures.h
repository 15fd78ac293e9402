/* ctl/figures/figures.h -- the table of figures (core/figures.def) at run time. Every view of a
 * figure goes through it: text, JSON, metrics, recordings. A figure is 0 in the file also while it
 * is not known; mt_figure_is_known tells which. Pure: any thread may call. */
#ifndef MT_CTL_FIGURES_FIGURES_H
#define MT_CTL_FIGURES_FIGURES_H

#include <jansson.h>

#include "core/stats_layout.h"
#include "ctl/output/text.h"

/* The lists of figures.def, and the struct that each is read from. */
enum mt_figure_list {
	MT_FIGURES_PROCESS, /* struct mt_stats_snapshot */
	MT_FIGURES_DEVICE,  /* struct mt_stats_device */
	MT_FIGURES_SAMPLE,
	MT_FIGURES_CLEANUP,
	MT_FIGURES_OOM,
	MT_FIGURES_LIMIT_REPORT,
	MT_FIGURE_LISTS
};

struct mt_figure {
	const char *name; /* with its unit; NULL: the end of the list */
	const char *help;
	/* of a report, "" if its table leaves it out; of a sample the figure of
	 * MT_FIGURES_PROCESS that it is */
	const char *label;
	/* of PROCESS and DEVICE, by `mtctl record`: "no", "shim", or the line of /proc/PID/status
	 * that it is read from */
	const char *recorded;
	size_t offset, known_offset, known_bytes;
	bool is_counter; /* only rises */
};

/* Returns the figures of a list in their order. The one after the last has no name. */
const struct mt_figure *mt_figures(enum mt_figure_list list);

/* `from`: a struct of the list that the figure is in. */
uint64_t mt_figure_value(const struct mt_figure *figure, const void *from);
bool mt_figure_is_known(const struct mt_figure *figure, const void *from);

/* Returns whether a process has this figure: those of GPUs only if it uses CUDA. */
bool mt_figure_applies(const struct mt_figure *figure, bool uses_cuda);

/* Returns the value in its unit, "-" if it is not known. */
struct mt_short_text mt_figure_text(const struct mt_figure *figure, const void *from);

/* Sets a member for each figure of the list, null if it is not known. Figures that the table
 * has as `apart` are left to the caller. */
void mt_figures_set_json(json_t *object, enum mt_figure_list list, const void *from);

/* Sets those of PROCESS or DEVICE that a recording has of what the process published, and that are
 * known. */
void mt_figures_set_recorded(json_t *object, enum mt_figure_list list, const void *from,
			     bool uses_cuda);

/* Return a table (ctl/output/table.h) of every figure of a process with its value and its meaning;
 * of a device, but for what the driver and NVML say, with its peak. */
struct mt_table *mt_process_table(const struct mt_stats_head *head);
struct mt_table *mt_device_table(const struct mt_stats_device *device);

/* ---- words ---- */

/* Words for numbers that a process publishes (core/stats_layout.h). A
 * number that is out of range is "?". Pure: any thread may call. */

/* Of a cleanup: its reason, its level, the state of Python's garbage collection and of the GPU
 * caches. */
const char *mt_stats_word_reason(uint64_t reason);
const char *mt_stats_word_level(uint64_t level);
const char *mt_stats_word_gc_state(uint64_t state);
const char *mt_stats_word_gpu_state(uint64_t state);

/* Returns the name of a framework whose caches a cleanup can empty ("torch", "cupy", "numba"), with
 * its bit in the frameworks of a cleanup in *out_bit. Returns NULL past the last index. */
const char *mt_stats_word_framework(size_t place, uint32_t *out_bit);

/* Returns whether a cleanup returned 1 MB or more of RSS, of anonymous memory, or of device memory.
 * Single pages are returned at any time. */
bool mt_stats_has_freed(const struct mt_stats_cleanup *cleanup);

/* Returns the result of a cleanup; "freed" only if mt_stats_has_freed. */
const char *mt_stats_word_outcome(const struct mt_stats_cleanup *cleanup);

/* Who receives SIGUSR1: signal_disposition of a snapshot. */
const char *mt_stats_word_disposition(uint64_t disposition);

/* Returns which allocator serves malloc (enum mt_mode), and where CPython's small objects are (enum
 * mt_python_use); "" if that is unknown. */
const char *mt_stats_word_mode(uint64_t mode);
const char *mt_stats_word_python(uint64_t use);

/* Why a device was out of memory, as far as the figures tell, and what to do. */
#define MT_OOM_CAUSES(X)                                                                           \
	X(UNKNOWN, "unknown",                                                                      \
	  "compare mtctl stat with nvidia-smi: contexts, modules and libraries take memory that "  \
	  "no allocation shows")                                                                   \
	X(CACHE, "fragmentation or cache",                                                         \
	  "a cache holds it. The pool's: lower MT_CUDA_DECAY_MS. PyTorch's: "                      \
	  "MT_FRAMEWORK_DECAY_MS=5000, or PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True")       \
	X(LIVE, "live tensors",                                                                    \
	  "the program holds it: smaller batches, gradient checkpointing, lower precision, or a "  \
	  "larger device")                                                                         \
	X(OTHERS, "other processes",                                                               \
	  "see nvidia-smi for who else is on the device; end it, or choose another one by "        \
	  "CUDA_VISIBLE_DEVICES")                                                                  \
	X(REQUEST, "one allocation larger than the device",                                        \
	  "one allocation asks for more than the device has: smaller batches, or the model split " \
	  "over devices")

enum mt_oom_cause {
#define X(name, text, advice) MT_OOM_##name,
	MT_OOM_CAUSES(X) MT_OOM_CAUSE_COUNT
#undef X
};

/* Returns the likely cause, in this order. The request is larger than the device. More than 1 GB
 * idle in a cache. 80 % of the device allocated by this process: live tensors. Other processes hold
 * as much as was missing or more, by NVML, or without it by what is neither free nor ours. Live
 * tensors hold as much as was missing or more. Else, or if figures are missing: unknown. Pure. */
enum mt_oom_cause mt_stats_oom_cause(const struct mt_stats_oom *oom);

/* Return a cause's text, and what to do. */
const char *mt_stats_word_oom_cause(enum mt_oom_cause cause);
const char *mt_stats_word_oom_advice(enum mt_oom_cause cause);

/* Returns the CUDA version of the driver, "12.8", or "unknown". */
struct mt_short_text mt_stats_word_driver(const struct mt_stats_head *head);

/* Returns the level of pressure, and the name of a bit of pressure_sources ("limit", "stall"); NULL
 * past the last bit. */
const char *mt_stats_word_pressure_level(uint64_t level);
const char *mt_stats_word_pressure_source(size_t bit);

/* Returns the used share of a limit in percent, 0 if the limit is not known. */
double mt_stats_percent(uint64_t used_bytes, uint64_t limit_bytes);

/* Returns why a cleanup was made for pressure, "critical 91.2 %, limit, stall"; "-" for any other
 * cleanup. */
struct mt_short_text mt_stats_word_pressure(const struct mt_stats_cleanup *cleanup);

/* Returns whether libc's malloc serves for good since RLIMIT_AS or RLIMIT_DATA is low. The settings
 * that only jemalloc follows, as MT_PROF, take jemalloc all the same. */
bool mt_stats_has_low_rlimit(const struct mt_stats_head *head);

/* Returns why the process cannot write a heap profile, as a sentence with advice; NULL if it
 * can. */
const char *mt_stats_why_no_profile(const struct mt_stats_head *head);

#endif
