/* pool_model.h -- a reference model for the pool, not a driver: it knows which block may be handed
 * out when, and checks the pool against that. Threads allocate, free each other's blocks and
 * enqueue work on a device that is host memory; a thread does the work some time later. Each owner
 * of a block writes a new stamp into it, and work knows the stamp with which it was enqueued: work
 * that finds another stamp has touched a block that was handed out too early (stale). Beside that a
 * worker ticks and trims, captures open and close, a context ends and begins again, and
 * out-of-memory errors come at random. Used by tests/gpu/test_pool_race.c and
 * tests/stress/pool_model.c. The functions of a driver that it needs are its own, since ten million
 * operations a minute need ones without a ledger or a queue for each stream. */
#ifndef MT_TEST_POOL_MODEL_H
#define MT_TEST_POOL_MODEL_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "sys/os.h"
#include "gpu/capture.h"
#include "gpu/pool.h"
#include "pool_settings.h"

#define MODEL_CONTEXTS 4 /* the last one dies again and again */
#define MODEL_QUEUE    1024u
#define MODEL_NODES    65536u
#define MODEL_NODE     512u
#define MODEL_LIVE     64u
#define MODEL_EVENTS   16384u
#define MODEL_THREADS  16

struct model_options {
	uint64_t operations; /* in all threads together */
	int threads;
	bool captures, deaths, worker, ooms;
	bool lies; /* all events are done at once, which the model must find */
};

struct model_result {
	uint64_t operations, stale, wrongs, ledger_blocks, ledger_events, hits, driver_allocs,
		captures, deaths, retries, work;
};

/* A device block: its memory is this much of it. */
struct model_node {
	_Atomic uint64_t stamp;
	_Atomic uint32_t owned; /* the program has it */
	_Atomic uint32_t in_ledger;
	_Atomic(struct CUctx_st *) context;
};
struct model_work {
	struct model_node *node;
	uint64_t stamp;
};
struct CUctx_st {
	pthread_mutex_t lock;
	bool is_alive, is_closing;
	uint64_t issued, done;
	struct model_work queue[MODEL_QUEUE];
};
struct CUevent_st {
	_Atomic(struct CUctx_st *) context;
	_Atomic uint64_t mark;
	_Atomic bool is_alive;
};

static struct model {
	char *memory;
	struct CUctx_st contexts[MODEL_CONTEXTS];
	struct CUevent_st events[MODEL_EVENTS];
	pthread_mutex_t lock; /* of the two stacks of holes */
	uint32_t node_holes[MODEL_NODES], nodes_left, event_holes[MODEL_EVENTS], events_left;
	_Atomic uint64_t next_stamp, stale, wrongs, driver_allocs, captures_count, deaths_count,
		done, work;
	_Atomic bool is_over, is_capturing;
	_Atomic(struct model_node *) mailbox[64];
	struct model_options options;
	const struct mt_driver *driver;
} model;

static __thread struct CUctx_st *model_current[4];
static __thread int model_depth;
static __thread uint64_t model_seed;

static uint64_t model_random(void)
{
	model_seed ^= model_seed << 13;
	model_seed ^= model_seed >> 7;
	model_seed ^= model_seed << 17;
	return model_seed;
}

static void model_wrong(const char *what)
{
	if (atomic_fetch_add(&model.wrongs, 1) < 5)
		fprintf(stderr, "wrong: %s\n", what);
}

static __thread int model_mode; /* of captures */

static int model_exchange(int *mode)
{
	int before = model_mode;

	model_mode = *mode;
	*mode = before;
	return MT_CU_SUCCESS;
}

static void model_unsafe(const char *what)
{
	if (atomic_load(&model.is_capturing))
		model_wrong(what);
}

/* The device does the oldest of a context's work. Its lock is held. */
static void model_do(struct CUctx_st *context, uint64_t most)
{
	while (context->done < context->issued && most-- > 0) {
		struct model_work *work = &context->queue[context->done % MODEL_QUEUE];

		if (atomic_load(&work->node->stamp) != work->stamp)
			atomic_fetch_add(&model.stale, 1);
		context->done++;
	}
}

static void model_drain(struct CUctx_st *context)
{
	pthread_mutex_lock(&context->lock);
	model_do(context, MODEL_QUEUE);
	pthread_mutex_unlock(&context->lock);
}

