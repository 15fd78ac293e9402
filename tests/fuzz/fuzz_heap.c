/* fuzz_heap.c -- sequences of calls of the malloc family against a model of what malloc promises:
 * nothing that is live overlaps, loses a byte or lies askew, what was asked for is there, calloc's
 * is nought, what cannot be is refused with the right errno and leaves all as it was. In each
 * backend: the embedded jemalloc, the next allocator in line, and glibc's own functions, which
 * serve a process that is asleep.
 *
 * The first byte chooses the backend (j, g, b), then five bytes are a call: what, which of 64
 * places, two for the size, one for the alignment. AddressSanitizer's malloc serves the test alone:
 * the functions of the backends are called by their own names. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heap/backend.h"
#include "heap/glibc.h"
#include "heap/jemalloc.h"
#include "core/config.h"
#include "core/core_internal.h"
#include "sys/os.h"
#include "fuzz.h"
#include "heap_composed.h"

#define PLACES 64u
#define CALL   5u
/* so much of a block is written and checked; of a larger one both ends, and some in between */
#define FULL      4096u
#define STRIDE    509u
#define LIVE_MOST ((size_t)96 << 20)

struct block {
	unsigned char *at;
	size_t size, usable;
	uint8_t seed;
};

static const struct mt_backend *backends[2];
const struct mt_heap_ops *fuzz_heap;
/* NULL: glibc's own functions alone */
static const struct mt_backend *backend;
static struct block blocks[PLACES];
static size_t live_bytes;
static uint8_t next_seed;

static void ignore_thread(void *counters)
{
	(void)counters;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const struct mt_backend_hooks hooks = {.thread_born = ignore_thread};
	static const struct mt_backend_identity glibc = {.allocator = "glibc",
							 .mode = MT_MODE_SYSTEM};
	static struct mt_config config;
	static char conf[768];

	(void)argc;
	(void)argv;
	mt_config_defaults(&config);
	backends[0] = mt_jemalloc_backend(&config, &hooks, conf, sizeof(conf));
	backends[1] = mt_system_backend(&config, &glibc);
	return 0;
}

/* ---- what is in a block ---- */

static unsigned char byte_at(const struct block *block, size_t at)
{
	return (unsigned char)(block->seed + at * 131);
}

/* The next place behind `at` that is looked at. */
static size_t after(const struct block *block, size_t at)
{
	return at + 1 < FULL || at + FULL >= block->usable ? at + 1 : at + STRIDE;
}

static void fill(struct block *block)
{
	block->seed = ++next_seed;
	for (size_t at = 0; at < block->usable; at = after(block, at))
		block->at[at] = byte_at(block, at);
}

static void check(const struct block *block, size_t bytes)
{
	for (size_t at = 0; at < bytes; at = after(block, at))
		fuzz_expect(block->at[at] == byte_at(block, at), "byte %zu of a block of %zu", at,
			    block->size);
}

/* What every block must be that comes out of the heap. */
static void keep(struct block *place, void *at, size_t size, size_t alignment)
{
	struct block block = {.at = at, .size = size};
	size_t least = size >= 16 ? 16 : 8;

	block.usable = fuzz_heap->malloc_usable_size(at);
	fuzz_expect(block.usable >= size, "%zu bytes for %zu", block.usable, size);
	fuzz_expect((uintptr_t)at % (alignment > least ? alignment : least) == 0,
		    "%p is not aligned to %zu", at, alignment);
	for (size_t i = 0; i < PLACES; i++)
		fuzz_expect(!blocks[i].at || &blocks[i] == place ||
				    block.at + block.usable <= blocks[i].at ||
				    blocks[i].at + blocks[i].usable <= block.at,
			    "%p of %zu lies over %p", at, size, (void *)blocks[i].at);
	*place = block;
	live_bytes += block.usable;
	fill(place);
}

static void forget(struct block *place)
{
	live_bytes -= place->usable;
	*place = (struct block){.at = NULL};
}

/* ---- calls ---- */

struct call {
	struct block *place;
	size_t size, alignment;
	uint8_t raw;
};

/* Sizes that allocators treat in ways of their own: small ones, classes, pages, what they map; and
 * what nobody has. */
