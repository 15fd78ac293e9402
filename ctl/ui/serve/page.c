/* ctl/ui/serve/page.c -- see page.h. The assembler includes the files as they are; the Makefile
 * lists them as dependencies. */
#include "ctl/ui/serve/page.h"

#include <string.h>

#define HTML "text/html; charset=utf-8"
#define CSS  "text/css; charset=utf-8"
#define JS   "text/javascript; charset=utf-8"

#define FROM "ctl/ui/serve/page/"

/* The last one is the chart library, which the Makefile copies from the distribution; empty where
 * there is none. */
#define PAGE_FILES(X)                                                                              \
	X(index, "/", FROM "index.html", HTML)                                                     \
	X(icon, "/icon.svg", FROM "icon.svg", "image/svg+xml")                                     \
	X(css, "/page.css", FROM "page.css", CSS)                                                  \
	X(page, "/page.js", FROM "page.js", JS)                                                    \
	X(api, "/api.js", FROM "api.js", JS)                                                       \
	X(chart, "/chart.js", FROM "chart.js", JS)                                                 \
	X(cleaner, "/cleaner.js", FROM "cleaner.js", JS)                                           \
	X(details, "/details.js", FROM "details.js", JS)                                           \
	X(dom, "/dom.js", FROM "dom.js", JS)                                                       \
	X(download, "/download.js", FROM "download.js", JS)                                        \
	X(flame, "/flame.js", FROM "flame.js", JS)                                                 \
	X(format, "/format.js", FROM "format.js", JS)                                              \
	X(history, "/history.js", FROM "history.js", JS)                                           \
	X(overview, "/overview.js", FROM "overview.js", JS)                                        \
	X(pool, "/pool.js", FROM "pool.js", JS)                                                    \
	X(table, "/table.js", FROM "table.js", JS)                                                 \
	X(token, "/token.js", FROM "token.js", JS)                                                 \
	X(treemap, "/treemap.js", FROM "treemap.js", JS)                                           \
	X(dygraph, "/dygraph.js", "build/gen/dygraph.js", JS)

/* Paths are relative to the root of the sources, where make runs. */
#define X(name, path, file, type)                                                                  \
	__asm__(".pushsection .rodata\n"                                                           \
		"page_" #name ":\n\t.incbin \"" file "\"\n"                                        \
		"page_" #name "_end:\n\t.byte 0\n"                                                 \
		".popsection\n");                                                                  \
	extern const unsigned char page_##name[] __attribute__((visibility("hidden")));            \
	extern const unsigned char page_##name##_end[] __attribute__((visibility("hidden")));
PAGE_FILES(X)
#undef X

static struct mt_page pages[] = {
#define X(name, path, file, type) {path, type, page_##name, 0},
	PAGE_FILES(X)
#undef X
};

#define PAGES_COUNT (sizeof(pages) / sizeof(pages[0]))

/* The difference of two addresses is no constant in C: computed before main. */
__attribute__((constructor)) static void measure(void)
{
	static const unsigned char *const ends[] = {
#define X(name, path, file, type) page_##name##_end,
		PAGE_FILES(X)
#undef X
	};

	for (size_t i = 0; i < PAGES_COUNT; i++)
		pages[i].length = (size_t)(ends[i] - pages[i].bytes);
}

const struct mt_page *mt_page_find(const char *path)
{
	for (size_t i = 0; i < PAGES_COUNT; i++)
		if (!strcmp(pages[i].path, path))
			return &pages[i];
	return NULL;
}
