#include "heap/jemalloc_conf.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "sys/format.h"

/* No decay: jemalloc's own purging runs on the program's threads and forgets that re-dirtied pages
 * are in use (16.9 s where this takes 1.8 s on malloc_large); the worker purges by policy instead.
 * Blocks from 256 kB on come from one arena for all threads: freed pages serve only their own
 * arena, and a threaded server kept its large buffers free in each (peak 816 MiB, 532 with this).
 * Its lock is taken once for at least 64 pages that somebody will touch. Without decay nothing is
 * purged there at once, as it is in jemalloc as shipped. No limit to how large a free extent may be
 * split: the usual one counts on decay, without which a large hole would never be used for small
 * requests again (a heap of 100 MB grew by its own size in each of 8 cycles). 40 and not 64, since
 * 5.3.1 shifts by it: by 64, free neighbours were never joined.
 *
 * Slabs of one page, since one block that stays pins its whole slab: 2 million blocks of which 1 in
 * 16 stays keep 543 MiB after a purge instead of 1144. Two pages for 2560 B and three (jemalloc's
 * own) for 3072 B, of which a page would hold one and waste a third of itself. A thread's cache is
 * then counted in slabs of fewer blocks, so it has 8 slabs instead of 2, and 200 blocks at most
 * as ever: otherwise it is refilled so often that a mixed pair of malloc and free costs 105
 * instructions instead of 96 (99 with jemalloc's own slabs and caches). Making more slabs costs
 * survivors about a fifth more CPU time.
 *
 * Of blocks above a page a cache holds few, since nothing takes them from a thread that sleeps: 200
 * idle threads had 1.7 MB each, now 0.6. A pair of malloc and free of 8 to 32 kB takes 270 ns
 * instead of 130 (glibc 400). docs/decisions has the others. */
#define DEFAULT_CONF                                                                               \
	"oversize_threshold:262144,dirty_decay_ms:-1,muzzy_decay_ms:-1,lg_extent_max_active_fit:"  \
	"40,"                                                                                      \
	"lg_tcache_nslots_mul:3,tcache_nslots_small_min:4,tcache_nslots_large:2"
#define DEFAULT_SLABS "slab_sizes:1-2048:1|2049-2560:2|3073-4096:1"

/* The first five are refused to everyone: a bad setting, or what the kernel refuses, is a line on
 * stderr, never the end of the program; a thread that jemalloc starts from inside itself, before
 * the program's libraries are initialised, hangs it; and the events that would print statistics
 * serve something else (jemalloc_event.h). */
#define REFUSED_ALWAYS 5
static const char *const refused_keys[] = {
	"abort",          "abort_conf",     "background_thread", "max_background_threads",
	"stats_interval", "dirty_decay_ms", "muzzy_decay_ms",    "decay_time",
};

static bool is_refused(const char *pair, size_t length, size_t keys)
{
	for (size_t i = 0; i < keys; i++) {
		size_t key = strlen(refused_keys[i]);

		if (length > key && pair[key] == ':' && strncmp(pair, refused_keys[i], key) == 0)
			return true;
	}
	return false;
}

static void append_pair(char *out, size_t out_bytes, const char *pair, size_t length)
{
	size_t used = strlen(out);

	if (length == 0 || used + 1 + length + 1 > out_bytes)
		return;
	if (used)
		out[used++] = ',';
	memcpy(out + used, pair, length);
	out[used + length] = 0;
}

/* Leaves out the first `refused` of refused_keys. */
static void append_conf(char *out, size_t out_bytes, const char *conf, size_t refused)
{
	while (*conf) {
		size_t length = strcspn(conf, ",");

		if (!is_refused(conf, length, refused))
			append_pair(out, out_bytes, conf, length);
		conf += length;
		if (*conf == ',')
			conf++;
	}
}

static bool has_key(const char *conf, const char *key)
{
	size_t length = strlen(key);

	for (; *conf; conf += *conf == ',') {
		if (strncmp(conf, key, length) == 0 && conf[length] == ':')
			return true;
		conf += strcspn(conf, ",");
	}
	return false;
}

static const char *stock_conf(void)
{
	for (char **at = environ; at && *at; at++)
		if (strncmp(*at, "MALLOC_CONF=", 12) == 0)
			return *at + 12;
	return "";
}

/* Nothing at all where it is not asked for. No file of jemalloc's own making: an empty prefix
 * forbids that. */
static const char *prof_conf(const struct mt_config *config)
{
	switch ((enum mt_prof_choice)config->prof) {
	case MT_PROF_READY:
		return "prof:true,prof_active:false,prof_prefix:";
	case MT_PROF_ON:
		return "prof:true,prof_active:true,prof_prefix:";
	case MT_PROF_NONE:
	case MT_PROF_OFF:
		break;
	}
	return "";
}

void mt_jemalloc_conf(const struct mt_config *config, char *out, size_t out_bytes)
{
	out[0] = 0;
	append_conf(out, out_bytes, DEFAULT_CONF, 0);
	/* jemalloc adds up all that it is given: ours beside the user's would stay for each class
	 * that the user does not name. */
	if (!has_key(stock_conf(), "slab_sizes") && !has_key(config->malloc_conf, "slab_sizes"))
		append_conf(out, out_bytes, DEFAULT_SLABS, 0);
	if (config->arena_max) {
		char pair[40];

		append_pair(out, out_bytes, pair,
			    mt_format(pair, sizeof(pair), "narenas:%llu",
				      (unsigned long long)config->arena_max));
	}
	append_conf(out, out_bytes, prof_conf(config), 0);
	/* a block in a cache looks as if it were in use */
	if (config->check)
		append_conf(out, out_bytes, "tcache:false", 0);
	append_conf(out, out_bytes, stock_conf(), sizeof(refused_keys) / sizeof(refused_keys[0]));
	append_conf(out, out_bytes, config->malloc_conf, REFUSED_ALWAYS);
}