static size_t size_of(uint8_t shift, uint8_t times)
{
	static const size_t impossible[] = {SIZE_MAX, SIZE_MAX - 4096, SIZE_MAX / 2 + 1,
					    (size_t)1 << 62};

	if (shift % 32 == 31)
		return impossible[times % 4] - times / 4;
	return ((size_t)times << shift % 17) + shift / 32;
}

static size_t alignment_of(uint8_t code)
{
	static const size_t odd[] = {0, 3, 24, 48};

	return code % 32 < 28 ? (size_t)1 << code % 32 % 20 : odd[code % 4];
}

static bool is_power(size_t alignment)
{
	return alignment && !(alignment & (alignment - 1));
}

static bool can_be(size_t size)
{
	return size < LIVE_MOST;
}

/* What could not be had: only that of the first calls runs out here. */
static void refused(const struct call *call, size_t size)
{
	fuzz_expect(errno == ENOMEM, "errno %d for %zu bytes", errno, size);
	fuzz_expect(!can_be(size) || !backend || call->alignment > 4096, "%zu bytes are refused",
		    size);
}

static void take(const struct call *call, void *fresh, size_t alignment)
{
	if (fresh)
		fuzz_expect(can_be(call->size), "%zu bytes were had", call->size);
	if (fresh)
		keep(call->place, fresh, call->size, alignment);
	else
		refused(call, call->size);
}

static void call_calloc(const struct call *call)
{
	size_t count = call->raw % 17 + 1, size = call->size / count;
	struct block *place = call->place;
	unsigned char *fresh = fuzz_heap->calloc(count, size);

	if (!fresh) {
		refused(call, size > SIZE_MAX / count ? SIZE_MAX : size * count);
		return;
	}
	for (size_t at = 0; at < size * count; at += at < FULL ? 1 : STRIDE)
		fuzz_expect(!fresh[at], "byte %zu of %zu is 0x%02x", at, size * count, fresh[at]);
	keep(place, fresh, size * count, 8);
	errno = 0;
	fuzz_expect(!fuzz_heap->calloc(SIZE_MAX / 2 + 1, count + 1) && errno == ENOMEM, "errno %d",
		    errno);
}

/* With what is left of the old block in the new one. */
static void call_realloc(const struct call *call, bool by_array)
{
	struct block old = *call->place;
	size_t count = by_array ? call->raw % 9 + 1 : 1,
	       size = by_array ? call->size / count * count : call->size;
	unsigned char *fresh;

	if (old.at)
		check(&old, old.usable);
	fresh = by_array ? fuzz_reallocarray(old.at, count, call->size / count)
			 : fuzz_heap->realloc(old.at, size);
	if (!fresh && size) {
		refused(call, size);
		if (old.at)
			check(&old, old.usable);
		return;
	}
	if (old.at)
		forget(call->place);
	if (!fresh)
		return; /* of no bytes: it is freed */
	if (old.at) {
		struct block kept = {
			.at = fresh, .size = old.size, .usable = old.usable, .seed = old.seed};

		check(&kept, size < old.size ? size : old.size);
	}
	keep(call->place, fresh, size, 8);
}

static void call_posix_memalign(const struct call *call)
{
	void *untouched = &backend, *fresh = untouched;
	bool is_right = is_power(call->alignment) && call->alignment >= sizeof(void *);
	int answer = fuzz_heap->posix_memalign(&fresh, call->alignment, call->size);

	fuzz_expect(is_right || answer == EINVAL, "%d for an alignment of %zu", answer,
		    call->alignment);
	fuzz_expect(answer == 0 || answer == EINVAL || answer == ENOMEM, "answer %d", answer);
	if (answer == 0)
		keep(call->place, fresh, call->size, call->alignment);
	else
		fuzz_expect(fresh == untouched, "%p is written on failure", fresh);
}

/* memalign rounds an odd alignment up; aligned_alloc may, or refuse it. */
static void call_aligned(const struct call *call, void *(*make)(size_t, size_t))
{
	bool is_right = is_power(call->alignment);
	void *fresh = make(call->alignment, call->size);

	if (!fresh && !is_right && errno == EINVAL)
		return;
	if (!fresh && !backend)
		return; /* which refuses with ENOMEM what it cannot align */
	take(call, fresh, is_right ? call->alignment : 8);
}

static void *free_elsewhere(void *at)
{
	fuzz_heap->free(at);
	return NULL;
}

