#include "ctl/ui/serve/serve.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "ctl/output/text.h"
#include "core/stats_layout.h"

/* The files of the page of `mtctl serve`, compiled in: nothing is read from
 * a disk or fetched, and paths lead only into this table. */

struct mt_page {
	const char *path; /* "/", "/page.js" */
	const char *type; /* "text/html; charset=utf-8" */
	const unsigned char *bytes;
	size_t length;
};

#define HTML "text/html; charset=utf-8"
#define CSS  "text/css; charset=utf-8"
#define JS   "text/javascript; charset=utf-8"

#define FROM "ctl/ui/serve/page/"

/* The last one is the chart library, which the Makefile copies from the distribution; empty if
 * there is none. */
#define PAGE_FILES(X)                                                                              \
	X(index, "/", FROM "index.html", HTML)                                                     \
	X(icon, "/icon.svg", FROM "icon.svg", "image/svg+xml")                                     \
	X(css, "/page.css", FROM "page.css", CSS)                                                  \
	X(page, "/page.js", FROM "page.js", JS)                                                    \
	X(api, "/api.js", FROM "api.js", JS)                                                       \
	X(chart, "/chart.js", FROM "chart.js", JS)                                                 \
	X(cleaner, "/cleaner.js", FROM "cleaner.js", JS)                                           \
	X(details, "/details.js", FROM "details.js", JS)                                           \
	X(dom, "/dom.js", FROM "dom.js", JS)                                                       \
	X(download, "/download.js", FROM "download.js", JS)                                        \
	X(flame, "/flame.js", FROM "flame.js", JS)                                                 \
	X(format, "/format.js", FROM "format.js", JS)                                              \
	X(history, "/history.js", FROM "history.js", JS)                                           \
	X(overview, "/overview.js", FROM "overview.js", JS)                                        \
	X(pool, "/pool.js", FROM "pool.js", JS)                                                    \
	X(table, "/table.js", FROM "table.js", JS)                                                 \
	X(token, "/token.js", FROM "token.js", JS)                                                 \
	X(dygraph, "/dygraph.js", "build/gen/dygraph.js", JS)

/* Paths are relative to the root of the sources, where make runs. */
#define X(name, path, file, type)                                                                  \
	__asm__(".pushsection .rodata\n"                                                           \
		"page_" #name ":\n\t.incbin \"" file "\"\n"                                        \
		"page_" #name "_end:\n\t.byte 0\n"                                                 \
		".popsection\n");                                                                  \
	extern const unsigned char page_##name[] __attribute__((visibility("hidden")));            \
	extern const unsigned char page_##name##_end[] __attribute__((visibility("hidden")));
PAGE_FILES(X)
#undef X

static struct mt_page pages[] = {
#define X(name, path, file, type) {path, type, page_##name, 0},
	PAGE_FILES(X)
#undef X
};

#define PAGES_COUNT (sizeof(pages) / sizeof(pages[0]))

/* The difference of two addresses is no constant in C: computed before main. */
__attribute__((constructor)) static void measure(void)
{
	static const unsigned char *const ends[] = {
#define X(name, path, file, type) page_##name##_end,
		PAGE_FILES(X)
#undef X
	};

	for (size_t i = 0; i < PAGES_COUNT; i++)
		pages[i].length = (size_t)(ends[i] - pages[i].bytes);
}

/* Returns the file of this path; NULL: none. */
static const struct mt_page *page_find(const char *path)
{
	for (size_t i = 0; i < PAGES_COUNT; i++)
		if (!strcmp(pages[i].path, path))
			return &pages[i];
	return NULL;
}

/* ---- access ---- */

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

/* Checks that the head can be read in one way only: a proxy that reads it differently would send
 * replies to the wrong client. */
static const char *access_head(struct MHD_Connection *connection)
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

/* Checks that the Host header is loopback, one of the names, or the local address of the
 * connection. The page of another site that resolves to this machine has its own name there. The
 * port is not checked (ssh -L changes it). */
