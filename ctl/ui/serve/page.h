/* ctl/ui/serve/page.h -- the page of `mtctl serve`: its files, compiled in, so that nothing is read
 * from a disk or fetched from elsewhere, and no path leads anywhere but into this table. */
#ifndef MT_CTL_UI_SERVE_PAGE_H
#define MT_CTL_UI_SERVE_PAGE_H

#include <stddef.h>

struct mt_page {
	const char *path; /* as it is asked for: "/", "/page.js" */
	const char *type; /* "text/html; charset=utf-8" */
	const unsigned char *bytes;
	size_t length;
};

/* NULL: there is none of this path. */
const struct mt_page *mt_page_find(const char *path);

#endif
