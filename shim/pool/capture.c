#include "pool/capture.h"

#include <stdatomic.h>

#include "base/attr.h"
#include "base/lock.h"
#include "base/os.h"
#include "pool/wait.h"

#define CELLS    64  /* one each for the first half as many threads that come, the other half is shared by the rest */
#define CAPTURES 256 /* open at once and known by name; those beyond are only counted */

#define PER_THREAD_STREAM ((struct CUstream_st *)2) /* CU_STREAM_PER_THREAD */

struct cell {
	_Atomic uint32_t inside;
} __attribute__((aligned(64)));

struct capture {
	struct CUstream_st *stream;
	struct CUctx_st *context;
	pid_t thread; /* of a per-thread stream, whose handle is the same in every thread; else 0 */
	bool is_open;
};

static struct cell cells[CELLS];
static _Atomic uint32_t next_cell;
static MT_TLS struct cell *my_cell;
static MT_TLS bool is_own_cell; /* nobody else writes it: it is left by a plain store */

/* Captures open or about to begin. seq_cst with the cells: a recorder writes its cell and reads this, a beginner the other way round. */
static _Atomic uint32_t raised;

static _Atomic uint32_t ends; /* of those, contexts that end */

/* This thread is between raising the gate and lowering it again: cancelled there it would leave it raised for ever. One such
 * stretch may lie in another: in a callback of the driver's. */
static MT_TLS int cancel_state;
static MT_TLS unsigned int cancel_depth;

static struct mt_lock captures_lock = MT_LOCK(captures); /* held over nothing: protects the two below */
static struct capture captures[CAPTURES];
static uint32_t nameless;

static MT_COLD struct cell *choose_cell(void)
{
	uint32_t number = atomic_fetch_add_explicit(&next_cell, 1, memory_order_relaxed);

	is_own_cell = number < CELLS / 2;
	my_cell = &cells[is_own_cell ? number : CELLS / 2 + number % (CELLS / 2)];
	return my_cell;
}

bool mt_capture_enter(void)
{
	struct cell *cell = mt_likely(my_cell != NULL) ? my_cell : choose_cell();

#ifndef MT_POOL_NO_GATE
	/* Who asks again and again must not be seen inside by who waits for the cell to be empty. */
	if (mt_unlikely(atomic_load_explicit(&raised, memory_order_relaxed) != 0))
		return false;
#endif
	mt_lock_check_enter(MT_RANK_gate);
	atomic_fetch_add_explicit(&cell->inside, 1, memory_order_seq_cst);
#ifdef MT_POOL_NO_GATE /* for the test that must fail with it */
	return true;
#endif
	if (mt_likely(atomic_load_explicit(&raised, memory_order_seq_cst) == 0))
		return true;
	mt_capture_leave();
	return false;
}

void mt_capture_leave(void)
{
	_Atomic uint32_t *inside = &my_cell->inside;

	mt_lock_check_leave(MT_RANK_gate);
	/* release: pairs with the acquire of who begins a capture */
	if (mt_likely(is_own_cell))
		atomic_store_explicit(inside, atomic_load_explicit(inside, memory_order_relaxed) - 1, memory_order_release);
	else
		atomic_fetch_sub_explicit(inside, 1, memory_order_release);
}

bool mt_capture_is_open(void)
{
#ifdef MT_POOL_NO_GATE
	return false;
#endif
	return atomic_load_explicit(&raised, memory_order_acquire) != 0;
}

bool mt_capture_is_ending(void)
{
	return atomic_load_explicit(&ends, memory_order_acquire) != 0;
}

static void forbid_cancel(void)
{
	int before = mt_wait_uncancelled();

	if (cancel_depth++ == 0)
		cancel_state = before;
}

static void allow_cancel(void)
{
	if (--cancel_depth == 0)
		mt_wait_cancellable(cancel_state);
}

void mt_capture_before_begin(void)
{
	forbid_cancel();
	atomic_fetch_add_explicit(&raised, 1, memory_order_seq_cst);
	for (int i = 0; i < CELLS; i++)
		for (unsigned round = 0; atomic_load_explicit(&cells[i].inside, memory_order_seq_cst) != 0; round++)
			mt_wait_round(round);
}

void mt_capture_close(void)
{
	atomic_fetch_add_explicit(&ends, 1, memory_order_seq_cst);
	mt_capture_before_begin();
}