static const char *access_host(const struct mt_access *access_rules,
			       struct MHD_Connection *connection, const char *text)
{
	static const char *const loopback[] = {"localhost", "127.0.0.1", "::1"};
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

/* Checks that the request is not from another site's page, by its Sec-Fetch-Site header. For the
 * API; other sites may link to the page. */
static const char *access_site(struct MHD_Connection *connection)
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

/* access_site, and an Origin header (if there is one) of this server. For requests that
 * change something. */
static const char *access_post(struct MHD_Connection *connection, const char *host)
{
	const char *origin = header(connection, MHD_HTTP_HEADER_ORIGIN);
	const char *why = access_site(connection);

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

/* Checks the token, in Authorization: Bearer (which Prometheus can send) or X-Mtctl-Token.
 * *out_status: 401 without the right token, 403 with a token for less. */
static const char *access_token(const struct mt_access *access_rules,
				struct MHD_Connection *connection, enum mt_access_right right,
				unsigned *out_status)
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

#define IDLE_S            30u /* of a connection without traffic */
#define CONTENT_TOO_LARGE 413 /* RFC 9110; libmicrohttpd has renamed its own constant */

/* The state of a request, which libmicrohttpd keeps from its target to its end. */
struct request {
	struct mt_server *server;
	struct MHD_Connection *connection;
	char host[256];     /* of a target with a host, "" none: stands for the Host header */
	struct mt_job *job; /* that it waits for */
	struct mt_cache_waiter *waiter; /* that it waits with, for figures */
	pid_t pid;                      /* of the path, 0: none */
};

struct route {
	const char *path; /* '*' stands for a process id */
	bool posts;
	enum mt_access_right right;
	struct mt_response (*reply)(struct request *request, unsigned what);
	unsigned what; /* enum mt_reader_form of figures, enum mt_job_kind of work */
};

/* ---- replies ---- */

static struct mt_response reply_health(struct request *request, unsigned what)
{
	static const char text[] = "ok\n";

	(void)request;
	(void)what;
	return mt_response_bytes("text/plain; charset=utf-8", text, sizeof(text) - 1,
				 MT_RESPONSE_STATIC);
}

/* The first call suspends the connection if there is no reply yet. The call after that takes it.
 */
static struct mt_response reply_figures(struct request *request, unsigned form)
{
	const struct mt_reader_request wanted = {(enum mt_reader_form)form, request->pid};
	struct mt_response reply = mt_cache_get(&request->server->cache, wanted,
						request->connection, &request->waiter);

	if (request->waiter && mt_clients_of(request->connection))
		mt_clients_of(request->connection)->waits = true;
	return reply;
}

static struct mt_response reply_metrics(struct request *request, unsigned form)
{
	const char *accept = header(request->connection, MHD_HTTP_HEADER_ACCEPT);

	if (!accept || !strstr(accept, "application/openmetrics-text"))
		form = MT_READER_PLAIN;
	return reply_figures(request, form);
}

/* As with figures, but with a child for this request alone. */
static struct mt_response reply_by_job(struct request *request, struct mt_job_request job)
{
	struct mt_response reply = {0};

	job.pid = request->pid;
	request->job = mt_jobs_start(&request->server->jobs, &job, request->connection, &reply);
	if (request->job && mt_clients_of(request->connection))
		mt_clients_of(request->connection)->waits = true;
	return reply;
}

static struct mt_response reply_look(struct request *request, unsigned kind)
{
	return reply_by_job(request, (struct mt_job_request){.kind = (enum mt_job_kind)kind});
}

static struct mt_response reply_trim(struct request *request, unsigned kind)
{
	const char *level =
		MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, "level");
	bool light = level && strcmp(level, "light") == 0;
	const struct mt_job_request job = {.kind = (enum mt_job_kind)kind,
					   .level = light ? MT_LEVEL_LIGHT : MT_LEVEL_HEAVY};

	if (level && !light && strcmp(level, "heavy") != 0)
		return mt_response_error(MHD_HTTP_BAD_REQUEST, "level is light or heavy");
	return reply_by_job(request, job);
}

/* For who wants to know what a token is good for: only the one for everything comes here. */
static struct mt_response reply_token(struct request *request, unsigned what)
{
	static const char text[] = "{\"changes\":true}";

