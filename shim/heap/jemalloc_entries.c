/* heap/jemalloc_entries.c -- the heap family over the embedded jemalloc. The functions that make
 * blocks are jemalloc's own: a direct jump. If a check of growth is due, the next of them, or
 * the free of a large block, comes by a function of ours, once. free, realloc and
 * malloc_usable_size first compare the address: it may be a block from before the process woke up
 * (heap/asleep.h). */
#include <stdbool.h>

#include "core/log.h"
#include "heap/account.h"
#include "heap/asleep.h"
#include "heap/glibc.h"
#include "heap/entries.h"
#include "heap/growth.h"
#include "heap/jemalloc_internal.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/os.h"

/* the longest wait for another thread that changes which functions serve */
#define GATE_NS      (10 * MT_NS_PER_MS)
#define GATE_STEP_NS (20 * 1000ull)

static _Atomic bool event_is_due; /* flag, no ordering */

/* ---- blocks of both kinds ---- */

/* These few lines are the hot path: one compare and one jump more than jemalloc's own. */

static MT_COLD __attribute__((used)) void free_low(void *ptr)
{
	if (mt_glibc_range_has(ptr))
		mt_asleep_free_old(ptr);
	else
		je_free(ptr);
}

#if defined(__x86_64__) && !defined(MT_DEBUG)
/* As below: the compiler makes no conditional jump to another function. */
static __attribute__((naked)) void awake_free(void *ptr __attribute__((unused)))
{
	__asm__("cmpq mt_glibc_range_end(%rip), %rdi\n\t"
		"jae je_free\n\t"
		"cmpq mt_glibc_range_base(%rip), %rdi\n\t"
		"jb je_free\n\t"
		"jmp free_low");
}
#else
static void awake_free(void *ptr)
{
	if (mt_unlikely(mt_glibc_range_may_have(ptr)))
		free_low(ptr);
	else
		je_free(ptr);
}
#endif

static MT_COLD void *realloc_low(void *ptr, size_t size)
{
	return mt_glibc_range_has(ptr) ? mt_asleep_realloc_old(ptr, size, je_malloc)
				       : je_realloc(ptr, size);
}

static void *awake_realloc(void *ptr, size_t size)
{
	return mt_unlikely(mt_glibc_range_may_have(ptr)) ? realloc_low(ptr, size)
							 : je_realloc(ptr, size);
}

static size_t awake_malloc_usable_size(void *ptr)
{
	return mt_unlikely(mt_glibc_range_may_have(ptr)) && mt_glibc_range_has(ptr)
		       ? mt_glibc_usable(ptr)
		       : je_malloc_usable_size(ptr);
}

static struct mt_heap_ops direct_ops = {
	.malloc = je_malloc,
	.calloc = je_calloc,
	.realloc = awake_realloc,
	.memalign = je_memalign,
	.aligned_alloc = je_aligned_alloc,
	.posix_memalign = je_posix_memalign,
	.free = awake_free,
	.malloc_usable_size = awake_malloc_usable_size,
};

const struct mt_heap_ops *mt_jemalloc_ops(void)
{
	return &direct_ops;
}

/* ---- MT_CHECK=1 ---- */

static void check(const char *call, const void *ptr)
{
	if (ptr && !mt_glibc_range_has(ptr))
		mt_jemalloc_errors_check(call, ptr);
}

static void checked_free(void *ptr)
{
	check("free()", ptr);
	awake_free(ptr);
}

static void *checked_realloc(void *ptr, size_t size)
{
	check("realloc()", ptr);
	return awake_realloc(ptr, size);
}

static void check_pointers(void)
{
	if (!mt_jemalloc_errors_are_known()) {
		mt_log(MT_LOG_WARN, "MT_CHECK: this jemalloc's layout is unknown");
		return;
	}
	direct_ops.free = checked_free;
	direct_ops.realloc = checked_realloc;
}

/* ---- the callers of malloc ---- */

/* In a function that the program calls. At the frame address lie the caller's frame pointer and the
 * return address; the stack of the caller begins behind these two words (on arm64 only if this
 * function needs no more stack). */
#define NOTE_CALLER()                                                                              \
	(mt_allocation_caller =                                                                    \
		 (struct mt_allocation_caller){(uintptr_t)__builtin_return_address(0),             \
					       (uintptr_t *)__builtin_frame_address(0) + 2})

#define X(type, name, params, args)                                                                \
	static type noted_##name params                                                            \
	{                                                                                          \
		NOTE_CALLER();                                                                     \
		return direct_ops.name args;                                                       \
	}
MT_HEAP_ALLOCATING(X)
#undef X

static void noted_free(void *ptr)
{
	direct_ops.free(ptr);
}

