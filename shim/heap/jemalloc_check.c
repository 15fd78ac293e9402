#include "heap/jemalloc_check.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "heap/jemalloc_names.h"
#include "sys/format.h"
#include "sys/os.h"

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
