/* ctl/ui/serve/listen.h -- the address that `mtctl serve` listens on. */
#ifndef MT_CTL_UI_SERVE_LISTEN_H
#define MT_CTL_UI_SERVE_LISTEN_H

#include <stdbool.h>

#include "ctl/output/error.h"

struct mt_listener {
	int fd;
	bool loopback; /* nobody beyond this machine reaches it */
	/* as it was asked for, without brackets: what a Host header may say */
	char host[256];
	/* http://127.0.0.1:9477/, for a browser here; port 0 is replaced by what the kernel gave */
	char url[320];
};

/* "127.0.0.1:9477", "[::1]:9477", "localhost:9477". The socket listens and does not block; the
 * caller closes it. INVALID: no such address. SYSTEM: it cannot be had (in use, not of this
 * machine, a port below 1024). */
enum mt_err mt_listen(const char *address, struct mt_listener *out, struct mt_why *why);

#endif
