#include "pressure/growth_sites.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/cgroup.h"
#include "core/interpreter.h"
#include "core/thread.h"
#include "heap/allocation_event.h"
#include "pressure/direct_reclaim.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/format.h"
#include "sys/loader.h"
#include "sys/os.h"
#include "sys/main_thread.h"

#define LINES_MAX 6u  /* of Python, of one site */
#define TRIES     100 /* for the table, by the worker */

struct site {
	uint64_t bytes, largest_bytes, count;
	uint32_t lines_count;
	uintptr_t lines[LINES_MAX]; /* of Python; or one, the return address of a call of malloc */
};

static _Atomic bool is_on;              /* no ordering */
static _Atomic int64_t countdown_bytes; /* counter, no ordering */
static _Atomic int64_t step;            /* no ordering */
static _Atomic bool is_busy;            /* acquire and release around all below */
static struct site sites[MT_LAST_SITES_COUNT];
static uint32_t sites_count;
static uint64_t unknown_bytes;
static int64_t high_bytes; /* largest size of the heap since it was last smaller */

/* operator new(size_t), with an alignment, and without exceptions; new[] jumps to these, or calls.
 * Written by the worker before is_on is set. */
#define NEW_COUNT   3u
#define NEW_BYTES   160u /* more than such a function has */
#define FRAME_WORDS 6u
static const char *const new_names[NEW_COUNT] = {"_Znwm", "_ZnwmSt11align_val_t",
						 "_ZnwmRKSt9nothrow_t"};
static uintptr_t new_functions[NEW_COUNT];

static bool is_set(_Atomic bool *flag)
{
	return mt_load_relaxed(flag);
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
	mt_assert(mt_load_relaxed(&is_busy));
	mt_store_release(&is_busy, false);
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

	return is_set(&is_on) && mt_sub_relaxed(&countdown_bytes, bytes) <= bytes;
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

/* Returns whether a call ends right before this address, which may be any number. Of x86-64: call
 * NEAR, call *REGISTER, call *NEAR. Of arm64: bl, blr. */
static bool is_behind_a_call(uintptr_t address)
{
#if defined(__x86_64__)
	uint8_t code[6];

	return mt_os_read_own((const void *)(address - sizeof(code)), code, sizeof(code)) ==
		       sizeof(code) &&
	       (code[1] == 0xe8 || code[4] == 0xff || (code[0] == 0xff && code[1] == 0x15));
#else
	uint32_t code;

	return mt_os_read_own((const void *)(address - sizeof(code)), &code, sizeof(code)) ==
		       sizeof(code) &&
	       ((code & 0xfc000000) == 0x94000000 || (code & 0xfffffc1f) == 0xd63f0000);
#endif
}

/* Returns the return address of the call of malloc; of C++'s operator new, which keeps no more than
 * a few words on the stack, that of the call of it. */
static uintptr_t caller(void)
{
	uintptr_t words[FRAME_WORDS], address = mt_allocation_caller.address;
	bool is_new = false;

	for (size_t i = 0; i < NEW_COUNT; i++)
		is_new |= new_functions[i] && address - new_functions[i] < NEW_BYTES;
	if (!is_new ||
	    mt_os_read_own(mt_allocation_caller.frame, words, sizeof(words)) != sizeof(words))
		return address;
	for (size_t i = 0; i < FRAME_WORDS; i++)
		if (is_behind_a_call(words[i]))
			return words[i];
	return address;
}

static void compare(void *unused)
{
	int64_t now = heap_bytes(), grown = now - high_bytes;
	int64_t enough = mt_load_relaxed(&step);
	struct site here = {.bytes = 0};

	(void)unused;
	/* The heap grows by no more than is allocated. */
	mt_store_relaxed(&countdown_bytes, grown < 0 && -grown > enough ? -grown : enough);
	if (now < 0 || grown < enough)
		return;
	high_bytes = now;
	here.lines_count = (uint32_t)mt_interpreter_lines(here.lines, LINES_MAX);
	if (!here.lines_count && mt_allocation_caller.address) {
		here.lines[0] = caller();
		here.lines_count = 1;
	}
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
	mt_store_relaxed(&step, (int64_t)step_bytes);
	mt_store_relaxed(&countdown_bytes, (int64_t)step_bytes);
	/* dlsym would wait for a constructor. */
	for (size_t i = 0; i < NEW_COUNT && !mt_loader_is_forked(); i++)
		new_functions[i] = (uintptr_t)mt_symbol_beside(new_names[0], new_names[i]);
	mt_allocation_event_note_callers(true);
	mt_store_relaxed(&is_on, true);
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
	if (!mt_exchange_relaxed(&is_on, false))
		return;
	mt_allocation_event_note_callers(false);
	if (!enter_patiently())
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
		mt_store_relaxed(&countdown_bytes, 0);
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

struct code {
	uint64_t address, base; /* base: where the first mapping of `path` begins */
	char path[400];
	struct mt_last_site *site;
};

/* A line of /proc/self/maps: "START-END RIGHTS OFFSET DEVICE INODE    PATH". Source: proc(5). */
static bool match_mapping(char *line, void *context)
{
	struct code *code = context;
	const char *path = strchr(line, '/');
	char *at;
	uint64_t start = strtoull(line, &at, 16), end = *at ? strtoull(at + 1, NULL, 16) : 0;

	if (!path)
		return code->address >= start && code->address < end;
	if (strcmp(path, code->path) != 0) {
		mt_format(code->path, sizeof(code->path), "%s", path);
		code->base = start;
	}
	if (code->address < start || code->address >= end)
		return false;
	if (!strstr(path, "/libmtshim.so"))
		mt_format(code->site->text, sizeof(code->site->text), "%s+0x%llx", code->path,
			  (unsigned long long)(code->address - code->base));
	return true;
}

/* Names the file that is mapped there, if there is one. */
static void describe_code(uintptr_t address, struct mt_last_site *to)
{
	static struct code code; /* the worker's stack is small */

	code = (struct code){.address = address, .site = to};

	mt_cgroup_each_line("/proc/self/maps", match_mapping, &code);
}

static void describe(const struct site *from, struct mt_last_site *to)
{
	char text[256];

	*to = (struct mt_last_site){from->bytes, from->largest_bytes, from->count, {0}};
	for (uint32_t i = 0; i < from->lines_count; i++)
		if (mt_interpreter_line_text(from->lines[i], text, sizeof(text)))
			add_text(to, text);
		else
			describe_code(from->lines[i], to);
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
	mt_store_relaxed(&is_on, false);
	mt_allocation_event_note_callers(false);
	forget();
	mt_store_relaxed(&is_busy, false);
}
