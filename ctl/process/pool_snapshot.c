/* ctl/process/pool_snapshot.c -- asks a process for the blocks of its GPU pool. See
 * pool_snapshot.h. */
#include "ctl/process/pool_snapshot.h"

#include <string.h>
#include <unistd.h>

#include "ctl/process/control_file.h"
#include "ctl/process/stats_dir.h"

#define TIMEOUT_MS 30000u
/* another mtctl may have read and removed the file that was requested here */
#define TRIES 3

/* Why the process lists no blocks, from its figures before the request. */
static enum mt_err refuse(const struct mt_stats_file *file, uint64_t error,
			  struct mt_error_reason *why)
{
	if (error != MT_ERR_NOT_AVAILABLE)
		return mt_error_because(why, MT_ERR_SYSTEM, "it could not write its blocks: %s",
					mt_error_text(error));
	if (mt_stats_file_is_off(file, "cuda"))
		return mt_error_because(why, MT_ERR_NOT_AVAILABLE,
					"MT_CUDA=off: device memory is not followed there");
	return mt_error_because(
		why, MT_ERR_NOT_AVAILABLE,
		"no CUDA in use there: no call of the driver's has reached the shim, or the shim "
		"was built without CUDA");
}

static enum mt_err request_blocks(const struct mt_target *target, struct mt_error_reason *why)
{
	const struct mt_request request = {.kind = MT_REQUEST_SNAPSHOT};
	struct mt_stats_head head;
	enum mt_err error =
		mt_control_file_exchange(&target->process, request, TIMEOUT_MS, &head, why);

	return head.snapshot.request_error ? refuse(&target->file, head.snapshot.request_error, why)
					   : error;
}

static enum mt_err read_blocks(const struct mt_process *process, struct mt_blocks_file *out,
			       struct mt_error_reason *why)
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
				  struct mt_error_reason *why)
{
	enum mt_err error = MT_ERR_NOT_AVAILABLE;

	out->target.process = *process;
	for (int i = 0; i < TRIES && error == MT_ERR_NOT_AVAILABLE; i++) {
		error = mt_target_read(process, &out->target.file, why);
		if (!error)
			error = request_blocks(&out->target, why);
		if (error)
			return error;
		error = read_blocks(process, &out->blocks, why);
	}
	if (error == MT_ERR_NOT_AVAILABLE)
		return mt_error_because(why, MT_ERR_SYSTEM,
					"others have fetched its answer each time; try again");
	/* A process that has ended since keeps its figures from before. */
	if (!error)
		(void)mt_target_read(process, &out->target.file, why);
	return error;
}

void mt_pool_snapshot_free(struct mt_pool_snapshot *snapshot)
{
	mt_blocks_file_free(&snapshot->blocks);
}