	(void)request;
	(void)what;
	return mt_response_bytes("application/json", text, sizeof(text) - 1, MT_RESPONSE_STATIC);
}

static const struct route routes[] = {
	{"/healthz", false, MT_ACCESS_NOTHING, reply_health, 0},
	{"/metrics", false, MT_ACCESS_READ, reply_metrics, MT_READER_OPENMETRICS},
	{"/api/processes", false, MT_ACCESS_READ, reply_figures, MT_READER_PROCESSES},
	{"/api/processes/*", false, MT_ACCESS_READ, reply_figures, MT_READER_PROCESS},
	{"/api/token", false, MT_ACCESS_CHANGE, reply_token, 0},
	{"/api/processes/*/sites", false, MT_ACCESS_CHANGE, reply_look, MT_JOB_SITES},
	{"/api/processes/*/snapshot", false, MT_ACCESS_CHANGE, reply_look, MT_JOB_SNAPSHOT},
	{"/api/processes/*/lines", true, MT_ACCESS_CHANGE, reply_look, MT_JOB_LINES},
	{"/api/processes/*/trim", true, MT_ACCESS_CHANGE, reply_trim, MT_JOB_TRIM},
};

/* ---- from a path to a reply ---- */

static bool matches(const char *path, const char *url, pid_t *out_pid)
{
	const char *star = strchr(path, '*');
	size_t before = star ? (size_t)(star - path) : 0, digits;
	char pid[16];

	if (!star)
		return strcmp(path, url) == 0;
	digits = strncmp(path, url, before) == 0 ? strspn(url + before, "0123456789") : 0;
	if (!digits || digits >= sizeof(pid) || strcmp(url + before + digits, star + 1) != 0)
		return false;
	memcpy(pid, url + before, digits);
	pid[digits] = '\0';
	return mt_process_parse_pid(pid, out_pid) == MT_ERR_OK;
}

static const struct route *find_route(const char *url, pid_t *out_pid)
{
	for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
		if (matches(routes[i].path, url, out_pid))
			return &routes[i];
	return NULL;
}

/* The host that the request names: of its target, or else of its Host header. NULL: none. */
static const char *host_of_request(const struct request *request)
{
	const char *host = header(request->connection, MHD_HTTP_HEADER_HOST);

	return host && *request->host ? request->host : host;
}

/* Returns the path of a target, which RFC 9112 (3.2.2) lets a client write with the host before it,
 * as http://host/path. That host then counts, and not the Host header. */
static const char *path_of(struct request *request, const char *target)
{
	static const char *const schemes[] = {"http://", "https://"};

	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		const char *host = target + strlen(schemes[i]);
		size_t length;

		if (strncasecmp(target, schemes[i], strlen(schemes[i])) != 0)
			continue;
		length = strcspn(host, "/");
		if (!length || length >= sizeof(request->host))
			return target;
		memcpy(request->host, host, length);
		request->host[length] = '\0';
		return host[length] ? host + length : "/";
	}
	return target;
}

/* Checks the client: another site's page, or no token. */
static struct mt_response check_client(struct request *request, const char *url,
				       const struct route *route)
{
	enum mt_access_right right = route ? route->right : MT_ACCESS_NOTHING;
	const char *why = route && route->posts
				  ? access_post(request->connection, host_of_request(request))
				  : NULL;
	unsigned status = MHD_HTTP_FORBIDDEN;

	if (!why && strncmp(url, "/api/", 5) == 0)
		why = access_site(request->connection);
	if (!why)
		why = access_token(&request->server->access_rules, request->connection, right,
				   &status);
	return why ? mt_response_unauthorized(status, why) : (struct mt_response){0};
}

/* For the API and the page; `route` is NULL for files of the page. */
static struct mt_response check_request(struct request *request, const char *url,
					const char *method, const struct route *route)
{
	const char *why = access_host(&request->server->access_rules, request->connection,
				      host_of_request(request));
	bool reads = strcmp(method, MHD_HTTP_METHOD_GET) == 0 ||
		     strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
	bool posts = strcmp(method, MHD_HTTP_METHOD_POST) == 0;

	if (why)
		return mt_response_error(MHD_HTTP_FORBIDDEN, why);
	if (strlen(url) > MT_SERVER_URL_MAX)
		return mt_response_error(MHD_HTTP_URI_TOO_LONG, "no path here is so long");
	if (!route && !page_find(url))
		return mt_response_error(MHD_HTTP_NOT_FOUND, "there is nothing of this name");
	if (route && route->posts ? !posts : !reads)
		return mt_response_method(route && route->posts ? "POST" : "GET, HEAD");
	return check_client(request, url, route);
}

/* Checks where the request ends. No request here needs a body; a short one is read and dropped, so
 * that the connection can be used again. */
