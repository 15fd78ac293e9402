/* heap/jemalloc_classes.c -- how many blocks of each size are live, by jemalloc's own count. */
#include "heap/jemalloc.h"
#include "heap/jemalloc_names.h"

#include <string.h>

#define MIB_LENGTH    6
#define LARGE_CLASSES 256 /* jemalloc 5.3 has 196 */

/* One of the two kinds of classes: small ones, in slabs, and large ones, each an extent of its own.
 * 4096 is MALLCTL_ARENAS_ALL: all arenas merged. */
struct kind {
	const char *count, *block, *live;
	size_t block_at, live_at; /* where the class's number stands in the resolved name */
};

static const struct kind kinds[] = {
	{"arenas.nbins", "arenas.bin.0.size", "stats.arenas.4096.bins.0.curregs", 2, 4},
	{"arenas.nlextents", "arenas.lextent.0.size", "stats.arenas.4096.lextents.0.curlextents", 2,
	 4},
};

struct name {
	size_t mib[MIB_LENGTH];
	size_t length;
};

static bool resolve(const char *text, struct name *out)
{
	out->length = MIB_LENGTH;
	return je_mallctlnametomib(text, out->mib, &out->length) == 0;
}

static size_t ask(const struct name *name)
{
	size_t value = 0;
	size_t bytes = sizeof(value);

	return je_mallctlbymib(name->mib, name->length, &value, &bytes, NULL, 0) == 0 ? value : 0;
}

static uint32_t read_kind(const struct kind *kind, struct mt_heap_class *out, uint32_t most)
{
	unsigned int count = 0;
	size_t bytes = sizeof(count);
	uint32_t filled = 0;
	struct name block, live;

	if (je_mallctl(kind->count, &count, &bytes, NULL, 0) != 0 ||
	    !resolve(kind->block, &block) || !resolve(kind->live, &live))
		return 0;
	for (unsigned int i = 0; i < count && filled < most; i++) {
		block.mib[kind->block_at] = live.mib[kind->live_at] = i;
		out[filled] = (struct mt_heap_class){.block_bytes = ask(&block),
						     .live_count = ask(&live)};
		filled += out[filled].live_count > 0;
	}
	return filled;
}

uint32_t mt_jemalloc_classes(struct mt_heap_class *out, uint32_t most)
{
	uint64_t epoch = 1;
	size_t bytes = sizeof(epoch);
	uint32_t filled = 0;

	if (je_mallctl("epoch", &epoch, &bytes, &epoch, bytes) != 0)
		return 0;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		filled += read_kind(&kinds[i], out + filled, most - filled);
	return filled;
}

void mt_jemalloc_large_classes(size_t least_bytes, size_t *out_count, size_t *out_bytes)
{
	struct mt_heap_class classes[LARGE_CLASSES];
	uint32_t filled = read_kind(&kinds[1], classes, LARGE_CLASSES);

	*out_count = *out_bytes = 0;
	for (uint32_t i = 0; i < filled; i++) {
		if (classes[i].block_bytes < least_bytes)
			continue;
		*out_count += classes[i].live_count;
		*out_bytes += classes[i].live_count * classes[i].block_bytes;
	}
}