static void model_enqueue(struct CUctx_st *context, struct model_node *node)
{
	pthread_mutex_lock(&context->lock);
	if (context->is_alive && !context->is_closing) {
		if (context->issued - context->done == MODEL_QUEUE)
			model_do(context, MODEL_QUEUE / 8);
		context->queue[context->issued++ % MODEL_QUEUE] =
			(struct model_work){node, atomic_load(&node->stamp)};
		atomic_fetch_add(&model.work, 1);
	}
	pthread_mutex_unlock(&context->lock);
}

static struct model_node *model_node_at(uint32_t number)
{
	return (struct model_node *)(void *)(model.memory + (size_t)MODEL_NODE * number);
}

/* ---- the driver ---- */

static int model_alloc(uint64_t *dptr, size_t bytes)
{
	struct CUctx_st *context = model_current[model_depth];
	struct model_node *node = NULL;

	(void)bytes;
	atomic_fetch_add(&model.driver_allocs, 1);
	if (!context || (model.options.ooms && model_random() % 5000 == 0))
		return context ? MT_CU_OUT_OF_MEMORY : MT_CU_INVALID_CONTEXT;
	pthread_mutex_lock(&model.lock);
	if (model.nodes_left > 0) {
		node = model_node_at(model.node_holes[--model.nodes_left]);
		atomic_store(&node->context, context);
		if (atomic_exchange(&node->in_ledger, 1) != 0)
			model_wrong("a block twice in the ledger");
	}
	pthread_mutex_unlock(&model.lock);
	if (!node)
		return MT_CU_OUT_OF_MEMORY;
	*dptr = (uint64_t)(uintptr_t)node;
	return MT_CU_SUCCESS;
}

static int model_free(uint64_t dptr)
{
	struct model_node *node = (struct model_node *)(uintptr_t)dptr;

	/* As the driver: not before all is done that may touch it. */
	for (int i = 0; i < MODEL_CONTEXTS; i++)
		model_drain(&model.contexts[i]);
	if (atomic_load(&node->owned))
		model_wrong("the driver frees what the program has");
	if (atomic_exchange(&node->in_ledger, 0) != 1) {
		model_wrong("the driver frees what it does not have");
		return MT_CU_INVALID_VALUE;
	}
	pthread_mutex_lock(&model.lock);
	model.node_holes[model.nodes_left++] =
		(uint32_t)(((char *)node - model.memory) / MODEL_NODE);
	pthread_mutex_unlock(&model.lock);
	return MT_CU_SUCCESS;
}

static int model_get_current(struct CUctx_st **context)
{
	*context = model_current[model_depth];
	return 0;
}
static int model_device(int *device)
{
	*device = (int)(model_current[model_depth] - model.contexts);
	return 0;
}
static int model_push(struct CUctx_st *context)
{
	pthread_mutex_lock(&context->lock);
	if (!context->is_alive)
		model_wrong("a dead context is pushed");
	pthread_mutex_unlock(&context->lock);
	model_current[++model_depth] = context;
	return 0;
}
static int model_pop(struct CUctx_st **context)
{
	*context = model_current[model_depth--];
	return 0;
}

static int model_create(struct CUevent_st **event, unsigned int flags)
{
	uint32_t hole = MODEL_EVENTS;

	(void)flags;
	pthread_mutex_lock(&model.lock);
	if (model.events_left > 0) {
		hole = model.event_holes[--model.events_left];
		*event = &model.events[hole];
		atomic_store(&(*event)->context, model_current[model_depth]);
		atomic_store(&(*event)->is_alive, true);
	}
	pthread_mutex_unlock(&model.lock);
	return hole == MODEL_EVENTS ? MT_CU_OUT_OF_MEMORY : MT_CU_SUCCESS;
}

static int model_record(struct CUctx_st *context, struct CUevent_st *event)
{
	model_unsafe("an event is recorded during a capture");
	pthread_mutex_lock(&context->lock);
	if (!context->is_alive || !atomic_load(&event->is_alive) ||
	    atomic_load(&event->context) != context)
		model_wrong("a dead or foreign event is recorded");
	atomic_store(&event->mark, context->issued);
	pthread_mutex_unlock(&context->lock);
	return 0;
}

