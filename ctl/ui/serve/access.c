/* ctl/ui/serve/access.c -- see access.h. */
#include "ctl/ui/serve/access.h"

#include <netdb.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

static const char *header(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

struct head {
	unsigned hosts, lengths, encodings;
	bool odd;
};

static enum MHD_Result look_at_header(void *cls, enum MHD_ValueKind kind, const char *key,
				      const char *value)
{
	struct head *head = cls;

	(void)kind;
	(void)value;
	head->hosts += strcasecmp(key, MHD_HTTP_HEADER_HOST) == 0;
	head->lengths += strcasecmp(key, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
	head->encodings += strcasecmp(key, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0;
	head->odd |= !*key || key[strcspn(key, " \t\r\n\"(),/:;<=>?@[\\]{}")];
	return MHD_YES;
}

const char *mt_access_head(struct MHD_Connection *connection)
{
	struct head head = {0};

	(void)MHD_get_connection_values(connection, MHD_HEADER_KIND, look_at_header, &head);
	if (head.odd || head.hosts > 1 || head.lengths > 1 || head.encodings > 1 ||
	    (head.lengths && head.encodings))
		return "there are two ways to read this request";
	return NULL;
}

/* "localhost:9477" and "[::1]:9477" without port and brackets. false: neither a name nor an
 * address. */
static bool host_of(const char *text, char *out, size_t out_bytes)
{
	bool bracketed = *text == '[';
	size_t length = strcspn(text += bracketed, bracketed ? "]" : ":");
	const char *rest = text + length + (bracketed && text[length]);

	if (!length || length >= out_bytes || (bracketed && text[length] != ']') ||
	    (*rest && *rest != ':'))
		return false;
	if (*rest && strspn(rest + 1, "0123456789") != strlen(rest + 1))
		return false;
	memcpy(out, text, length);
	out[length] = '\0';
	return true;
}

/* Whether the host is the address that the connection came in on: an address is no other site's
 * name. */
static bool is_local_end(struct MHD_Connection *connection, const char *host)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	static const char mapped[] = "::ffff:";
	struct sockaddr_storage address;
	socklen_t length = sizeof(address);
	char own[NI_MAXHOST];

	if (!info || getsockname(info->connect_fd, (struct sockaddr *)&address, &length) != 0 ||
	    getnameinfo((struct sockaddr *)&address, length, own, sizeof(own), NULL, 0,
			NI_NUMERICHOST) != 0)
		return false;
	return strcasecmp(host, own) == 0 || (strncmp(own, mapped, strlen(mapped)) == 0 &&
					      strcasecmp(host, own + strlen(mapped)) == 0);
}

const char *mt_access_host(const struct mt_access *access_rules, struct MHD_Connection *connection)
{
	static const char *const loopback[] = {"localhost", "127.0.0.1", "::1"};
	const char *text = header(connection, MHD_HTTP_HEADER_HOST);
	char host[256];

	if (!text || !host_of(text, host, sizeof(host)))
		return "a request needs a Host header";
	for (size_t i = 0; i < sizeof(loopback) / sizeof(loopback[0]); i++)
		if (strcasecmp(host, loopback[i]) == 0)
			return NULL;
	for (size_t i = 0; i < access_rules->names_count; i++)
		if (strcasecmp(host, access_rules->names[i]) == 0)
			return NULL;
	return is_local_end(connection, host)
		       ? NULL
		       : "this Host is not allowed (mtctl serve --allow-host)";
}

const char *mt_access_site(struct MHD_Connection *connection)
{
	const char *site = header(connection, "Sec-Fetch-Site");

	if (!site || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0)
		return NULL;
	return "pages of other sites get nothing here";
}

/* "http://" or, behind a proxy with TLS, "https://", and the Host header. */
static bool is_own_origin(const char *origin, const char *host)
{
	if (strncasecmp(origin, "http://", 7) == 0)
		return strcasecmp(origin + 7, host) == 0;
	return strncasecmp(origin, "https://", 8) == 0 && strcasecmp(origin + 8, host) == 0;
}

const char *mt_access_post(struct MHD_Connection *connection)
{
	const char *origin = header(connection, MHD_HTTP_HEADER_ORIGIN),
		   *host = header(connection, MHD_HTTP_HEADER_HOST);
	const char *why = mt_access_site(connection);

	if (why)
		return why;
	return origin && (!host || !is_own_origin(origin, host))
		       ? "pages of other sites change nothing here"
		       : NULL;
}

/* NULL: none. */
static const char *given_token(struct MHD_Connection *connection)
{
	static const char bearer[] = "Bearer ";
	const char *own = header(connection, "X-Mtctl-Token");
	const char *usual = header(connection, MHD_HTTP_HEADER_AUTHORIZATION);

	if (own || !usual || strncasecmp(usual, bearer, strlen(bearer)) != 0)
		return own;
	usual += strlen(bearer);
	return usual + strspn(usual, " ");
}

const char *mt_access_token(const struct mt_access *access_rules, struct MHD_Connection *connection,
			    enum mt_access_right right, unsigned *out_status)
{
	const char *given = given_token(connection);
	bool whole = given && mt_token_matches(&access_rules->token, given);
	bool reads = given && mt_token_matches(&access_rules->reader, given);

	if (whole || right == MT_ACCESS_NOTHING ||
	    (right == MT_ACCESS_READ && (reads || access_rules->open)))
		return NULL;
	*out_status = reads ? MHD_HTTP_FORBIDDEN : MHD_HTTP_UNAUTHORIZED;
	if (reads)
		return "this token may read figures, and no more";
	return given ? "this is not the token of this server"
		     : "this needs the token of this server, which it prints or has in its "
		       "--token-file: Authorization: Bearer TOKEN";
}
