/* ctl/ui/serve/page.c -- see page.h. The assembler includes the files as they are; the Makefile
 * lists them as dependencies. */
#include "ctl/ui/serve/page.h"

#include <string.h>

#define HTML "text/html; charset=utf-8"
#define CSS  "text/css; charset=utf-8"
#define JS   "text/javascript; charset=utf-8"

#define PAGE_FILES(X)                                                                              \
	X(index, "/", "index.html", HTML)                                                          \
	X(icon, "/icon.svg", "icon.svg", "image/svg+xml")                                          \
	X(css, "/page.css", "page.css", CSS)                                                       \
	X(page, "/page.js", "page.js", JS)                                                         \
	X(api, "/api.js", "api.js", JS)                                                            \
	X(chart, "/chart.js", "chart.js", JS)                                                      \
	X(cleaner, "/cleaner.js", "cleaner.js", JS)                                                \
	X(details, "/details.js", "details.js", JS)                                                \
	X(dom, "/dom.js", "dom.js", JS)                                                            \
	X(format, "/format.js", "format.js", JS)                                                   \
	X(history, "/history.js", "history.js", JS)                                                \
	X(pool, "/pool.js", "pool.js", JS)                                                         \
	X(table, "/table.js", "table.js", JS)                                                      \
	X(treemap, "/treemap.js", "treemap.js", JS)

/* Paths are relative to the root of the sources, where make runs. */
#define X(name, path, file, type)                                                                  \
	__asm__(".pushsection .rodata\n"                                                           \
		"page_" #name ":\n\t.incbin \"ctl/ui/serve/page/" file "\"\n"                      \
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
