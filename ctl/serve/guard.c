/* ctl/serve/guard.c -- see guard.h. */
#include "ctl/serve/guard.h"

#include <netdb.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

static const char *header(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* "localhost:9477" and "[::1]:9477" without port and brackets. false: neither a name nor an address. */
static bool host_of(const char *text, char *out, size_t out_bytes)
{
	bool bracketed = *text == '[';
	size_t length = strcspn(text += bracketed, bracketed ? "]" : ":");
	const char *rest = text + length + (bracketed && text[length]);

	if (!length || length >= out_bytes || (bracketed && text[length] != ']') || (*rest && *rest != ':'))
		return false;
	if (*rest && strspn(rest + 1, "0123456789") != strlen(rest + 1))
		return false;
	memcpy(out, text, length);
	out[length] = '\0';
	return true;
}

/* A plain address cannot be another site's name, and it is the one that was connected to. */
static bool is_local_end(struct MHD_Connection *connection, const char *host)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	static const char mapped[] = "::ffff:";
	struct sockaddr_storage address;
	socklen_t length = sizeof(address);
	char own[NI_MAXHOST];

	if (!info || getsockname(info->connect_fd, (struct sockaddr *)&address, &length) != 0 ||
	    getnameinfo((struct sockaddr *)&address, length, own, sizeof(own), NULL, 0, NI_NUMERICHOST) != 0)
		return false;
	return strcasecmp(host, own) == 0 ||
	       (strncmp(own, mapped, strlen(mapped)) == 0 && strcasecmp(host, own + strlen(mapped)) == 0);
}

const char *mt_guard_host(const struct mt_guard *guard, struct MHD_Connection *connection)
{
	static const char *const loopback[] = {"localhost", "127.0.0.1", "::1"};
	const char *text = header(connection, MHD_HTTP_HEADER_HOST);
	char host[256];

	if (!text || !host_of(text, host, sizeof(host)))
		return "a request needs a Host header";
	for (size_t i = 0; i < sizeof(loopback) / sizeof(loopback[0]); i++)
		if (strcasecmp(host, loopback[i]) == 0)
			return NULL;
	for (size_t i = 0; i < guard->names_count; i++)
		if (strcasecmp(host, guard->names[i]) == 0)
			return NULL;
	return is_local_end(connection, host) ? NULL : "this Host is not allowed (mtctl serve --allow-host)";
}

const char *mt_guard_site(struct MHD_Connection *connection)
{
	const char *site = header(connection, "Sec-Fetch-Site");

	if (!site || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0)
		return NULL;
	return "pages of other sites get nothing here";
}

/* "http://" or, behind a proxy with TLS, "https://", and what the Host header says. */
static bool is_own_origin(const char *origin, const char *host)
{
	if (strncasecmp(origin, "http://", 7) == 0)
		return strcasecmp(origin + 7, host) == 0;
	return strncasecmp(origin, "https://", 8) == 0 && strcasecmp(origin + 8, host) == 0;
}

const char *mt_guard_post(const struct mt_guard *guard, struct MHD_Connection *connection)
{
	const char *origin = header(connection, MHD_HTTP_HEADER_ORIGIN), *host = header(connection, MHD_HTTP_HEADER_HOST);
	const char *token = header(connection, "X-Mtctl-Token"), *why = mt_guard_site(connection);

	if (why)
		return why;
	if (origin && (!host || !is_own_origin(origin, host)))
		return "pages of other sites change nothing here";
	if (!token)
		return "this needs the header X-Mtctl-Token, with the token that mtctl serve printed at its start";
	return mt_token_matches(&guard->token, token) ? NULL : "this is not the token of this server";
}
