#include "ctl/ui/top/details.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/channel/target.h"
#include "ctl/figures/cleanup_story.h"
#include "ctl/figures/figures.h"
#include "ctl/figures/setting.h"
#include "ctl/output/text.h"
#include "ctl/ui/top/pane.h"

void mt_top_details_read(struct mt_top_details *details)
{
	enum mt_err error;

	if (!details->file)
		details->file = mt_error_check_memory(malloc(sizeof(*details->file)));
	error = mt_target_read(&details->row.process, details->file, &details->why);
	/* The values of an ended process stay. */
	details->is_known |= !error;
}

/* ---- figures ---- */

static void add_fact(struct mt_top_page *page, const char *label, const char *text)
{
	if (*text)
		mt_top_page_add(page, MT_STYLE_PLAIN, " %-10s %s", label, text);
}

static void add_facts(struct mt_top_page *page, const struct mt_stats_file *file)
{
	const struct mt_stats_head *head = &file->head;
	const struct mt_stats_snapshot *now = &head->snapshot;
	char text[300];

	snprintf(text, sizeof(text), "%s, %s (mode %s), shim %s", head->allocator, head->evidence,
		 head->mode, head->shim_version);
	add_fact(page, "allocator", text);
	add_fact(page, "conf", head->conf);
	add_fact(page, "python", head->python);
	add_fact(page, "cuda", head->cuda);
	if (*head->rank)
		add_fact(page, "rank", head->rank);
	snprintf(text, sizeof(text), "%s, %s of %s used, %.1f %% (%s)",
		 mt_stats_word_pressure_level(now->pressure_level),
		 mt_text_bytes(now->pressure_used_bytes).text,
		 mt_text_bytes(now->pressure_limit_bytes).text,
		 mt_stats_percent(now->pressure_used_bytes, now->pressure_limit_bytes),
		 *head->limit_source ? head->limit_source : "?");
	if (now->pressure_limit_bytes)
		add_fact(page, "pressure", text);
	if (head->ooms_count + head->limit_reports_count) {
		snprintf(text, sizeof(text),
			 "%.40s out-of-memory errors, %.40s times MT_RSS_LIMIT_MB: `mtctl stat %d "
			 "--oom`",
			 mt_text_count(head->ooms_count).text,
			 mt_text_count(head->limit_reports_count).text, (int)head->pid);
		add_fact(page, "reports", text);
	}
}

static void fill_figures(struct mt_top_page *page, const struct mt_stats_file *file)
{
	add_facts(page, file);
	mt_top_page_add_table(page, mt_process_table(&file->head));
}

/* ---- cleanups ---- */

static void add_counts(struct mt_top_page *page, const struct mt_stats_snapshot *now)
{
	mt_top_page_add(
		page, MT_STYLE_PLAIN,
		" rounds %s   purges %s   light %s   heavy %s   for pressure %s   requests %s",
		mt_text_count(now->rounds_count).text, mt_text_count(now->purge_count).text,
		mt_text_count(now->light_count).text, mt_text_count(now->heavy_count).text,
		mt_text_count(now->pressure_clean_count).text,
		mt_text_count(now->requests_count).text);
	mt_top_page_add(page, MT_STYLE_PLAIN,
			" purges have returned %s in %s; faults charged to them cost %s",
			mt_text_bytes(now->purged_bytes).text, mt_text_ns(now->purge_cost_ns).text,
			mt_text_ns(now->refault_cost_ns).text);
}

/* The newest first. */
static void fill_records(struct mt_top_page *page, const struct mt_stats_file *file)
{
	struct mt_cleanup_story *stories =
		mt_error_check_memory(calloc(MT_CLEANUPS_COUNT, sizeof(*stories)));
	size_t count = mt_cleanup_stories(file, stories);

	add_counts(page, &file->head.snapshot);
	for (size_t i = 0; i < count / 2; i++) {
		struct mt_cleanup_story kept = stories[i];

		stories[i] = stories[count - 1 - i];
		stories[count - 1 - i] = kept;
	}
	mt_top_page_add_table(page, mt_cleanup_table(&file->head, stories, count));
	if (!count)
		mt_top_page_add(page, MT_STYLE_DIM, " no cleanup yet");
	else if (mt_cleanup_kept_since_ns(file))
		mt_top_page_add(page, MT_STYLE_DIM, " older ones are not kept");
	free(stories);
}

/* ---- settings ---- */