static const struct mt_heap_ops noting_ops = {
#define X(type, name, params, args) .name = noted_##name,
	MT_HEAP_ALLOCATING(X)
#undef X
		.free = noted_free,
	.malloc_usable_size = awake_malloc_usable_size,
};

static const struct mt_heap_ops *usual_ops(void)
{
	return mt_account_event_wants_callers() ? &noting_ops : &direct_ops;
}

/* ---- which functions serve ---- */

static const struct mt_heap_ops event_ops, gated_ops;

/* seq_cst: whoever serves last has seen the last change */
static _Atomic unsigned int changes;
static _Atomic bool is_serving, gate_is_closed;

static const struct mt_heap_ops *wanted_ops(void)
{
	if (mt_load_seq(&gate_is_closed))
		return &gated_ops;
	return mt_load_relaxed(&event_is_due) ? &event_ops : usual_ops();
}

/* One thread at a time; another one, or a signal handler, leaves it the next change to do. */
static void serve_wanted(void)
{
	unsigned int change;

	(void)atomic_fetch_add(&changes, 1);
	do {
		if (atomic_exchange(&is_serving, true))
			return;
		change = mt_load_seq(&changes);
		mt_heap_serve(wanted_ops());
		mt_store_seq(&is_serving, false);
	} while (mt_load_seq(&changes) != change);
}

/* ---- a check of growth ---- */

/* The allocator has returned, so that a thread may be started. */
static MT_COLD void event(void)
{
	bool is_due = mt_exchange_relaxed(&event_is_due, false);

	serve_wanted();
	if (is_due)
		mt_growth_note();
}

#define X(type, name, params, args)                                                                \
	static MT_COLD type event_##name params                                                    \
	{                                                                                          \
		type answer;                                                                       \
                                                                                                   \
		NOTE_CALLER();                                                                     \
		answer = direct_ops.name args;                                                     \
		event();                                                                           \
		return answer;                                                                     \
	}
MT_HEAP_ALLOCATING(X)
#undef X

/* A program may free its one large block and never call malloc again. Not after other blocks: libc
 * frees some of its own under locks that the start of a thread takes. */
static MT_COLD void event_free(void *ptr)
{
	bool is_large = mt_jemalloc_thread_has_allocated() &&
			awake_malloc_usable_size(ptr) >= MT_JEMALLOC_LARGE_LEAST;

	direct_ops.free(ptr);
	if (is_large)
		event();
}

static const struct mt_heap_ops event_ops = {
#define X(type, name, params, args) .name = event_##name,
	MT_HEAP_ALLOCATING(X)
#undef X
		.free = event_free,
	.malloc_usable_size = awake_malloc_usable_size,
};

void mt_heap_event_at_next_call(bool wanted)
{
	if (!mt_asleep_is_awake())
		return;
	mt_store_relaxed(&event_is_due, wanted);
	if (wanted)
		serve_wanted();
}

static void serve_callers(void)
{
	if (mt_asleep_is_awake())
		serve_wanted();
}

/* ---- the gate ---- */

/* Callers are not noted here, and events wait: the gate is closed for some ms, or for 0.1 s with
 * 1,590 sleeping threads. */
#define X(type, name, params, args)                                                                \
	static type gated_##name params                                                            \
	{                                                                                          \
		mt_jemalloc_caches_wait();                                                         \
		return direct_ops.name args;                                                       \
	}
MT_HEAP_ALLOCATING(X)
MT_HEAP_EXISTING(X)
#undef X

static const struct mt_heap_ops gated_ops = {
#define X(type, name, params, args) .name = gated_##name,
	MT_HEAP_ALLOCATING(X) MT_HEAP_EXISTING(X)
#undef X
};

static bool close_gate(void)
{
	uint64_t until = mt_os_now_ns() + GATE_NS;

	mt_store_seq(&gate_is_closed, true);
	serve_wanted();
	while (mt_load_seq(&is_serving) || !mt_heap_serves(&gated_ops)) {
		if (mt_os_now_ns() >= until)
			return false;
		mt_os_sleep_ns(GATE_STEP_NS);
	}
	return true;
}

static void open_gate(void)
{
	mt_store_seq(&gate_is_closed, false);
	serve_wanted();
}

static void reset_gate(void)
{
	mt_store_seq(&is_serving, false);
	open_gate();
}

/* A process that wakes up is checked: memory that is not the heap's makes it large, too. */
void mt_heap_serve_jemalloc(void)
{
	static const struct mt_jemalloc_gate gate = {close_gate, open_gate, reset_gate};

	if (mt_config()->check)
		check_pointers();
	mt_jemalloc_caches_use(&gate);
	mt_account_event_offer_callers(serve_callers);
	mt_store_relaxed(&event_is_due, true);
	serve_wanted();
}