static void lower(void)
{
	atomic_fetch_sub_explicit(&raised, 1, memory_order_seq_cst);
}

void mt_capture_open(void)
{
	lower();
	atomic_fetch_sub_explicit(&ends, 1, memory_order_seq_cst);
	allow_cancel();
}

static struct capture name(struct CUstream_st *stream, bool is_ptsz)
{
	bool is_mine = stream == PER_THREAD_STREAM || (stream == NULL && is_ptsz);

	return (struct capture){is_mine ? PER_THREAD_STREAM : stream, NULL, is_mine ? mt_os_gettid() : 0, true};
}

static void keep(const struct mt_driver *driver, struct CUstream_st *stream, bool is_ptsz)
{
	struct capture capture = name(stream, is_ptsz);
	bool is_kept = false;

	if (driver->cuCtxGetCurrent && driver->cuCtxGetCurrent(&capture.context) != MT_CU_SUCCESS)
		capture.context = NULL;
	mt_lock_take(&captures_lock);
	for (int i = 0; i < CAPTURES && !is_kept; i++) {
		if (captures[i].is_open)
			continue;
		captures[i] = capture;
		is_kept = true;
	}
	if (!is_kept)
		nameless++;
	mt_lock_drop(&captures_lock);
}

void mt_capture_after_begin(const struct mt_driver *driver, struct CUstream_st *stream, bool is_ptsz, int result)
{
	if (result == MT_CU_SUCCESS)
		keep(driver, stream, is_ptsz);
	else
		lower();
	allow_cancel();
}

/* The driver still calls it capturing: an end that was refused (another thread's, a stream that was not the first). */
static bool is_capturing(const struct mt_driver *driver, struct CUstream_st *stream, bool is_ptsz, int result)
{
	int (*ask)(struct CUstream_st *, int *) = is_ptsz && driver->cuStreamIsCapturing_ptsz ?
							  driver->cuStreamIsCapturing_ptsz :
							  driver->cuStreamIsCapturing;
	int status = MT_CU_CAPTURE_NONE;

	if (result == MT_CU_SUCCESS)
		return false;
	if (!ask || ask(stream, &status) != MT_CU_SUCCESS)
		return result == MT_CU_STREAM_CAPTURE_WRONG_THREAD;
	return status != MT_CU_CAPTURE_NONE;
}

void mt_capture_after_end(const struct mt_driver *driver, struct CUstream_st *stream, bool is_ptsz, int result)
{
	struct capture ended = name(stream, is_ptsz);
	bool was_open = false;

	if (!mt_capture_is_open() || is_capturing(driver, stream, is_ptsz, result))
		return;
	mt_lock_take(&captures_lock);
	for (int i = 0; i < CAPTURES && !was_open; i++) {
		was_open = captures[i].is_open && captures[i].stream == ended.stream && captures[i].thread == ended.thread;
		if (was_open)
			captures[i].is_open = false;
	}
	if (!was_open && nameless > 0) {
		nameless--;
		was_open = true;
	}
	mt_lock_drop(&captures_lock);
	if (was_open)
		lower();
}

static void forget(const struct CUstream_st *stream, const struct CUctx_st *context)
{
	uint32_t lost = 0;

	mt_lock_take(&captures_lock);
	for (int i = 0; i < CAPTURES; i++) {
		struct capture *capture = &captures[i];

		if (!capture->is_open || (stream ? capture->stream != stream : capture->context != context))
			continue;
		capture->is_open = false;
		lost++;
	}
	mt_lock_drop(&captures_lock);
	while (lost-- > 0)
		lower();
}

void mt_capture_stream_dies(struct CUstream_st *stream)
{
	/* The default streams do not die before their context. */
	if (mt_capture_is_open() && (uintptr_t)stream > 2)
		forget(stream, NULL);
}

void mt_capture_context_dies(struct CUctx_st *context)
{
	if (mt_capture_is_open() && context)
		forget(NULL, context);
}

MT_COLD void mt_capture_fork_child(void)
{
	mt_lock_reset(&captures_lock);
	for (int i = 0; i < CAPTURES; i++)
		captures[i].is_open = false;
	nameless = 0;
	for (int i = 0; i < CELLS; i++)
		atomic_store_explicit(&cells[i].inside, 0, memory_order_relaxed);
	atomic_store_explicit(&raised, 0, memory_order_relaxed);
	atomic_store_explicit(&ends, 0, memory_order_relaxed);
}
