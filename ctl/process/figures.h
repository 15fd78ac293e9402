/* ctl/process/figures.h -- the table of figures (core/figures.def) at run time. Every view of a
 * figure goes through it: text, JSON, metrics, recordings. A figure is 0 in the file also while it
 * is not known; mt_figure_is_known tells which. Pure: any thread may call. */
#ifndef MT_CTL_PROCESS_FIGURES_H
#define MT_CTL_PROCESS_FIGURES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
	/* of a report, "" where its table leaves it out; of a sample the figure of
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
bool mt_figure_is_always_known(const struct mt_figure *figure);

/* Returns whether a process has this figure: those of GPUs only where it uses CUDA. */
bool mt_figure_applies(const struct mt_figure *figure, bool uses_cuda);

/* Returns the value in its unit, "-" where it is not known; and the name under which text and JSON
 * show it: without _thousandths, since these are shown as a fraction. */
struct mt_short_text mt_figure_text(const struct mt_figure *figure, const void *from);
struct mt_short_text mt_figure_title(const struct mt_figure *figure);

/* Sets a member for each figure of the list, null where it is not known. Figures that the table
 * has as `apart` are left to the caller. */
void mt_figures_set_json(json_t *object, enum mt_figure_list list, const void *from);

/* Sets those of PROCESS or DEVICE that a recording has of what the process published, and that are
 * known. */
void mt_figures_set_recorded(json_t *object, enum mt_figure_list list, const void *from,
			     bool uses_cuda);

#endif