static int model_query(struct CUevent_st *event)
{
	struct CUctx_st *context = atomic_load(&event->context);
	bool is_done;

	if (model_mode != MT_CU_CAPTURE_RELAXED)
		model_unsafe("an event is queried during a capture");
	pthread_mutex_lock(&context->lock);
	if (!context->is_alive || !atomic_load(&event->is_alive))
		model_wrong("a dead event is queried");
	is_done = model.options.lies || context->done >= atomic_load(&event->mark);
	pthread_mutex_unlock(&context->lock);
	return is_done ? MT_CU_SUCCESS : MT_CU_NOT_READY;
}

/* The device does the context's work. */
static int model_synchronize(struct CUevent_st *event)
{
	model_drain(atomic_load(&event->context));
	return MT_CU_SUCCESS;
}

/* ---- the program ---- */

static bool model_get(struct model_node **out, struct CUctx_st *context)
{
	/* Sizes that come again, some of which may stand in for each other. */
	static const size_t sizes[] = {512,     4096,          4097,    65536,
				       1 << 20, (1 << 20) + 1, 3 << 20, (3 << 20) + 70000,
				       50 << 20};
	struct model_node *node;
	uint64_t dptr;
	int result;

	model_current[0] = context;
	result = mt_pool_alloc(&dptr, sizes[model_random() % 9]);
	if (result != MT_CU_SUCCESS) {
		if (result != MT_CU_OUT_OF_MEMORY)
			model_wrong("an odd answer to an allocation");
		return false;
	}
	node = (struct model_node *)(uintptr_t)dptr;
	if (atomic_exchange(&node->owned, 1) != 0)
		model_wrong("a block is handed out twice");
	if (atomic_load(&node->context) != context)
		model_wrong("a block of another context is handed out");
	atomic_store(&node->stamp, atomic_fetch_add(&model.next_stamp, 1));
	*out = node;
	return true;
}

static void model_put(struct model_node *node)
{
	int result;

	if (model_random() % 1000 == 0)
		mt_pool_mark_non_recyclable((uint64_t)(uintptr_t)node);
	atomic_store(&node->owned, 0);
	if (model_random() % 16) /* else the driver frees it */
		model_current[0] = atomic_load(&node->context);
	if (!mt_pool_free((uint64_t)(uintptr_t)node, &result) || result != MT_CU_SUCCESS)
		model_wrong("an odd answer to a free");
}

static void model_step(struct model_node **live, unsigned *count)
{
	uint64_t choice = model_random() % 16;

	if (choice < 6 && *count < MODEL_LIVE) {
		*count += model_get(&live[*count],
				    &model.contexts[model_random() % (MODEL_CONTEXTS - 1)]);
	} else if (choice < 11 && *count > 0) {
		unsigned victim = (unsigned)(model_random() % *count);

		model_put(live[victim]);
		live[victim] = live[--*count];
	} else if (choice < 12 && *count > 0) {
		/* Into another thread's hands, in exchange for what lies there. */
		unsigned slot = (unsigned)(model_random() % *count);
		struct model_node *got =
			atomic_exchange(&model.mailbox[model_random() % 64], live[slot]);

		live[slot] = got;
		if (!got)
			live[slot] = live[--*count];
	} else if (*count > 0) {
		unsigned chosen = (unsigned)(model_random() % *count);

		model_enqueue(atomic_load(&live[chosen]->context), live[chosen]);
	}
}

static void *model_program(void *data)
{
	uint64_t mine = model.options.operations / (uint64_t)model.options.threads;
	struct model_node *live[MODEL_LIVE];
	unsigned count = 0;

	model_seed = 0x9e3779b97f4a7c15ull * (uint64_t)(1 + (intptr_t)data);
	for (uint64_t i = 0; i < mine; i++) {
		model_step(live, &count);
		if (i % 1024 == 0)
			atomic_fetch_add(&model.done, i == 0 ? 0 : 1024);
	}
	while (count > 0)
		model_put(live[--count]);
	return NULL;
}

static void model_nap(long us)
{
	struct timespec span = {.tv_nsec = us * 1000};

	(void)nanosleep(&span, NULL);
}