static struct mt_response check_length(struct request *request)
{
	struct MHD_Connection *connection = request->connection;
	const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
							 MHD_HTTP_HEADER_CONTENT_LENGTH);
	const char *why = access_head(connection);
	uint64_t bytes = 0;

	if (why)
		return mt_response_closing(MHD_HTTP_BAD_REQUEST, why);
	if (MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
					MHD_HTTP_HEADER_TRANSFER_ENCODING))
		return mt_response_closing(MHD_HTTP_LENGTH_REQUIRED,
					   "a body needs a Content-Length");
	if (length && (!mt_text_parse_u64(length, &bytes) || bytes > MT_SERVER_BODY_MAX))
		return mt_response_closing(CONTENT_TOO_LARGE, "nothing here takes so long a body");
	return (struct mt_response){0};
}

static struct mt_response reply_request(struct request *request, const char *url)
{
	const struct route *route = find_route(url, &request->pid);
	const struct mt_page *page;
	struct mt_cache_waiter *waiter = request->waiter;

	request->waiter = NULL;
	if (waiter)
		return mt_cache_take(waiter);
	if (request->job)
		return mt_job_result(&request->server->jobs, request->job);
	if (route)
		return route->reply(request, route->what);
	page = page_find(url);
	return mt_response_bytes(page->type, page->bytes, page->length, MT_RESPONSE_STATIC);
}

static enum MHD_Result queue(struct MHD_Connection *connection, struct mt_response reply)
{
	enum MHD_Result result = MHD_queue_response(connection, reply.status, reply.response);

	if (!reply.kept)
		MHD_destroy_response(reply.response);
	return result;
}

/* The first call: refuses what the head shows, before a body comes. */
static enum MHD_Result begin(struct request *request, const char *url, const char *method)
{
	pid_t pid;
	struct mt_response refusal = check_length(request);

	if (!refusal.response)
		refusal = check_request(request, url, method, find_route(url, &pid));
	return refusal.response ? queue(request->connection, refusal) : MHD_YES;
}

static enum MHD_Result handle(void *cls, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *upload,
			      size_t *upload_bytes, void **place)
{
	struct request *request = *place;
	struct mt_response reply;

	(void)version;
	(void)upload;
	if (!request) {
		request = mt_error_check_memory(calloc(1, sizeof(*request)));
		*request = (struct request){.server = cls, .connection = connection};
		*place = request;
		request->server->requests_count++;
		return begin(request, path_of(request, url), method);
	}
	if (*upload_bytes) {
		*upload_bytes = 0;
		return MHD_YES;
	}
	reply = reply_request(request, path_of(request, url));
	if (reply.response) {
		request->job = NULL;
		return queue(connection, reply);
	}
	return request->job || request->waiter ? MHD_YES : MHD_NO;
}

static void end_request(void *cls, struct MHD_Connection *connection, void **place,
			enum MHD_RequestTerminationCode code)
{
	struct mt_server *server = cls;
	struct mt_client *client = mt_clients_of(connection);
	struct request *request = *place;

	(void)code;
	if (client)
		mt_clients_done(client);
	if (!request)
		return;
	*place = NULL;
	if (request->job)
		mt_job_cancel(&server->jobs, request->job);
	if (request->waiter)
		mt_cache_leave(request->waiter);
	server->requests_count--;
	free(request);
}

/* Leaves escapes in paths and arguments as they are: they match nothing. */
static size_t leave_escaped(void *cls, struct MHD_Connection *connection, char *text)
{
	(void)cls;
	(void)connection;
	return strlen(text);
}

struct MHD_Daemon *mt_server_start(struct mt_server *server, int listener)
{
	const struct MHD_OptionItem options[] = {
		{MHD_OPTION_LISTEN_SOCKET, listener, NULL},
		{MHD_OPTION_CONNECTION_LIMIT, MT_CLIENTS_MAX, NULL},
		{MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, NULL},
		{MHD_OPTION_CONNECTION_MEMORY_LIMIT, (intptr_t)MT_SERVER_BUFFER_BYTES, NULL},
		{MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL},
		{MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)leave_escaped, NULL},
		{MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)mt_clients_notify, &server->clients},
		{MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)end_request, server},
		{MHD_OPTION_END, 0, NULL},
	};

	return MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, handle,
				server, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
}
