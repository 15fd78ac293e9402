/* ctl/ui/serve/daemon.h -- libmicrohttpd as `mtctl serve` runs it: what of HTTP it lets through,
 * and whom it tells of connections. */
#ifndef MT_CTL_UI_SERVE_DAEMON_H
#define MT_CTL_UI_SERVE_DAEMON_H

#include "ctl/ui/serve/routes.h"

/* It takes connections from `listener`, which must not block, whenever MHD_run is called; NULL with
 * errno. */
struct MHD_Daemon *mt_serve_start(struct mt_server *server, int listener);

#endif
