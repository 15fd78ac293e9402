/* ctl/profile/sites_print.c -- prints sites as a table, as JSON, and as folded stacks. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ctl/output/json.h"
#include "ctl/profile/sites.h"
#include "ctl/output/table.h"
#include "ctl/output/text.h"

/* with fewer, an estimate is only a hint: its error is about 1 / sqrt(samples) */
#define FEW_SAMPLES  10
#define FRAMES_SHOWN 12

static size_t shown(const struct mt_sites *sites, const struct mt_sites_view *view)
{
	return view->top && view->top < sites->count ? (size_t)view->top : sites->count;
}

static double share(uint64_t bytes, uint64_t all)
{
	return all ? 100.0 * (double)bytes / (double)all : 0;
}

static void print_summary(const struct mt_sites *sites, const struct mt_sites_view *view)
{
	printf("process %d (%s): ", (int)view->process->pid, view->process->comm);
	if (view->over_ms)
		printf("%s more within %.1f s", mt_text_bytes(sites->live_bytes).text,
		       (double)view->over_ms / 1000);
	else
		printf("%s live", mt_text_bytes(sites->live_bytes).text);
	printf(" at %s, estimated from %s, one in %s\n",
	       mt_text_counted(sites->count, "site", "sites").text,
	       mt_text_counted(sites->sampled_count, "sample", "samples").text,
	       mt_text_bytes(sites->rate_bytes).text);
	if (!sites->samples)
		puts("it does not sample any more: what was allocated since is missing");
}

static void add_site(struct mt_table *table, const struct mt_site *site,
		     const struct mt_sites *sites, const struct mt_sites_view *view)
{
	char text[48], *where = mt_sites_where(site);

	mt_table_add(table, mt_text_bytes(site->live_bytes).text);
	snprintf(text, sizeof(text), "%.1f%%", share(site->live_bytes, sites->live_bytes));
	mt_table_add(table, text);
	mt_table_add(table, mt_text_count(site->live_count).text);
	snprintf(text, sizeof(text), "%" PRIu64 "%s", site->sampled_count,
		 site->sampled_count < FEW_SAMPLES ? "?" : "");
	mt_table_add(table, text);
	if (view->over_ms) {
		snprintf(text, sizeof(text), "%.2f MB/s",
			 (double)site->live_bytes / 1048576.0 / ((double)view->over_ms / 1000));
		mt_table_add(table, text);
	}
	mt_table_add(table, where);
	free(where);
}

static void print_stack(size_t number, const struct mt_site *site)
{
	size_t first = mt_sites_first_frame(site);

	printf("\n%zu. %s, %s\n", number, mt_text_bytes(site->live_bytes).text,
	       site->frames[first]);
	for (size_t i = first + 1; i < site->frames_count && i < first + FRAMES_SHOWN; i++)
		printf("   %s\n", site->frames[i]);
	if (site->frames_count > first + FRAMES_SHOWN)
		printf("   and %zu more\n", site->frames_count - first - FRAMES_SHOWN);
}

void mt_sites_print_table(const struct mt_sites *sites, const struct mt_sites_view *view)
{
	struct mt_table *table = mt_table_new(">BYTES|>SHARE|>BLOCKS|>SAMPLES");
	size_t count = shown(sites, view);

	print_summary(sites, view);
	if (view->over_ms)
		mt_table_add_columns(table, ">GROWS");
	mt_table_add_columns(table, "<WHERE");
	for (size_t i = 0; i < count; i++)
		add_site(table, &sites->list[i], sites, view);
	putchar('\n');
	mt_table_print(table);
	for (size_t i = 0; i < count; i++)
		print_stack(i + 1, &sites->list[i]);
	if (count < sites->count)
		printf("\n%s; --top=0 shows all\n",
		       mt_text_counted(sites->count - count, "more site", "more sites").text);
}

static json_t *site_json(const struct mt_site *site, const struct mt_sites *sites)
{
	json_t *object = json_object(), *frames = json_array();

	mt_json_set_text(object, "where", mt_sites_name(site));
	mt_json_set_text_or_null(object, "python", site->python ? site->python : "");
	mt_json_set_u64(object, "bytes", site->live_bytes);
	mt_json_set(object, "share_pct", json_real(share(site->live_bytes, sites->live_bytes)));
	mt_json_set_u64(object, "blocks_count", site->live_count);
	mt_json_set_u64(object, "samples_count", site->sampled_count);
	for (size_t i = 0; i < site->frames_count; i++)
		mt_json_append(frames, json_string(site->frames[i]));
	mt_json_set(object, "frames", frames);
	return object;
}

json_t *mt_sites_json(const struct mt_sites *sites, const struct mt_sites_view *view)
{
	json_t *object = json_object(), *list = json_array();

	mt_json_set_u64(object, "pid", (uint64_t)view->process->pid);
	mt_json_set_text(object, "comm", view->process->comm);
	mt_json_set_text(object, "kind", view->over_ms ? "growth" : "live");
	mt_json_set_u64_if(object, "over_ms", view->over_ms, view->over_ms);
	mt_json_set_bool(object, "samples", sites->samples);
	mt_json_set_u64(object, "rate_bytes", sites->rate_bytes);
	mt_json_set_u64(object, "bytes", sites->live_bytes);
	mt_json_set_u64(object, "samples_count", sites->sampled_count);
	mt_json_set_u64(object, "sites_count", sites->count);
	for (size_t i = 0; i < shown(sites, view); i++)
		mt_json_append(list, site_json(&sites->list[i], sites));
	mt_json_set(object, "sites", list);
	return object;
}

void mt_sites_print_json(const struct mt_sites *sites, const struct mt_sites_view *view)
{
	mt_json_print(mt_sites_json(sites, view), true);
}

/* Outermost first, separated by semicolons: for flamegraph.pl, inferno and speedscope. */
void mt_sites_print_folded(const struct mt_sites *sites, const struct mt_sites_view *view)
{
	for (size_t i = 0; i < shown(sites, view); i++) {
		const struct mt_site *site = &sites->list[i];

		for (size_t frame = site->frames_count; frame-- > 0;) {
			for (const char *at = site->frames[frame]; *at; at++)
				putchar(*at == ';' ? ':' : *at);
			if (frame)
				putchar(';');
		}
		printf(" %" PRIu64 "\n", site->live_bytes);
	}
}
