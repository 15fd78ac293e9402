/* ctl/ui/serve/access.h -- which requests are allowed. Protects against pages of other sites in the
 * same browser (DNS rebinding, forged posts), and by a token against other users, who can connect
 * to loopback, too. Each function returns NULL where the request may go on, else the reason. For
 * one thread. */
#ifndef MT_CTL_UI_SERVE_ACCESS_H
#define MT_CTL_UI_SERVE_ACCESS_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#include "ctl/ui/serve/token.h"

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

/* Checks that the head can be read in one way only: a proxy that reads it differently would send
 * replies to the wrong client. */
const char *mt_access_head(struct MHD_Connection *connection);

/* Checks that the Host header is loopback, one of the names, or the local address of the
 * connection. The page of another site that resolves to this machine has its own name there. The
 * port is not checked (ssh -L changes it). */
const char *mt_access_host(const struct mt_access *access_rules, struct MHD_Connection *connection);

/* Checks that the request is not from another site's page, by its Sec-Fetch-Site header. For the
 * API; other sites may link to the page. */
const char *mt_access_site(struct MHD_Connection *connection);

/* mt_access_site, and an Origin header (where there is one) of this server. For requests that
 * change something. */
const char *mt_access_post(struct MHD_Connection *connection);

/* Checks the token, in Authorization: Bearer (which Prometheus can send) or X-Mtctl-Token.
 * *out_status: 401 without the right token, 403 with a token for less. */
const char *mt_access_token(const struct mt_access *access_rules, struct MHD_Connection *connection,
			    enum mt_access_right right, unsigned *out_status);

#endif