static void fill_settings(struct mt_top_page *page, const struct mt_stats_file *file)
{
	mt_top_page_add(page, MT_STYLE_HEADING, " %-20s %-14s %-12s %-5s %s", "SETTING", "VALUE",
			"FROM", "LIVE", "MEANING");
	for (size_t i = 0; i < file->head.settings_count; i++) {
		const struct mt_stats_setting *setting = &file->settings[i];
		const struct mt_setting *known = mt_setting_find(setting->name);
		bool is_default = strcmp(setting->origin, "default") == 0;

		mt_top_page_add(page, is_default ? MT_STYLE_PLAIN : MT_STYLE_BOLD,
				" %-20s %-14s %-12s %-5s %s", setting->name, setting->value,
				setting->origin, known && known->live ? "yes" : "no",
				known ? known->help : "");
	}
}

/* ---- devices ---- */

static void add_device(struct mt_top_page *page, const struct mt_stats_device *device)
{
	mt_top_page_add(page, MT_STYLE_HEADING,
			" GPU %" PRIu64 ": %s%s%s%s, mode %s, %s free of %s", device->ordinal,
			*device->name ? device->name : "?", *device->pci ? " (" : "", device->pci,
			*device->pci ? ")" : "", *device->mode ? device->mode : "?",
			device->free_bytes ? mt_text_bytes(device->free_bytes).text : "?",
			device->total_bytes ? mt_text_bytes(device->total_bytes).text : "?");
	mt_top_page_add_table(page, mt_device_table(device));
	if (device->process_known != 1)
		mt_top_page_add(page, MT_STYLE_DIM,
				" NVML does not say what the driver charges this process");
}

static void fill_devices(struct mt_top_page *page, const struct mt_stats_file *file)
{
	if (mt_stats_file_uses_cuda(&file->head))
		mt_top_page_add(page, MT_STYLE_PLAIN, " %s, driver %s%s",
				*file->head.cuda ? file->head.cuda : "?",
				mt_stats_word_driver(&file->head).text,
				file->head.snapshot.gpu_capturing
					? ", a stream captures into a graph"
					: "");
	for (size_t i = 0; i < file->head.devices_count && i < MT_DEVICES_COUNT; i++)
		add_device(page, &file->devices[i]);
	if (!file->head.devices_count)
		mt_top_page_add(page, MT_STYLE_DIM, " it uses no GPU");
}

/* ---- the screen ---- */

static void add_unknown(const struct mt_top_details *details, struct mt_top_page *page)
{
	if (details->row.state == MT_PROCESS_ASLEEP)
		mt_top_page_add(page, MT_STYLE_PLAIN,
				" asleep: it holds less than MT_MIN_MB of anonymous memory, and "
				"has not published anything yet");
	else
		mt_top_page_add(page, MT_STYLE_BAD, " %s", details->why.text);
}

static void fill_page(const struct mt_top_details *details, struct mt_top_page *page)
{
	if (!details->is_known)
		add_unknown(details, page);
	else if (details->tab == MT_TAB_FIGURES)
		fill_figures(page, details->file);
	else if (details->tab == MT_TAB_RECORDS)
		fill_records(page, details->file);
	else if (details->tab == MT_TAB_SETTINGS)
		fill_settings(page, details->file);
	else
		fill_devices(page, details->file);
}

static void draw_tabs(const struct mt_top_details *details, struct mt_cells *canvas)
{
	static const char *const titles[] = {
#define X(id, title) title,
		MT_TOP_TABS(X)
#undef X
	};
	struct mt_cell_place at = {1, 1, 0};
	char text[40];

	for (size_t i = 0; i < MT_TABS_COUNT; i++) {
		bool is_shown = details->tab == (enum mt_top_tab)i;

		snprintf(text, sizeof(text), " %zu %s ", i + 1, titles[i]);
		at.column = mt_cells_put(canvas, at, is_shown ? MT_STYLE_SORTED : MT_STYLE_HEADING,
					 text) +
			    1;
	}
}

static void draw_title(const struct mt_top_details *details, struct mt_cells *canvas)
{
	char text[256];

	snprintf(text, sizeof(text), " %d %s%s  %s", (int)details->row.process.pid,
		 details->row.process.comm, details->has_ended ? " (has ended)" : "",
		 details->row.process.command);
	mt_cells_paint_row(canvas, 0, MT_STYLE_TITLE);
	mt_cells_put(canvas, (struct mt_cell_place){0, 0, 0}, MT_STYLE_TITLE, text);
}

void mt_top_details_draw(struct mt_top_details *details, struct mt_cells *canvas, int end,
			 uint64_t now_ns)
{
	struct mt_top_page page = {0};
	struct mt_cell_place from = {2, 0, end};

	draw_title(details, canvas);
	draw_tabs(details, canvas);
	if (details->tab == MT_TAB_FIGURES && !details->has_ended) {
		from.row += mt_top_pane_rows(canvas->rows, 0);
		mt_top_pane_draw_body(canvas, (struct mt_top_pane_area){2, from.row}, &details->row,
				      now_ns);
	}
	fill_page(details, &page);
	mt_top_page_draw(&page, canvas, from, &details->first);
	mt_top_page_free(&page);
}
