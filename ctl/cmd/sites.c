/* ctl/cmd/sites.c -- `mtctl sites`: live heap bytes by the stack that allocated them. */
#include "ctl/process/clock.h"
#include "ctl/profile/sites.h"

#include <stdio.h>

#include "ctl/process/control_file.h"
#include "ctl/command.h"
#include "ctl/process/target.h"
#include "ctl/output/text.h"

#define TOP_DEFAULT      10
#define DIFF_MIN_SECONDS 0.01

static const char help[] =
	"Live bytes by the stack that allocated them, the largest first, estimated from samples\n"
	"of the heap profiler of the embedded jemalloc. The program must be started with\n"
	"MT_PROF=1, and sampling be switched on (mtctl set PID prof=on). Memory that was\n"
	"allocated before that, by mmap, or by a library's own allocator is not included.\n\n"
	"  --top=N         the number of sites (10), 0 for all\n"
	"  --diff=DURATION  takes two profiles this far apart and shows what has grown\n"
	"  --json          one object\n"
	"  --folded        a line a stack, for flame graphs\n"
	"  --pprof=FILE    also writes all sites for `pprof FILE` or `go tool pprof FILE`\n";

struct wanted {
	struct mt_sites_view view;
	bool json, folded;
	const char *pprof;
};

static int print(const struct wanted *wanted, const struct mt_sites *sites)
{
	struct mt_error_reason why;

	if (wanted->pprof && mt_sites_write_pprof(sites, wanted->pprof, &why) != MT_ERR_OK)
		return mt_error_fail(MT_EXIT_USAGE, &why);
	(wanted->json     ? mt_sites_print_json
	 : wanted->folded ? mt_sites_print_folded
			  : mt_sites_print_table)(sites, &wanted->view);
	return sites->count ? MT_EXIT_OK : MT_EXIT_NOTHING;
}

static int show_live(const struct wanted *wanted)
{
	struct mt_sites sites;
	struct mt_error_reason why;
	enum mt_err error = mt_sites_collect(wanted->view.process, &sites, &why);
	int code;

	if (error)
		return mt_target_fail(wanted->view.process, error, &why);
	code = print(wanted, &sites);
	mt_sites_free(&sites);
	return code;
}

static int show_growth(struct wanted *wanted)
{
	struct mt_sites before, after, growth;
	struct mt_error_reason why;
	uint64_t began_ns = mt_clock_now_ns();
	enum mt_err error = mt_sites_collect(wanted->view.process, &before, &why);
	int code;

	if (error)
		return mt_target_fail(wanted->view.process, error, &why);
	mt_clock_sleep_ms((unsigned)wanted->view.over_ms);
	error = mt_sites_collect(wanted->view.process, &after, &why);
	if (error) {
		code = mt_target_fail(wanted->view.process, error, &why);
	} else {
		wanted->view.over_ms = (mt_clock_now_ns() - began_ns) / 1000000u;
		mt_sites_growth(&before, &after, &growth);
		code = print(wanted, &growth);
		mt_sites_free(&growth);
		mt_sites_free(&after);
	}
	mt_sites_free(&before);
	return code;
}

int mt_command_sites(int argc, char **argv)
{
	struct wanted wanted = {.view.top = TOP_DEFAULT};
	const struct mt_option options[] = {
		{.name = "top",
		 .target = &wanted.view.top,
		 .take = mt_option_number,
		 .what = "a number of sites"},
		{.name = "diff",
		 .target = &wanted.view.over_ms,
		 .take = mt_option_ms,
		 .min = DIFF_MIN_SECONDS},
		{.name = "json", .target = &wanted.json},
		{.name = "folded", .target = &wanted.folded},
		{.name = "pprof", .target = &wanted.pprof, .take = mt_option_text},
		{0}};
	const struct mt_command_line line = {"sites", help, NULL, options, 1, 1};
	struct mt_process process;
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	code = mt_target_find(argv[optind], &process);
	if (code != MT_EXIT_OK)
		return code;
	wanted.view.process = &process;
	return wanted.view.over_ms ? show_growth(&wanted) : show_live(&wanted);
}