static void call_free(const struct call *call, char how)
{
	struct block *place = call->place;
	pthread_t thread;

	if (place->at)
		check(place, place->usable);
	errno = 77;
	if (how == 't' && backend && pthread_create(&thread, NULL, free_elsewhere, place->at) == 0)
		(void)pthread_join(thread, NULL);
	else if (how == 'F')
		fuzz_free_sized(place->at, place->size);
	else if (how == 'A')
		fuzz_free_aligned_sized(place->at, 8, place->size);
	else
		fuzz_heap->free(place->at);
	fuzz_expect(errno == 77 || how == 't', "free has changed errno to %d", errno);
	if (place->at)
		forget(place);
}

static void look(char what)
{
	struct mt_heap_class classes[64];
	struct mt_purge_outcome outcome;
	struct mt_heap_figures figures;

	if (what == 'P') {
		backend->purge(&outcome);
		for (size_t i = 0; i < PLACES; i++)
			if (blocks[i].at)
				check(&blocks[i], blocks[i].usable);
	} else if (what == 'T' && backend->flush_thread) {
		backend->flush_thread();
	} else if (what == 'g' && backend->figures && backend->figures(&figures)) {
		fuzz_expect(figures.live_bytes >= live_bytes / 2, "%llu live bytes, and %zu are",
			    (unsigned long long)figures.live_bytes, live_bytes);
	} else if (what == 'q' && backend->pages) {
		(void)backend->pages(&figures);
	} else if (what == 's' && backend->classes) {
		fuzz_expect(backend->classes(classes, 64) <= 64, "%s",
			    "more classes than there is room for");
	}
}

/* A maker is given an empty place. */
static void make(const struct call *call, char what)
{
	if (what != 'r' && what != 'R' && call->place->at)
		call_free(call, 'f');
	if (can_be(call->size) && live_bytes + call->size > LIVE_MOST)
		return;
	errno = 0;
	switch (what) {
	case 'm':
		take(call, fuzz_heap->malloc(call->size), 8);
		break;
	case 'c':
		call_calloc(call);
		break;
	case 'r':
		call_realloc(call, false);
		break;
	case 'R':
		call_realloc(call, true);
		break;
	case 'a':
		call_aligned(call, fuzz_heap->aligned_alloc);
		break;
	case 'l':
		call_aligned(call, fuzz_heap->memalign);
		break;
	case 'p':
		call_posix_memalign(call);
		break;
	case 'v':
		take(call, fuzz_valloc(call->size), mt_os_page_bytes());
		break;
	default:
		take(call, fuzz_pvalloc(call->size), mt_os_page_bytes());
		break;
	}
}

static void carry_out(const uint8_t *bytes)
{
	static const char makers[] = "mcrRalpvV", takers[] = "fFAt", looks[] = "PTgqsu";
	static const char all[] = "mmmcrRalpvVffffFAtPTgqsu";
	struct call call = {&blocks[bytes[1] % PLACES], size_of(bytes[2], bytes[3]),
			    alignment_of(bytes[4]), bytes[4]};
	char what = bytes[0] && strchr(all, bytes[0]) ? (char)bytes[0]
						      : all[bytes[0] % (sizeof(all) - 1)];

	if (strchr(makers, what))
		make(&call, what);
	else if (strchr(takers, what))
		call_free(&call, what);
	else if (what == 'u')
		fuzz_expect(fuzz_heap->malloc_usable_size(call.place->at) == call.place->usable,
			    "a block of %zu", call.place->size);
	else if (backend && strchr(looks, what))
		look(what);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct call call = {0};
	unsigned which = !bytes           ? 0
			 : data[0] == 'j' ? 0
			 : data[0] == 'g' ? 1
			 : data[0] == 'b' ? 2
					  : data[0] % 3;

	backend = which < 2 ? backends[which] : NULL;
	fuzz_heap = which == 0 ? backends[0]->ops : which == 1 ? backends[1]->ops : mt_glibc_ops();
	next_seed = 0;
	for (size_t at = 1; at + CALL <= bytes; at += CALL)
		carry_out(data + at);
	for (size_t i = 0; i < PLACES; i++) {
		call.place = &blocks[i];
		if (call.place->at)
			call_free(&call, 'f');
	}
	fuzz_expect(!live_bytes, "%zu bytes are left", live_bytes);
	return 0;
}
