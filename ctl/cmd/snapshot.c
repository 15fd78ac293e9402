/* ctl/cmd/snapshot.c -- `mtctl snapshot`: the blocks of a process's GPU pool. */
#include "ctl/cmd/snapshot.h"

#include <stdio.h>

#include "ctl/command.h"
#include "ctl/output/outfile.h"
#include "ctl/output/text.h"

#define TOP_DEFAULT 10

static const char help[] =
	"Every block of device memory that the shim knows: allocated by cuMemAlloc, or kept for\n"
	"the next allocation. live: the program has it; exported: the same, and another process\n"
	"knows its address; pending: freed, but work that may use it still runs; idle: freed and\n"
	"ready. The program runs on meanwhile; the driver is not called. Under a framework with\n"
	"a cache of its own (mode account) a block is a part of that cache, and the free memory\n"
	"inside is not known. Other kinds of memory are sums without blocks. Exit code 0:\n"
	"printed, 1: asleep, or the process uses no CUDA.\n\n"
	"  --device=N   only this device\n"
	"  --top=N      lists the N largest blocks (10; with --json and -o all)\n"
	"  --json       one object\n"
	"  -o FILE      writes the JSON to FILE, for mtctl plot --gpu; where FILE ends with\n"
	"               .pickle, as torch.cuda.memory._snapshot() is, for PyTorch's memory_viz\n"
	"               (https://pytorch.org/memory_viz, torch/cuda/_memory_viz.py)\n";

struct wanted {
	struct mt_pool_snapshot_view view;
	bool json;
	const char *path; /* NULL: standard output */
};

static int write_file(const struct mt_pool_snapshot *snapshot, const struct wanted *wanted)
{
	struct mt_error_reason why;
	FILE *file;
	enum mt_err error = mt_outfile_stream(wanted->path, 0600, &file, &why);

	if (!error) {
		(mt_text_ends_with(wanted->path, ".pickle")
			 ? mt_pool_snapshot_write_pickle
			 : mt_pool_snapshot_write_json)(snapshot, &wanted->view, file);
		error = mt_outfile_finish(file, wanted->path, &why);
	}
	if (error)
		mt_error_say("%s", why.text);
	return error ? MT_EXIT_USAGE : MT_EXIT_OK;
}

static int show(const struct mt_pool_snapshot *snapshot, const struct wanted *wanted)
{
	if (wanted->path)
		return write_file(snapshot, wanted);
	if (wanted->json)
		mt_pool_snapshot_write_json(snapshot, &wanted->view, stdout);
	else
		mt_snapshot_print(snapshot, &wanted->view);
	return MT_EXIT_OK;
}

static int take_and_show(const char *pid, const struct wanted *wanted)
{
	struct mt_pool_snapshot snapshot = {0};
	struct mt_process process;
	struct mt_error_reason why;
	int code = mt_target_find(pid, &process);
	enum mt_err error;

	if (code != MT_EXIT_OK)
		return code;
	error = mt_pool_snapshot_take(&process, &snapshot, &why);
	if (error)
		return mt_target_fail(&process, error, &why);
	code = show(&snapshot, wanted);
	mt_pool_snapshot_free(&snapshot);
	return code;
}

int mt_command_snapshot(int argc, char **argv)
{
	struct wanted wanted = {.view = {MT_POOL_SNAPSHOT_ALL, MT_POOL_SNAPSHOT_ALL}};
	const struct mt_option options[] = {
		{.name = "device",
		 .target = &wanted.view.device,
		 .take = mt_option_number,
		 .what = "the number of a device"},
		{.name = "top",
		 .target = &wanted.view.top,
		 .take = mt_option_number,
		 .what = "a number of blocks"},
		{.name = "json", .target = &wanted.json},
		{.name = "output", .target = &wanted.path, .take = mt_option_text, .letter = 'o'},
		{0}};
	const struct mt_command_line line = {"snapshot", help, NULL, options, 1, 1};
	int code;

	if (!mt_command_line_read(&line, argc, argv, &code))
		return code;
	if (wanted.view.top == MT_POOL_SNAPSHOT_ALL && !wanted.json && !wanted.path)
		wanted.view.top = TOP_DEFAULT;
	return take_and_show(argv[optind], &wanted);
}
