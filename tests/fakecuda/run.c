/* run.c -- what a worker does with a piece of work. The lock is held at its begin and end and let
 * go where it sleeps, copies or calls the program. Nothing runs in a context that has had an error,
 * and nothing touches what is not there for it. */
#include <string.h>
#include <time.h>

#include "internal.h"

static void sleep_us(unsigned int us)
{
	struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000L};

	fake_unlock();
	while (nanosleep(&time, &time) != 0)
		;
	fake_lock();
}

static void *at(uint64_t address)
{
	return (void *)(uintptr_t)address;
}

static bool check(const struct CUstream_st *stream, const char *what, uint64_t address,
		  size_t bytes, bool is_copy)
{
	if (fake_may_touch(stream->context, address, bytes, is_copy))
		return true;
	fake_misuse(stream->context, what, address);
	return false;
}

static size_t extent(size_t rows, size_t pitch, size_t bytes)
{
	return rows == 0 ? 0 : (rows - 1) * pitch + bytes;
}

static void fill_row(char *row, const struct fake_work *work)
{
	size_t i;

	if (work->width == 1) {
		memset(row, (int)work->value, work->bytes);
		return;
	}
	for (i = 0; i + work->width <= work->bytes; i += work->width)
		memcpy(row + i, &work->value, work->width);
}

static void fill(struct CUstream_st *stream, const struct fake_work *work)
{
	size_t row;

	if (!check(stream, "a fill", work->dst, extent(work->rows, work->dst_pitch, work->bytes),
		   true))
		return;
	fake_unlock();
	for (row = 0; row < work->rows; row++)
		fill_row((char *)at(work->dst) + row * work->dst_pitch, work);
	fake_lock();
}

static void copy(struct CUstream_st *stream, const struct fake_work *work)
{
	const char *src = work->staged ? work->staged : at(work->src);
	size_t row;

	if (!check(stream, "a copy", work->dst, extent(work->rows, work->dst_pitch, work->bytes),
		   true) ||
	    (!work->staged && !check(stream, "a copy", work->src,
				     extent(work->rows, work->src_pitch, work->bytes), true)))
		return;
	fake_unlock();
	for (row = 0; row < work->rows; row++)
		memmove((char *)at(work->dst) + row * work->dst_pitch, src + row * work->src_pitch,
			work->bytes);
	fake_lock();
}

static void kernel_fill(struct CUstream_st *stream, const struct fake_work *work)
{
	if (!check(stream, FAKECUDA_KERNEL_FILL, work->dst, work->bytes, false))
		return;
	fake_unlock();
	memset(at(work->dst), (int)work->value, work->bytes);
	fake_lock();
}

static void kernel_check(struct CUstream_st *stream, const struct fake_work *work)
{
	const unsigned char *bytes = at(work->dst);
	uint64_t wrong = 0;
	size_t i;

	if (!check(stream, FAKECUDA_KERNEL_CHECK, work->dst, work->bytes, false) ||
	    !check(stream, FAKECUDA_KERNEL_CHECK, work->result, sizeof(wrong), false))
		return;
	fake_unlock();
	for (i = 0; i < work->bytes; i++)
		wrong += bytes[i] != (unsigned char)work->value;
	memcpy(at(work->result), &wrong, sizeof(wrong));
	fake_lock();
}

/* The program's own function; no call of the driver is allowed in it. */
static void call_back(struct CUstream_st *stream, const struct fake_work *work)
{
	const int status = stream->context->root->sticky;

	fake_unlock();
	fake_thread.is_worker = true;
	if (work->kind == WORK_HOST)
		work->host(work->data);
	else
		work->callback(stream->is_default ? NULL : stream, status, work->data);
	fake_thread.is_worker = false;
	fake_lock();
}

static void free_block(const struct fake_work *work)
{
	if (work->block->id == work->block_id)
		fake_block_free(work->block);
}

static void run_all(struct CUstream_st *stream, const struct CUgraphExec_st *exec)
{
	unsigned int i;

	for (i = 0; i < exec->count; i++)
		fake_run(stream, &exec->works[i]);
}

static void run(struct CUstream_st *stream, const struct fake_work *work)
{
	switch (work->kind) {
	case WORK_FILL:
		fill(stream, work);
		break;
	case WORK_COPY:
		copy(stream, work);
		break;
	case WORK_KERNEL_FILL:
		kernel_fill(stream, work);
		break;
	case WORK_KERNEL_CHECK:
		kernel_check(stream, work);
		break;
	case WORK_KERNEL_ILLEGAL:
		fake_misuse(stream->context, FAKECUDA_KERNEL_ILLEGAL, 0);
		break;
	case WORK_GRAPH:
		run_all(stream, work->exec);
		break;
	default:
		break;
	}
}

void fake_run(struct CUstream_st *stream, const struct fake_work *work)
{
	const bool is_well = stream->context->root->sticky == OK;

	if (work->delay_us > 0 && is_well)
		sleep_us(work->delay_us);
	/* Bookkeeping goes on after an error, and callbacks are told of it. */
	if (work->kind == WORK_CALLBACK || (work->kind == WORK_HOST && is_well))
		call_back(stream, work);
	else if (work->kind == WORK_STAMP || work->kind == WORK_RECORD)
		fake_event_stamp(work);
	else if (work->kind == WORK_FREE)
		free_block(work);
	else if (is_well)
		run(stream, work);
}