static void *model_gpu(void *data)
{
	(void)data;
	while (!atomic_load(&model.is_over)) {
		for (int i = 0; i < MODEL_CONTEXTS; i++) {
			pthread_mutex_lock(&model.contexts[i].lock);
			model_do(&model.contexts[i], 64);
			pthread_mutex_unlock(&model.contexts[i].lock);
		}
		model_nap(20);
	}
	return NULL;
}

static void *model_worker(void *data)
{
	uint64_t next_ms;

	(void)data;
	for (unsigned round = 1; !atomic_load(&model.is_over); round++) {
		struct mt_pool_usage usage;

		(void)mt_pool_tick(mt_os_now_ns() + (round % 8 == 0 ? 10 * MT_NS_PER_S : 0), 16,
				   &next_ms);
		if (round % 64 == 0)
			(void)mt_pool_trim(MT_ANY_DEVICE);
		mt_pool_usage((int)(round % MODEL_CONTEXTS), &usage);
		if (usage.allocated_bytes >> 50 || usage.idle_bytes >> 50 ||
		    usage.pending_bytes >> 50)
			model_wrong("a figure under zero");
		model_nap(300);
	}
	return NULL;
}

static void *model_capturer(void *data)
{
	struct CUstream_st *stream = (struct CUstream_st *)4096;

	(void)data;
	for (unsigned round = 1; !atomic_load(&model.is_over); round++) {
		mt_capture_gate_close();
		atomic_store(&model.is_capturing, true);
		mt_capture_after_begin(model.driver, stream, false, MT_CU_SUCCESS);
		model_nap(round % 8 == 0 ? 1000 : 10);
		atomic_store(&model.is_capturing, false);
		mt_capture_after_end(model.driver, stream, false, MT_CU_SUCCESS);
		atomic_fetch_add(&model.captures_count, 1);
		model_nap(3000);
	}
	return NULL;
}

/* The last context: used, synchronised, destroyed, born again with the same handle. Its blocks are
 * this thread's alone. */
static void model_die(struct CUctx_st *context)
{
	pthread_mutex_lock(&context->lock);
	context->is_closing = true;
	model_do(context, MODEL_QUEUE);
	pthread_mutex_unlock(&context->lock);
	mt_context_ended(context, MT_ANY_INIT);
	mt_capture_forget_context(context);
	pthread_mutex_lock(&context->lock);
	context->is_alive = false;
	pthread_mutex_unlock(&context->lock);
	pthread_mutex_lock(&model.lock);
	for (uint32_t i = 0; i < MODEL_EVENTS; i++)
		if (atomic_load(&model.events[i].context) == context &&
		    atomic_exchange(&model.events[i].is_alive, false))
			model.event_holes[model.events_left++] = i;
	for (uint32_t i = 0; i < MODEL_NODES; i++) {
		struct model_node *node = model_node_at(i);

		if (atomic_load(&node->context) != context || !atomic_exchange(&node->in_ledger, 0))
			continue;
		atomic_store(&node->owned, 0);
		atomic_store(&node->context, NULL);
		model.node_holes[model.nodes_left++] = i;
	}
	pthread_mutex_unlock(&model.lock);
	pthread_mutex_lock(&context->lock);
	context->is_alive = true;
	pthread_mutex_unlock(&context->lock);
	/* Known to the pool before work is enqueued there. */
	mt_context_created(context, (int)(context - model.contexts));
	pthread_mutex_lock(&context->lock);
	context->is_closing = false;
	pthread_mutex_unlock(&context->lock);
	atomic_fetch_add(&model.deaths_count, 1);
}

static void *model_mortal(void *data)
{
	struct CUctx_st *context = &model.contexts[MODEL_CONTEXTS - 1];
	struct model_node *live[MODEL_LIVE];

	(void)data;
	model_seed = 4711;
	while (!atomic_load(&model.is_over)) {
		unsigned count = 0;

		for (int i = 0; i < 200; i++) {
			if (model_random() % 2 && count < MODEL_LIVE)
				count += model_get(&live[count], context);
			else if (count > 0)
				model_put(live[--count]);
			if (count > 0)
				model_enqueue(context, live[0]);
		}
		model_drain(context);
		model_die(context);
		model_nap(5000);
	}
	return NULL;
}

