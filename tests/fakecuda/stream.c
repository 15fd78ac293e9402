/* stream.c -- streams as queues, a worker thread each from the first work on, and waiting for work.
 * What is waited for is named by a stream and a number of its queue; the numbers never go back, not
 * even when a stream's place is used again, so a name stays good as long as the process. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

pthread_mutex_t *fake_mutex(void);

static pthread_cond_t done = PTHREAD_COND_INITIALIZER; /* some work is: for all who wait */
static unsigned int waiters;

void fake_notify(void)
{
	if (waiters > 0)
		pthread_cond_broadcast(&done);
}

void fake_wait_change(void)
{
	waiters++;
	pthread_cond_wait(&done, fake_mutex());
	waiters--;
}

void fake_deps_add(struct fake_deps *deps, struct CUstream_st *stream, uint64_t seq)
{
	unsigned int i;

	if (stream->completed >= seq)
		return;
	for (i = 0; i < deps->count; i++)
		if (deps->at[i].stream == stream) {
			if (deps->at[i].seq < seq)
				deps->at[i].seq = seq;
			return;
		}
	if (deps->count == deps->room) {
		deps->room = deps->room ? deps->room * 2 : 4;
		deps->at = realloc(deps->at, deps->room * sizeof(*deps->at));
		if (deps->at == NULL)
			abort();
	}
	deps->at[deps->count++] = (struct fake_dep){stream, seq};
}

void fake_deps_add_all(struct fake_deps *deps, const struct fake_deps *more)
{
	unsigned int i;

	for (i = 0; i < more->count; i++)
		fake_deps_add(deps, more->at[i].stream, more->at[i].seq);
}

void fake_deps_clear(struct fake_deps *deps)
{
	free(deps->at);
	memset(deps, 0, sizeof(*deps));
}

bool fake_deps_done(struct fake_deps *deps)
{
	while (deps->count > 0) {
		const struct fake_dep *last = &deps->at[deps->count - 1];

		if (last->stream->completed < last->seq)
			return false;
		deps->count--;
	}
	return true;
}

void fake_wait(struct fake_deps *deps)
{
	while (!fake_deps_done(deps))
		fake_wait_change();
	fake_deps_clear(deps);
}

void fake_wait_stream(struct CUstream_st *stream)
{
	const uint64_t seq = stream->submitted;

	while (stream->completed < seq)
		fake_wait_change();
}

static void context_deps(const struct CUctx_st *context, bool blocking_only, struct fake_deps *deps)
{
	struct CUstream_st *stream;

	for (stream = context->streams; stream; stream = stream->next)
		if (!blocking_only || (stream->flags & 1) == 0)
			fake_deps_add(deps, stream, stream->submitted);
}

void fake_context_deps(struct CUctx_st *context, bool blocking_only, struct fake_deps *deps)
{
	const struct CUctx_st *green;

	context_deps(context, blocking_only, deps);
	for (green = fake_contexts; green && !context->is_green; green = green->next)
		if (green->is_green && green->root == context)
			context_deps(green, blocking_only, deps);
}

void fake_context_event_deps(struct CUctx_st *context, struct fake_deps *deps)
{
	if (fake_settings.green_seen)
		fake_context_deps(context, false, deps);
	else
		context_deps(context, false, deps);
}

void fake_work_drop(struct fake_work *work)
{
	free(work->staged);
	if (work->kind == WORK_GRAPH)
		fake_exec_unref(work->exec);
}

static void take_away(struct CUstream_st *stream)
{
	struct CUstream_st **link;

	for (link = &stream->context->streams; *link != stream; link = &(*link)->next)
		;
	*link = stream->next;
	fake_object_free(FAKE_STREAM, stream);
	fake_notify();
}

static void *work_off(void *argument)
{
	struct CUstream_st *stream = argument;
	struct fake_op *op;

	fake_lock();
	for (;;) {
		op = stream->head;
		if (op == NULL) {
			if (stream->is_dying)
				break;
			pthread_cond_wait(&stream->wake, fake_mutex());
			continue;
		}
		while (!fake_deps_done(&op->deps))
			fake_wait_change();
		fake_run(stream, &op->work);
		stream->head = op->next;
		if (stream->head == NULL)
			stream->tail = NULL;
		stream->completed++;
		fake_work_drop(&op->work);
		fake_deps_clear(&op->deps);
		free(op);
		fake_notify();
	}
	take_away(stream);
	fake_unlock();
	return NULL;
}

