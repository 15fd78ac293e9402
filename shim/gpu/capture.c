#include "gpu/capture.h"

#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/lock.h"
#include "sys/os.h"
#include "gpu/blocks.h"

#define PER_THREAD_STREAM ((struct CUstream_st *)2) /* CU_STREAM_PER_THREAD */

struct mt_capture {
	struct mt_capture *next; /* first: the slab's link */
	/* PER_THREAD_STREAM, the same handle in every thread, is that of `thread` */
	struct CUstream_st *stream;
	struct CUctx_st *context;
	pid_t thread; /* the thread that began it */
};

/* Threads within the gate. One count for all, as of the context's lock, which a pair takes too. */
static _Atomic uint32_t inside_count __attribute__((aligned(64)));

/* Captures open or about to begin, and contexts that end. seq_cst with inside_count: a thread that
 * enters writes that and reads this, a thread that closes does the opposite. */
static _Atomic uint32_t closed_count;

/* protects the list; held over bare system calls */
static struct mt_lock captures_lock = MT_LOCK(captures);
static struct mt_capture *captures;
static struct mt_slab capture_slab = MT_SLAB(struct mt_capture);

bool mt_capture_gate_enter(void)
{
	/* A thread that asks again and again must not keep the count above zero. */
	if (mt_unlikely(mt_load_relaxed(&closed_count) != 0))
		return false;
	mt_lock_check_enter(MT_RANK_gate);
	atomic_fetch_add(&inside_count, 1);
	if (mt_likely(mt_load_seq(&closed_count) == 0))
		return true;
	mt_capture_gate_leave();
	return false;
}

void mt_capture_gate_leave(void)
{
	mt_assert(mt_load_relaxed(&inside_count) > 0);
	mt_lock_check_leave(MT_RANK_gate);
	/* release: pairs with the acquire of the thread that closes */
	atomic_fetch_sub_explicit(&inside_count, 1, memory_order_release);
}

bool mt_capture_is_open(void)
{
	return mt_load_acquire(&closed_count) != 0;
}

void mt_capture_gate_close(void)
{
	atomic_fetch_add(&closed_count, 1);
	for (unsigned round = 0; mt_load_seq(&inside_count) != 0; round++)
		mt_driver_wait_round(round);
}

void mt_capture_gate_open(void)
{
	mt_assert(mt_load_relaxed(&closed_count) > 0);
	atomic_fetch_sub(&closed_count, 1);
}

static struct mt_capture describe(struct CUstream_st *stream, bool is_ptsz)
{
	bool is_mine = stream == PER_THREAD_STREAM || (stream == NULL && is_ptsz);

	return (struct mt_capture){.stream = is_mine ? PER_THREAD_STREAM : stream,
				   .thread = mt_os_gettid()};
}

/* The context of the stream; of a default stream, the current one. NULL: not known. */
static struct CUctx_st *context_of(const struct mt_driver *driver, struct CUstream_st *stream)
{
	bool is_default = (uintptr_t)stream <= (uintptr_t)PER_THREAD_STREAM;
	struct CUctx_st *context = NULL;

	if (!is_default && driver->cuStreamGetCtx &&
	    driver->cuStreamGetCtx(stream, &context) == MT_CU_SUCCESS)
		return context;
	if (driver->cuCtxGetCurrent && driver->cuCtxGetCurrent(&context) == MT_CU_SUCCESS)
		return context;
	return NULL;
}

static void insert(struct mt_capture *capture)
{
	mt_assert(mt_capture_is_open()); /* it keeps the gate closed */
	mt_lock_lock(&captures_lock);
	capture->next = captures;
	captures = capture;
	mt_lock_unlock(&captures_lock);
}

void mt_capture_after_begin(const struct mt_driver *driver, struct CUstream_st *stream,
			    bool is_ptsz, int result)
{
	struct mt_capture *capture;

	if (result != MT_CU_SUCCESS) {
		mt_capture_gate_open();
		return;
	}
	capture = mt_slab_alloc(&capture_slab);
	/* Without memory for a record its end cannot be seen: the gate stays closed, and nothing
	 * more is pooled. */
	if (!capture)
		return;
	*capture = describe(stream, is_ptsz);
	capture->context = context_of(driver, capture->stream);
	insert(capture);
}

/* ---- captures end ---- */

/* Returns whether a capture is one of the context, or else of the stream, of `ended`. */
static bool has_ended(const struct mt_capture *capture, const struct mt_capture *ended)
{
	if (ended->context)
		return capture->context == ended->context;
	return capture->stream == ended->stream &&
	       (ended->stream != PER_THREAD_STREAM || capture->thread == ended->thread);
}

/* Takes out the captures that `ended` stands for; returns them. */
static struct mt_capture *take_out(const struct mt_capture *ended)
{
	struct mt_capture *gone = NULL, *capture;

	mt_lock_lock(&captures_lock);
	for (struct mt_capture **link = &captures; (capture = *link);) {
		if (!has_ended(capture, ended)) {
			link = &capture->next;
			continue;
		}
		*link = capture->next;
		capture->next = gone;
		gone = capture;
	}
	mt_lock_unlock(&captures_lock);
	return gone;
}

/* Opens the gate once for each capture of the list. */
static void end_captures(struct mt_capture *gone)
{
	struct mt_capture *next;

	for (; gone; gone = next) {
		next = gone->next;
		mt_slab_free(&capture_slab, gone);
		mt_capture_gate_open();
	}
}

int mt_capture_status(const struct mt_driver *driver, struct CUstream_st *stream, bool is_ptsz)
{
	int (*ask)(struct CUstream_st *, int *) = is_ptsz && driver->cuStreamIsCapturing_ptsz
							  ? driver->cuStreamIsCapturing_ptsz
							  : driver->cuStreamIsCapturing;
	int status;

	return ask && ask(stream, &status) == MT_CU_SUCCESS ? status : MT_CAPTURE_UNKNOWN;
}

void mt_capture_after_end(const struct mt_driver *driver, struct CUstream_st *stream, bool is_ptsz,
			  int result)
{
	const struct mt_capture ended = describe(stream, is_ptsz);

	/* The driver refuses the end of another thread's capture, and of one that began with
	 * another stream. Unknown, as with a broken or no current context: it still captures. A
	 * gate that stays closed costs the cache, an open one would spoil the capture. */
	if (mt_capture_is_open() &&
	    (result == MT_CU_SUCCESS ||
	     mt_capture_status(driver, stream, is_ptsz) == MT_CU_CAPTURE_NONE))
		end_captures(take_out(&ended));
}

struct mt_capture *mt_capture_stream_destroy_begin(struct CUstream_st *stream)
{
	const struct mt_capture dying = {.stream = stream};

	return mt_capture_is_open() ? take_out(&dying) : NULL;
}

void mt_capture_stream_destroy_end(struct mt_capture *taken, int result)
{
	mt_assert(!taken || !taken->next);
	if (result == MT_CU_SUCCESS)
		end_captures(taken);
	else if (taken)
		insert(taken);
}

void mt_capture_forget_context(struct CUctx_st *context)
{
	const struct mt_capture died = {.context = context};

	if (mt_capture_is_open() && context)
		end_captures(take_out(&died));
}
