/* ctl/ui/serve/access.h -- who may ask what: against pages of other sites that a browser has open
 * (DNS rebinding, forged posts), and by token: on loopback every user of the machine can connect.
 * Each function answers NULL where the request may go on, else why it may not. */
#ifndef MT_CTL_UI_SERVE_ACCESS_H
#define MT_CTL_UI_SERVE_ACCESS_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#include "ctl/ui/serve/token.h"

#define MT_ACCESS_NAMES_MAX 16

/* What a request needs. */
enum mt_access_right {
	MT_ACCESS_NOTHING, /* it tells nothing: the files of the page, /healthz */
	MT_ACCESS_READ,    /* figures */
	MT_ACCESS_ASK,     /* a process is asked for something: it works, or changes */
};

struct mt_access {
	const char *names[MT_ACCESS_NAMES_MAX]; /* the listen address, and --allow-host */
	size_t names_count;
	struct mt_token token;  /* for everything */
	struct mt_token reader; /* for figures alone; empty: there is none */
	bool open;              /* figures are for whoever reaches the server */
};

/* One reading alone: a proxy before us that takes another one would hand our answers to the wrong
 * client. */
const char *mt_access_head(struct MHD_Connection *connection);

/* The Host header must say loopback, one of the names, or the address on which the connection came
 * in: a page of another site that has its name resolved to this machine says its own name. The port
 * does not matter (ssh -L changes it). */
const char *mt_access_host(const struct mt_access *access_rules, struct MHD_Connection *connection);

/* Of what another site's page asks for, its browser says so. For the API; the page itself may be
 * linked to. */
const char *mt_access_site(struct MHD_Connection *connection);

/* For what changes something: mt_access_site, and an Origin (where there is one) that is this
 * server. */
const char *mt_access_post(struct MHD_Connection *connection);

/* The token, as Authorization: Bearer (what Prometheus can send) or X-Mtctl-Token. The status: 401
 * without the right one, 403 with one that is for less. */
const char *mt_access_token(const struct mt_access *access_rules, struct MHD_Connection *connection,
			    enum mt_access_right right, unsigned *out_status);

#endif
