/* ctl/ui/serve/routes.h -- from a request to its reply. The paths are a fixed table: none is ever
 * the name of a file. For one thread. */
#ifndef MT_CTL_UI_SERVE_ROUTES_H
#define MT_CTL_UI_SERVE_ROUTES_H

#include "ctl/ui/serve/clients.h"
#include "ctl/ui/serve/cache.h"
#include "ctl/ui/serve/access.h"
#include "ctl/ui/serve/jobs.h"

/* Limits of a request: a longer path or body is refused. The buffer of a connection holds its whole
 * head. */
#define MT_SERVER_URL_MAX      1024u
#define MT_SERVER_BODY_MAX     4096u
#define MT_SERVER_BUFFER_BYTES ((size_t)16 << 10)

struct mt_server {
	struct mt_access access_rules;
	struct mt_cache cache;
	struct mt_clients clients;
	struct mt_jobs jobs;
	size_t requests_count; /* in progress */
};

/* Starts libmicrohttpd with these routes. It takes connections from `listener`, which must not
 * block, whenever MHD_run is called. NULL: errno says why. */
struct MHD_Daemon *mt_server_start(struct mt_server *server, int listener);

#endif
