/* ctl/cmd/snapshot.c -- `mtctl snapshot`: the blocks of a process's GPU pool. */
#include "ctl/process/pool_snapshot.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ctl/process/control_file.h"
#include "ctl/command.h"
#include "ctl/output/outfile.h"
#include "ctl/process/stats_dir.h"
#include "ctl/output/text.h"

#define TIMEOUT_MS 30000u
/* another mtctl may have fetched the file that we have asked for */
#define TRIES       3
#define TOP_DEFAULT 10

static const char help[] = "Every block of device memory that the shim knows: what cuMemAlloc has "
			   "handed out, and what it keeps for\n"
			   "the next. live: the program has it; exported: the same, and others "
			   "than this process know its address;\n"
			   "pending: freed, and work that may use it still runs; idle: freed and "
			   "ready. The program goes on\n"
			   "meanwhile; the driver is not asked. Over a framework with a cache of "
			   "its own (mode account) a block is\n"
			   "a piece of that cache, and what is free inside of it is not known "
			   "here. Other kinds of memory are\n"
			   "sums without blocks. Exit code 0: printed, 1: asleep, or no CUDA to be "
			   "seen in that process.\n\n"
			   "  --device=N   only this device\n"
			   "  --top=N      list the N largest blocks (10; with --json and -o all)\n"
			   "  --json       one object\n"
			   "  -o FILE      write the JSON to FILE, for mtctl plot --gpu\n";

/* ---- asking ---- */

static bool is_off(const struct mt_stats_file *file)
{
	for (size_t i = 0; i < file->head.settings_count && i < MT_SETTINGS_COUNT; i++)
		if (strcmp(file->settings[i].name, "cuda") == 0)
			return strcmp(file->settings[i].value, "off") == 0;
	return false;
}

/* Why it has no blocks to tell of; its figures are those from before it was asked. */
static enum mt_err refuse(const struct mt_stats_file *file, uint64_t error, struct mt_why *why)
{
	if (error != MT_ERR_NOT_AVAILABLE)
		return mt_error_because(why, MT_ERR_SYSTEM, "it could not write its blocks: %s",
					mt_error_text(error));
	if (is_off(file))
		return mt_error_because(why, MT_ERR_NOT_AVAILABLE,
					"MT_CUDA=off: device memory is not followed there");
	return mt_error_because(
		why, MT_ERR_NOT_AVAILABLE,
		"no CUDA in use there: no call of the driver's has reached the shim, or the shim "
		"was built without CUDA");
}

static enum mt_err ask(const struct mt_target *target, struct mt_why *why)
{
	const struct mt_request request = {.kind = MT_REQUEST_SNAPSHOT};
	struct mt_stats_head head;
	struct mt_control_call call;
	enum mt_err error = mt_control_file_send(&target->process, request, TIMEOUT_MS, &call, why);

	if (!error)
		error = mt_control_file_wait(&call, &head, why);
	if (!error && head.snapshot.request_error)
		error = refuse(&target->file, head.snapshot.request_error, why);
	return error;
}

static enum mt_err read_blocks(const struct mt_process *process, struct mt_blocks_file *out,
			       struct mt_why *why)
{
	int fd;
	enum mt_err error = mt_stats_dir_open(process, MT_STATS_DIR_BLOCKS, &fd, why);

	if (error)
		return error;
	error = mt_blocks_file_read(fd, out, why);
	close(fd);
	return error;
}

enum mt_err mt_pool_snapshot_take(const struct mt_process *process, struct mt_pool_snapshot *out,
				  struct mt_why *why)
{
	enum mt_err error = MT_ERR_NOT_AVAILABLE;

	out->target.process = *process;
	for (int i = 0; i < TRIES && error == MT_ERR_NOT_AVAILABLE; i++) {
		error = mt_target_read(process, &out->target.file, why);
		if (!error)
			error = ask(&out->target, why);
		if (error)
			return error;
		error = read_blocks(process, &out->blocks, why);
	}
	if (error == MT_ERR_NOT_AVAILABLE)
		return mt_error_because(why, MT_ERR_SYSTEM,
					"others have fetched its answer each time; try again");
	/* Of a process that has ended since, the figures from before stand. */
	if (!error)
		(void)mt_target_read(process, &out->target.file, why);
	return error;
}

void mt_pool_snapshot_free(struct mt_pool_snapshot *snapshot)
{
	mt_blocks_file_free(&snapshot->blocks);
}

/* ---- showing ---- */

struct wanted {
	struct mt_pool_snapshot_view view;
	bool json;
	const char *path; /* NULL: standard output */
};

static int write_file(const struct mt_pool_snapshot *snapshot, const struct wanted *wanted)
{
	struct mt_why why;
	FILE *file = NULL;
	int fd = -1;
	enum mt_err error = mt_outfile_open(wanted->path, 0600, &fd, &why);

	if (!error) {
		file = mt_error_check_memory(fdopen(fd, "w"));
		mt_pool_snapshot_write_json(snapshot, &wanted->view, file);
		if (fflush(file) != 0 || ferror(file))
			error = mt_error_because(&why, MT_ERR_SYSTEM, "%.200s: %s", wanted->path,
						 strerror(errno));
		fclose(file);
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
		mt_pool_snapshot_print(snapshot, &wanted->view);
	return MT_EXIT_OK;
}

static int take_and_show(const char *pid, const struct wanted *wanted)
{
	struct mt_pool_snapshot snapshot = {0};
	struct mt_process process;
	struct mt_why why;
	int code = mt_target_find(pid, &process);
	enum mt_err error;

	if (code != MT_EXIT_OK)
		return code;
	error = mt_pool_snapshot_take(&process, &snapshot, &why);
	if (error) {
		mt_error_say("process %d (%s): %s", (int)process.pid, process.comm, why.text);
		return mt_error_exit(error);
	}
	code = show(&snapshot, wanted);
	mt_pool_snapshot_free(&snapshot);
	return code;
}

static bool parse_number(const char *text, const char *what, uint64_t *out)
{
	if (mt_text_parse_u64(text, out))
		return true;
	mt_error_say("'%s' is not %s", text, what);
	return false;
}

static bool parse_option(int option, const char *text, struct wanted *wanted)
{
	switch (option) {
	case 'd':
		return parse_number(text, "the number of a device", &wanted->view.device);
	case 't':
		return parse_number(text, "a number of blocks", &wanted->view.top);
	case 'j':
		wanted->json = true;
		return true;
	case 'o':
		wanted->path = text;
		return true;
	default:
		return false;
	}
}

int mt_command_snapshot(int argc, char **argv)
{
	static const struct option options[] = {
		{"device", required_argument, NULL, 'd'}, {"top", required_argument, NULL, 't'},
		{"json", no_argument, NULL, 'j'},         {"output", required_argument, NULL, 'o'},
		{"help", no_argument, NULL, 'h'},         {0}};
	struct wanted wanted = {.view = {MT_POOL_SNAPSHOT_ALL, MT_POOL_SNAPSHOT_ALL}};
	int option;

	while ((option = mt_command_option(argc, argv, "ho:", options)) != -1) {
		if (option == 'h')
			return mt_command_help("snapshot", help);
		if (!parse_option(option, optarg, &wanted))
			return MT_EXIT_USAGE;
	}
	if (optind + 1 != argc)
		return mt_command_misused("snapshot");
	if (wanted.view.top == MT_POOL_SNAPSHOT_ALL && !wanted.json && !wanted.path)
		wanted.view.top = TOP_DEFAULT;
	return take_and_show(argv[optind], &wanted);
}
