/* ctl/serve/guard.h -- who may ask what: against pages of other sites that a browser has open (DNS rebinding, forged
 * posts), and for the token. Each function answers NULL where the request may go on, else why it may not. */
#ifndef MT_CTL_SERVE_GUARD_H
#define MT_CTL_SERVE_GUARD_H

#include <microhttpd.h>
#include <stddef.h>

#include "ctl/serve/token.h"

#define MT_GUARD_NAMES_MOST 16

struct mt_guard {
	const char *names[MT_GUARD_NAMES_MOST]; /* the listen address, and --allow-host */
	size_t names_count;
	struct mt_token token;
};

/* The Host header must say loopback, one of the names, or the address on which the connection came in: a page of another
 * site that has its name resolved to this machine says its own name. The port does not matter (ssh -L changes it). */
const char *mt_guard_host(const struct mt_guard *guard, struct MHD_Connection *connection);

/* Of what another site's page asks for, its browser says so. For the API; the page itself may be linked to. */
const char *mt_guard_site(struct MHD_Connection *connection);

/* For what changes something: mt_guard_site, an Origin (where there is one) that is this server, and the token. */
const char *mt_guard_post(const struct mt_guard *guard, struct MHD_Connection *connection);

#endif