static struct mt_driver model_driver(void)
{
	return (struct mt_driver){
		.cuMemAlloc_v2 = model_alloc,
		.cuMemFree_v2 = model_free,
		.cuCtxGetCurrent = model_get_current,
		.cuCtxGetDevice = model_device,
		.cuCtxPushCurrent_v2 = model_push,
		.cuCtxPopCurrent_v2 = model_pop,
		.cuEventCreate = model_create,
		.cuEventQuery = model_query,
		.cuEventSynchronize = model_synchronize,
		.cuThreadExchangeStreamCaptureMode = model_exchange,
		.cuCtxRecordEvent = model_record,
	};
}

static void model_begin(const struct model_options *options)
{
	model.options = *options;
	model.memory = mmap(NULL, (size_t)MODEL_NODES * MODEL_NODE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_mutex_init(&model.lock, NULL);
	for (int i = 0; i < MODEL_CONTEXTS; i++) {
		pthread_mutex_init(&model.contexts[i].lock, NULL);
		model.contexts[i].is_alive = true;
	}
	for (uint32_t i = 0; i < MODEL_NODES; i++)
		model.node_holes[model.nodes_left++] = i;
	for (uint32_t i = 0; i < MODEL_EVENTS; i++)
		model.event_holes[model.events_left++] = i;
}

/* Events that no context keeps for reuse. */
static uint64_t model_events_in_use(void)
{
	uint64_t count = MODEL_EVENTS - model.events_left;

	MT_EACH_CONTEXT(context)
	{
		for (struct mt_event *at = context->free_events; at; at = at->next)
			count--;
	}
	return count;
}

/* Everything is freed and done: what is left is a leak. */
static void model_end(struct model_result *out)
{
	struct mt_pool_usage usage[MODEL_CONTEXTS];

	for (int i = 0; i < 64; i++)
		if (model.mailbox[i])
			model_put(model.mailbox[i]);
	for (int i = 0; i < MODEL_CONTEXTS; i++)
		model_drain(&model.contexts[i]);
	for (int i = 0; i < 100; i++)
		(void)mt_pool_trim(MT_ANY_DEVICE);
	for (int i = 0; i < MODEL_CONTEXTS; i++) {
		mt_pool_usage(i, &usage[i]);
		if (usage[i].reserved_bytes || usage[i].blocks_count || usage[i].requested_bytes)
			model_wrong("figures that are not zero at the end");
		out->hits += usage[i].hit_count;
		out->retries += usage[i].num_alloc_retries;
	}
	out->ledger_blocks = MODEL_NODES - model.nodes_left;
	out->ledger_events = model_events_in_use();
	for (int i = 0; i < MODEL_CONTEXTS; i++)
		mt_context_ended(&model.contexts[i], MT_ANY_INIT);
}

static inline struct model_result model_run(const struct model_options *options)
{
	static struct mt_driver driver;
	struct model_result result = {0};
	pthread_t programs[MODEL_THREADS], others[4];
	void *(*roles[4])(void *) = {model_gpu};
	int count = 1;

	driver = model_driver();
	model.driver = &driver;
	model_begin(options);
	pool_settings("5", "0");
	mt_pool_start(&driver, NULL);
	for (int i = 0; i < MODEL_CONTEXTS; i++)
		mt_context_created(&model.contexts[i], i);
	if (options->worker)
		roles[count++] = model_worker;
	if (options->captures)
		roles[count++] = model_capturer;
	if (options->deaths)
		roles[count++] = model_mortal;
	for (int i = 0; i < count; i++)
		pthread_create(&others[i], NULL, roles[i], NULL);
	for (int i = 0; i < options->threads; i++)
		pthread_create(&programs[i], NULL, model_program, (void *)(intptr_t)i);
	for (int i = 0; i < options->threads; i++)
		pthread_join(programs[i], NULL);
	atomic_store(&model.is_over, true);
	for (int i = 0; i < count; i++)
		pthread_join(others[i], NULL);
	model_seed = 1;
	model_end(&result);
	result.operations =
		options->operations / (uint64_t)options->threads * (uint64_t)options->threads;
	result.stale = model.stale;
	result.wrongs = model.wrongs;
	result.driver_allocs = model.driver_allocs;
	result.captures = model.captures_count;
	result.deaths = model.deaths_count;
	result.work = model.work;
	return result;
}

#endif
