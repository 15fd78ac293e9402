#include "pressure/growth_sites.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "core/interpreter.h"
#include "core/thread.h"
#include "pressure/direct_reclaim.h"
#include "sys/attr.h"
#include "sys/format.h"
#include "sys/loader.h"
#include "sys/os.h"
#include "sys/own_stack.h"
#include "sys/raw_clone.h"

#define LINES_MAX 6u  /* of Python, of one site */
#define TRIES     100 /* for the table, by the worker */

struct site {
	uint64_t bytes, largest_bytes, count;
	uint32_t lines_count;
	uintptr_t lines[LINES_MAX];
};

static _Atomic bool is_on;              /* no ordering */
static _Atomic int64_t countdown_bytes; /* counter, no ordering */
static _Atomic int64_t step;            /* no ordering */
static _Atomic bool is_busy;            /* acquire and release around all below */
static struct site sites[MT_LAST_SITES_COUNT];
static uint32_t sites_count;
static uint64_t unknown_bytes;
static int64_t high_bytes; /* largest size of the heap since it was last smaller */

static bool is_set(_Atomic bool *flag)
{
	return atomic_load_explicit(flag, memory_order_relaxed);
}

static bool enter(void)
{
	return !atomic_exchange_explicit(&is_busy, true, memory_order_acquire);
}

/* On the worker: a thread is in the table for some microseconds. */
static bool enter_patiently(void)
{
	for (int i = 0; i < TRIES; i++) {
		if (enter())
			return true;
		mt_os_sleep_ns(MT_NS_PER_MS / 10);
	}
	return false;
}

static void leave(void)
{
	mt_assert(atomic_load_explicit(&is_busy, memory_order_relaxed));
	atomic_store_explicit(&is_busy, false, memory_order_release);
}

static int64_t heap_bytes(void)
{
	struct mt_heap_size heap;

	return mt_reclaim_read_heap(&heap) ? heap.held_bytes : -1;
}

/* ---- the program's threads ---- */

bool mt_growth_sites_count(uint64_t allocated_bytes)
{
	int64_t bytes = (int64_t)allocated_bytes;

	return is_set(&is_on) &&
	       atomic_fetch_sub_explicit(&countdown_bytes, bytes, memory_order_relaxed) <= bytes;
}

/* Returns the place of the line, however it is reached; NULL: there is no room. */
static struct site *find(const struct site *wanted)
{
	for (uint32_t i = 0; i < sites_count; i++)
		if (sites[i].lines[0] == wanted->lines[0])
			return &sites[i];
	mt_assert(sites_count <= MT_LAST_SITES_COUNT);
	if (sites_count == MT_LAST_SITES_COUNT)
		return NULL;
	sites[sites_count] = *wanted;
	return &sites[sites_count++];
}

static void add(const struct site *here, uint64_t bytes)
{
	struct site *site = here->lines_count ? find(here) : NULL;

	mt_assert(here->lines_count <= LINES_MAX);
	if (!site) {
		unknown_bytes += bytes;
		return;
	}
	site->bytes += bytes;
	site->count++;
	if (bytes > site->largest_bytes)
		site->largest_bytes = bytes;
}

static void compare(void *unused)
{
	int64_t now = heap_bytes(), grown = now - high_bytes;
	int64_t enough = atomic_load_explicit(&step, memory_order_relaxed);
	struct site here = {.bytes = 0};

	(void)unused;
	/* The heap grows by no more than is allocated. */
	atomic_store_explicit(&countdown_bytes, grown < 0 && -grown > enough ? -grown : enough,
			      memory_order_relaxed);
	if (now < 0 || grown < enough)
		return;
	high_bytes = now;
	here.lines_count = (uint32_t)mt_interpreter_lines(here.lines, LINES_MAX);
	add(&here, (uint64_t)grown);
}

MT_COLD void mt_growth_sites_note(void)
{
	int kept = errno;

	if (is_set(&is_on) && !mt_thread_is_ours() && !mt_loader_is_inside() &&
	    !mt_raw_clone_is_child() && enter()) {
		mt_own_stack_call(compare, NULL); /* the program's may be small */
		leave();
	}
	errno = kept;
}

/* ---- worker thread ---- */

void mt_growth_sites_start(uint64_t step_bytes)
{
	if (is_set(&is_on))
		return;
	if (!enter_patiently())
		return;
	high_bytes = heap_bytes();
	leave();
	mt_assert(mt_thread_is_ours() && step_bytes > 0);
	atomic_store_explicit(&step, (int64_t)step_bytes, memory_order_relaxed);
	atomic_store_explicit(&countdown_bytes, (int64_t)step_bytes, memory_order_relaxed);
	atomic_store_explicit(&is_on, true, memory_order_relaxed);
}

static void forget(void)
{
	memset(sites, 0, sites_count * sizeof(sites[0]));
	sites_count = 0;
	unknown_bytes = 0;
	high_bytes = 0;
}

void mt_growth_sites_stop(void)
{
	if (!atomic_exchange_explicit(&is_on, false, memory_order_relaxed) || !enter_patiently())
		return;
	forget();
	leave();
}

void mt_growth_sites_settle(void)
{
	int64_t now;

	if (!is_set(&is_on) || !enter_patiently())
		return;
	now = heap_bytes();
	if (now >= 0 && now < high_bytes - high_bytes / 4) {
		double kept = (double)now / (double)high_bytes;

		mt_assert(kept >= 0 && kept < 1);
		for (uint32_t i = 0; i < sites_count; i++)
			sites[i].bytes = (uint64_t)((double)sites[i].bytes * kept);
		unknown_bytes = (uint64_t)((double)unknown_bytes * kept);
		high_bytes = now;
		atomic_store_explicit(&countdown_bytes, 0, memory_order_relaxed);
	}
	leave();
}

/* Adds a line to a site's text, if it fits. */
static void add_text(struct mt_last_site *to, const char *text)
{
	size_t used = strlen(to->text), more = strlen(text);

	if (used + more + 2 > sizeof(to->text))
		return;
	if (used)
		to->text[used++] = '\n';
	memcpy(to->text + used, text, more + 1);
}

static void describe(const struct site *from, struct mt_last_site *to)
{
	char text[256];

	*to = (struct mt_last_site){from->bytes, from->largest_bytes, from->count, {0}};
	for (uint32_t i = 0; i < from->lines_count; i++)
		if (mt_interpreter_line_text(from->lines[i], text, sizeof(text)))
			add_text(to, text);
}

/* Returns the largest site below `bytes`, or of the same size behind index `after`. */
static const struct site *next_site(const struct site *last)
{
	const struct site *best = NULL;

	for (uint32_t i = 0; i < sites_count; i++) {
		const struct site *site = &sites[i];

		if (last &&
		    (site->bytes > last->bytes || (site->bytes == last->bytes && site <= last)))
			continue;
		if (!best || site->bytes > best->bytes)
			best = site;
	}
	return best;
}

void mt_growth_sites_read(struct mt_last_file *out)
{
	const struct site *site = NULL;

	out->head.sites_count = 0;
	if (!enter_patiently())
		return;
	while ((site = next_site(site))) {
		mt_assert(out->head.sites_count < MT_LAST_SITES_COUNT);
		describe(site, &out->sites[out->head.sites_count++]);
	}
	out->head.unknown_bytes = unknown_bytes;
	leave();
}

void mt_growth_sites_fork_child(void)
{
	atomic_store_explicit(&is_on, false, memory_order_relaxed);
	forget();
	atomic_store_explicit(&is_busy, false, memory_order_relaxed);
}
