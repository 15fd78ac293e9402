/* ctl/ui/serve/listen.h -- the address that `mtctl serve` listens on. */
#ifndef MT_CTL_UI_SERVE_LISTEN_H
#define MT_CTL_UI_SERVE_LISTEN_H

#include <stdbool.h>

#include "ctl/output/error.h"

struct mt_listener {
	int fd;
	bool loopback; /* only this machine reaches it */
	/* as given, without brackets: what a Host header may contain */
	char host[256];
	/* http://127.0.0.1:9477/, for a browser on this machine; with the real port for port 0 */
	char url[320];
};

/* Opens a listening socket that does not block, for "127.0.0.1:9477", "[::1]:9477",
 * "localhost:9477". The caller closes it. INVALID: no such address. SYSTEM: it cannot be used
 * (taken, of another machine, a port below 1024). */
enum mt_err mt_listen(const char *address, struct mt_listener *out, struct mt_error_reason *why);

#endif
