#include "heap/jemalloc_internal.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "sys/format.h"
#include "sys/os.h"

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
 * 16 stays keep 582 MiB after a purge instead of 1144. No class leaves more than an eighth of its
 * slab unused: 1536 and 2560 B have two pages and 3072 B three (jemalloc's own), since of one page
 * they would waste a quarter or more. A thread's cache is then counted in slabs of fewer blocks, so
 * it has 8 slabs instead of 2, and up to 200 blocks as ever: otherwise it is refilled so often that
 * a mixed pair of malloc and free costs 105 instructions instead of 96 (99 with jemalloc's own
 * slabs and caches). Making more slabs costs survivors about a fifth more CPU time.
 *
 * Of blocks above a page a cache holds few: jemalloc's own 20 are up to 2.4 MB a thread, and of
 * fewer than 16 threads that sleep nothing takes them. A loop over more than four blocks of 14 to
 * 32 kB costs twice what it does over glibc if it fills them, and more if it hardly touches them.
 * docs/decisions has the others. */
#define DEFAULT_CONF                                                                               \
	"oversize_threshold:262144,dirty_decay_ms:-1,muzzy_decay_ms:-1,lg_extent_max_active_fit:"  \
	"40,"                                                                                      \
	"lg_tcache_nslots_mul:3,tcache_nslots_small_min:4,tcache_nslots_large:4"
#define DEFAULT_SLABS "slab_sizes:1-1280:1|1281-1536:2|1537-2048:1|2049-2560:2|3073-4096:1"

/* The first six are refused to everyone: a bad setting, or what the kernel refuses, is a line on
 * stderr, never the end of the program; a thread that jemalloc starts from inside itself, before
 * the program's libraries are initialised, hangs it; the events that would print statistics serve
 * something else (heap/jemalloc_thread.c); and jemalloc 5.3's huge page allocator looks for pages
 * to purge for ever. */
#define REFUSED_ALWAYS 6
static const char *const refused_keys[] = {
	"abort",          "abort_conf", "background_thread", "max_background_threads",
	"stats_interval", "hpa",        "dirty_decay_ms",    "muzzy_decay_ms",
	"decay_time",
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

/* Nothing at all if it is not asked for. No file of jemalloc's own making: an empty prefix
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

/* ---- messages ---- */

#define LINE_BYTES 160

static const char *conf;
static bool begins;
static bool refuses_pages;
static char kept[8 * LINE_BYTES]; /* lines, each with its newline */
static size_t kept_bytes;

void mt_jemalloc_message_start(const char *given)
{
	conf = given;
	kept_bytes = 0;
	refuses_pages = false;
	begins = true;
}

/* jemalloc's words for a setting that it cannot take; all else is about what the kernel refused it.
 */
static bool is_about_settings(const char *line)
{
	return strstr(line, "onf ") || strstr(line, "narenas") ||
	       strstr(line, "invalid configuration");
}

static const char *about(const char *line)
{
	return is_about_settings(line) ? "MALLOC_CONF or MT_MALLOC_CONF: " : "";
}

/* On a machine of more than a thousand processors jemalloc rejects its own default. */
static bool is_own_choice(const char *line)
{
	return strstr(line, "narenas to limit") && !strstr(conf, "narenas:");
}

bool mt_jemalloc_message_refuses_pages(void)
{
	return refuses_pages;
}

/* jemalloc reads its settings twice, and says so twice. */
static void keep(const char *line)
{
	size_t length = strlen(line);

	kept[kept_bytes] = 0;
	if (strstr(kept, line) || kept_bytes + length + 2 > sizeof(kept))
		return;
	memcpy(kept + kept_bytes, line, length);
	kept[kept_bytes + length] = '\n';
	kept_bytes += length + 1;
}

void mt_jemalloc_message_begun(void)
{
	const char *end;

	begins = false;
	for (const char *line = kept; line < kept + kept_bytes; line = end + 1) {
		end = memchr(line, '\n', (size_t)(kept + kept_bytes - line));
		mt_log(MT_LOG_WARN, "%s%.*s", about(line), (int)(end - line), line);
	}
	kept_bytes = 0;
}

void mt_jemalloc_message(void *unused, const char *text)
{
	char line[LINE_BYTES];
	char whole[2 * LINE_BYTES];
	char prefix[MT_LOG_PREFIX_BYTES];

	(void)unused;
	if (strncmp(text, "<jemalloc>: ", 12) != 0) {
		mt_log_raw(text);
		return;
	}
	(void)mt_format(line, sizeof(line), "%.*s", (int)strcspn(text, "\n"), text);
	if (is_own_choice(line))
		return;
	if (begins && strstr(line, "Unsupported system page size")) {
		refuses_pages = true;
		return;
	}
	if (begins) {
		keep(line);
		return;
	}
	(void)mt_log_prefix(prefix);
	(void)mt_format(whole, sizeof(whole), "%swarn: %s%s\n", prefix, about(line), line);
	mt_log_raw(whole);
}

/* ---- the names that it knows ---- */

#define MIB_LENGTH 8

/* Figures, and what purges and empties a thread's cache. 4096 is MALLCTL_ARENAS_ALL. */
static const char *const names[] = {
	"arena.0.purge",
	"arenas.narenas",
	"epoch",
	"stats.active",
	"stats.allocated",
	"stats.arenas.4096.large.ndalloc",
	"stats.arenas.4096.pdirty",
	"stats.arenas.4096.pmuzzy",
	"stats.arenas.4096.small.ndalloc",
	"stats.metadata",
	"stats.resident",
	"thread.allocatedp",
	"thread.deallocatedp",
	"thread.tcache.flush",
};

static uint64_t page_bytes; /* 0: unknown. Written before another thread uses jemalloc */

uint64_t mt_jemalloc_page_bytes(void)
{
	return page_bytes ? page_bytes : mt_os_page_bytes();
}

static const char *missing_name(void)
{
	size_t mib[MIB_LENGTH];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t length = MIB_LENGTH;

		if (je_mallctlnametomib(names[i], mib, &length) == ENOENT)
			return names[i];
	}
	return NULL;
}

const char *mt_jemalloc_check(void)
{
	static char reason[80];
	const char *missing = missing_name();
	bool has_stats = true;
	size_t page = 0;
	size_t bytes = sizeof(has_stats);

	(void)je_mallctl("config.stats", &has_stats, &bytes, NULL, 0);
	if (!has_stats)
		return "it was built without statistics";
	if (missing) {
		(void)mt_format(reason, sizeof(reason), "it does not know %s", missing);
		return reason;
	}
	bytes = sizeof(page);
	if (je_mallctl("arenas.page", &page, &bytes, NULL, 0) == 0)
		page_bytes = page;
	return NULL;
}