static bool start_worker(struct CUstream_st *stream)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int failed;

	/* Signals are the program's own threads' business. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, 256 << 10);
	failed = pthread_create(&thread, &attributes, work_off, stream);
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	stream->has_worker = !failed;
	return !failed;
}

/* Legacy work waits for the blocking streams before it, they for the legacy work before them. */
static void add_implicit(struct CUstream_st *stream, struct fake_deps *deps)
{
	struct CUctx_st *context = stream->context;

	fake_deps_done(&context->barrier);
	fake_deps_add_all(deps, &context->barrier);
	if (context->is_green) {
		fake_deps_done(&context->root->barrier);
		fake_deps_add_all(deps, &context->root->barrier);
	}
	if (stream->flags & 1)
		return;
	if (stream == context->legacy)
		context_deps(context, true, deps);
	else if (context->legacy)
		fake_deps_add(deps, context->legacy, context->legacy->submitted);
}

int fake_submit_after(struct CUstream_st *stream, const struct fake_work *work,
		      const struct fake_deps *deps)
{
	struct fake_op *op;

	if (!stream->has_worker && !start_worker(stream))
		return OUT_OF_MEMORY;
	op = fake_alloc(sizeof(*op));
	op->work = *work;
	add_implicit(stream, &op->deps);
	if (deps != NULL)
		fake_deps_add_all(&op->deps, deps);
	if (stream->tail)
		stream->tail->next = op;
	else
		stream->head = op;
	stream->tail = op;
	stream->submitted++;
	pthread_cond_signal(&stream->wake);
	return OK;
}

int fake_submit(struct CUstream_st *stream, const struct fake_work *work)
{
	struct fake_work dropped = *work;
	int result;

	if (stream->capture != NULL) {
		result = fake_capture_work(stream, work);
	} else if (stream == stream->context->legacy &&
		   fake_capture_blocks_legacy(stream->context)) {
		fake_capture_spoil_context(stream->context);
		result = CAPTURE_IMPLICIT;
	} else {
		result = fake_submit_after(stream, work, NULL);
	}
	if (result != OK)
		fake_work_drop(&dropped);
	return result;
}

struct CUstream_st *fake_stream_make(struct CUctx_st *context, unsigned int flags, int priority)
{
	struct CUstream_st *stream = fake_object_new(FAKE_STREAM, sizeof(*stream));

	if (stream == NULL)
		return NULL;
	stream->context = context;
	stream->thread = NULL;
	stream->flags = flags;
	stream->priority = priority;
	stream->is_default = stream->is_dying = stream->has_worker = false;
	stream->head = stream->tail = NULL;
	stream->capture = NULL;
	stream->tails = NULL;
	stream->tail_count = 0;
	stream->next = context->streams;
	context->streams = stream;
	fake_ledger.streams++;
	return stream;
}

/* What is queued is still done, and still seen by who waits for the context; then the worker ends
 * and takes it away. */
void fake_stream_end(struct CUstream_st *stream)
{
	if (stream->is_dying)
		return;
	fake_capture_stream_ends(stream);
	if (stream->context->legacy == stream)
		stream->context->legacy = NULL;
	if (!stream->is_default)
		fake_ledger.streams--;
	stream->is_dying = true;
	if (stream->has_worker)
		pthread_cond_signal(&stream->wake);
	else
		take_away(stream);
}

struct CUstream_st *fake_stream_legacy(struct CUctx_st *context)
{
	if (context->legacy == NULL) {
		context->legacy = fake_stream_make(context, 0, 0);
		if (context->legacy == NULL)
			return NULL;
		context->legacy->is_default = true;
		fake_ledger.streams--;
	}
	return context->legacy;
}

static struct CUstream_st *per_thread(struct CUctx_st *context)
{
	struct CUstream_st *stream;

	for (stream = context->streams; stream; stream = stream->next)
		if (stream->thread == &fake_thread && !stream->is_dying)
			return stream;
	stream = fake_stream_make(context, 0, 0);
	if (stream == NULL)
		return NULL;
	stream->is_default = true;
	stream->thread = &fake_thread;
	fake_ledger.streams--;
	return stream;
}

int fake_stream_of(struct CUctx_st *context, struct CUstream_st *handle, enum fake_fn fn,
		   struct CUstream_st **out)
{
	if (handle == NULL)
		*out = fake_rows[fn].per_thread ? per_thread(context) : fake_stream_legacy(context);
	else if (handle == (struct CUstream_st *)1)
		*out = fake_stream_legacy(context);
	else if (handle == (struct CUstream_st *)2)
		*out = per_thread(context);
	else if (fake_object_is(FAKE_STREAM, handle) && !handle->is_dying)
		*out = handle;
	else
		return INVALID_HANDLE;
	return *out ? OK : OUT_OF_MEMORY;
}
