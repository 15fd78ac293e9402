/* ctl/ui/serve/routes.h -- from a request to its reply. The paths are a fixed table: none is ever
 * the name of a file. For one thread. */
#ifndef MT_CTL_UI_SERVE_ROUTES_H
#define MT_CTL_UI_SERVE_ROUTES_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#include "ctl/ui/serve/cache.h"
#include "ctl/ui/serve/clients.h"
#include "ctl/ui/serve/jobs.h"
#include "ctl/ui/serve/token.h"

/* Which requests are allowed. Protects against pages of other sites in the same browser (DNS
 * rebinding, forged posts), and by a token against other users, who can connect to loopback, too.
 * Each function returns NULL if the request may go on, else the reason. For one thread. */

#define MT_ACCESS_NAMES_MAX 16

/* The right that a request needs. */
enum mt_access_right {
	MT_ACCESS_NOTHING, /* it reveals nothing: the files of the page, /healthz */
	MT_ACCESS_READ,    /* figures of processes */
	MT_ACCESS_CHANGE,  /* a process gets a request, and works or changes */
};

struct mt_access {
	const char *names[MT_ACCESS_NAMES_MAX]; /* the listen address, and those of --allow-host */
	size_t names_count;
	struct mt_token token;  /* for everything */
	struct mt_token reader; /* for figures alone; empty: none */
	bool open;              /* figures need no token */
};

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
