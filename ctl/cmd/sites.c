/* ctl/cmd/sites.c -- `mtctl sites`: who holds the heap. */
#include "ctl/process/clock.h"
#include "ctl/profile/sites.h"

#include <getopt.h>
#include <stdio.h>

#include "ctl/process/control_file.h"
#include "ctl/command.h"
#include "ctl/output/units.h"
#include "ctl/process/target.h"
#include "ctl/output/text.h"

#define TOP_DEFAULT 10

static const char help[] =
	"Live bytes by the stack that allocated them, the largest first, estimated from samples of "
	"the\n"
	"embedded jemalloc's heap profiler. The program must have been started with MT_PROF=1, and "
	"sampling\n"
	"switched on (mtctl set PID prof=on). It does not see what was allocated before that, "
	"mmap, nor\n"
	"allocators of a library's own. Exit code 0: printed, 1: no profile to be had, or nothing "
	"has grown.\n\n"
	"  --top=N         so many sites (10), 0 for all\n"
	"  --diff=SECONDS  take two profiles so far apart and show what grows: where a leak is\n"
	"  --json          one object\n"
	"  --folded        a line a stack, for flame graphs\n"
	"  --pprof=FILE    also write it for `pprof FILE` or `go tool pprof FILE`; all sites\n";

enum format { FORMAT_TABLE, FORMAT_JSON, FORMAT_FOLDED };

struct wanted {
	struct mt_sites_view view;
	enum format format;
	const char *pprof;
};

static int refuse(const struct mt_process *process, enum mt_err error, const struct mt_why *why)
{
	mt_error_say("process %d (%s): %s", (int)process->pid, process->comm, why->text);
	return mt_error_exit(error);
}

static int print(const struct wanted *wanted, const struct mt_sites *sites)
{
	static void (*const prints[])(const struct mt_sites *, const struct mt_sites_view *) = {
		mt_sites_print_table, mt_sites_print_json, mt_sites_print_folded};
	struct mt_why why;

	if (wanted->pprof && mt_sites_write_pprof(sites, wanted->pprof, &why) != MT_ERR_OK) {
		mt_error_say("%s", why.text);
		return MT_EXIT_USAGE;
	}
	prints[wanted->format](sites, &wanted->view);
	return sites->count ? MT_EXIT_OK : MT_EXIT_NOTHING;
}

static int show_live(const struct wanted *wanted)
{
	struct mt_sites sites;
	struct mt_why why;
	enum mt_err error = mt_sites_collect(wanted->view.process, &sites, &why);
	int code;

	if (error)
		return refuse(wanted->view.process, error, &why);
	code = print(wanted, &sites);
	mt_sites_free(&sites);
	return code;
}

static int show_growth(struct wanted *wanted)
{
	struct mt_sites before, after, growth;
	struct mt_why why;
	uint64_t began_ns = mt_clock_now_ns();
	enum mt_err error = mt_sites_collect(wanted->view.process, &before, &why);
	int code;

	if (error)
		return refuse(wanted->view.process, error, &why);
	mt_clock_sleep_ms((unsigned)wanted->view.over_ms);
	error = mt_sites_collect(wanted->view.process, &after, &why);
	if (error) {
		code = refuse(wanted->view.process, error, &why);
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

static bool parse_option(int option, const char *text, struct wanted *wanted)
{
	switch (option) {
	case 't':
		if (mt_text_parse_u64(text, &wanted->view.top))
			return true;
		mt_error_say("'%s' is not a number of sites", text);
		return false;
	case 'd':
		if (!mt_units_parse_seconds(text, &wanted->view.over_ms))
			return false;
		if (wanted->view.over_ms)
			return true;
		mt_error_say("--diff wants more than 0 seconds");
		return false;
	case 'p':
		wanted->pprof = text;
		return true;
	case 'j':
	case 'f':
		wanted->format = option == 'j' ? FORMAT_JSON : FORMAT_FOLDED;
		return true;
	default:
		return false;
	}
}

int mt_command_sites(int argc, char **argv)
{
	static const struct option options[] = {{"top", required_argument, NULL, 't'},
						{"diff", required_argument, NULL, 'd'},
						{"json", no_argument, NULL, 'j'},
						{"folded", no_argument, NULL, 'f'},
						{"pprof", required_argument, NULL, 'p'},
						{"help", no_argument, NULL, 'h'},
						{0}};
	struct wanted wanted = {.view.top = TOP_DEFAULT};
	struct mt_process process;
	int option, code;

	while ((option = mt_command_option(argc, argv, "h", options)) != -1) {
		if (option == 'h')
			return mt_command_help("sites", help);
		if (!parse_option(option, optarg, &wanted))
			return MT_EXIT_USAGE;
	}
	if (optind + 1 != argc)
		return mt_command_misused("sites");
	code = mt_target_find(argv[optind], &process);
	if (code != MT_EXIT_OK)
		return code;
	wanted.view.process = &process;
	return wanted.view.over_ms ? show_growth(&wanted) : show_live(&wanted);
}
