/* ctl/ui/serve/page.h -- the files of the page of `mtctl serve`, compiled in: nothing is read from
 * a disk or fetched, and paths lead only into this table. */
#ifndef MT_CTL_UI_SERVE_PAGE_H
#define MT_CTL_UI_SERVE_PAGE_H

#include <stddef.h>

struct mt_page {
	const char *path; /* "/", "/page.js" */
	const char *type; /* "text/html; charset=utf-8" */
	const unsigned char *bytes;
	size_t length;
};

/* Returns the file of this path; NULL: none. */
const struct mt_page *mt_page_find(const char *path);

#endif
