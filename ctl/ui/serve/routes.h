/* ctl/ui/serve/routes.h -- from a request to its answer. The paths are a fixed table: nothing in
 * one is ever a file's name. */
#ifndef MT_CTL_UI_SERVE_ROUTES_H
#define MT_CTL_UI_SERVE_ROUTES_H

#include "ctl/ui/serve/clients.h"
#include "ctl/ui/serve/response_cache.h"
#include "ctl/ui/serve/access.h"
#include "ctl/ui/serve/jobs.h"

/* Of a request: bytes that are longer are refused. A connection's buffer holds its whole head. */
#define MT_SERVER_URL_MOST     1024u
#define MT_SERVER_BODY_MOST    4096u
#define MT_SERVER_BUFFER_BYTES ((size_t)16 << 10)

struct mt_server {
	struct mt_access access_rules;
	struct mt_response_cache cache;
	struct mt_clients clients;
	struct mt_jobs jobs;
	size_t requests_count; /* under way */
};

/* Starts libmicrohttpd with these routes. It takes connections from `listener`, which must not
 * block, whenever MHD_run is called. NULL: errno says why. */
struct MHD_Daemon *mt_server_start(struct mt_server *server, int listener);

#endif
