/* ctl/ui/serve/routes.c -- see routes.h. */
#include "ctl/ui/serve/routes.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/ui/serve/page.h"
#include "ctl/output/text.h"
#include "core/stats_layout.h"

#define IDLE_S            30u /* of a connection without traffic */
#define CONTENT_TOO_LARGE 413 /* RFC 9110; libmicrohttpd has renamed its own constant */

/* The state of a request, which libmicrohttpd keeps from its first call to its end. */
struct request {
	struct mt_server *server;
	struct MHD_Connection *connection;
	struct mt_job *job;             /* that it waits for */
	struct mt_cache_waiter *waiter; /* that it waits with, for figures */
	pid_t pid;                      /* of the path, 0: none */
};

struct route {
	const char *path; /* '*' stands for a process id */
	bool posts;
	enum mt_access_right right;
	struct mt_response (*reply)(struct request *request);
};

/* ---- replies ---- */

static struct mt_response reply_health(struct request *request)
{
	static const char text[] = "ok\n";

	(void)request;
	return mt_response_bytes("text/plain; charset=utf-8", text, sizeof(text) - 1,
				 MT_RESPONSE_STATIC);
}

/* The first call suspends the connection where there is no reply yet. The call after that takes it.
 */
static struct mt_response reply_from_cache(struct request *request, struct mt_reader_request wanted)
{
	struct mt_response reply = mt_cache_get(&request->server->cache, wanted,
						request->connection, &request->waiter);

	if (request->waiter && mt_clients_of(request->connection))
		mt_clients_of(request->connection)->waits = true;
	return reply;
}

static struct mt_response reply_metrics(struct request *request)
{
	const char *accept = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND,
							 MHD_HTTP_HEADER_ACCEPT);
	bool modern = accept && strstr(accept, "application/openmetrics-text");

	return reply_from_cache(
		request,
		(struct mt_reader_request){modern ? MT_READER_OPENMETRICS : MT_READER_PLAIN, 0});
}

static struct mt_response reply_processes(struct request *request)
{
	return reply_from_cache(request, (struct mt_reader_request){MT_READER_PROCESSES, 0});
}

static struct mt_response reply_process(struct request *request)
{
	return reply_from_cache(request,
				(struct mt_reader_request){MT_READER_PROCESS, request->pid});
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

static struct mt_response reply_trim(struct request *request)
{
	const char *level =
		MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, "level");
	bool light = level && strcmp(level, "light") == 0;
	const struct mt_job_request job = {.kind = MT_JOB_TRIM,
					   .level = light ? MT_LEVEL_LIGHT : MT_LEVEL_HEAVY};

	if (level && !light && strcmp(level, "heavy") != 0)
		return mt_response_error(MHD_HTTP_BAD_REQUEST, "level is light or heavy");
	return reply_by_job(request, job);
}

static struct mt_response reply_snapshot(struct request *request)
{
	return reply_by_job(request, (struct mt_job_request){.kind = MT_JOB_SNAPSHOT});
}

static struct mt_response reply_sites(struct request *request)
{
	return reply_by_job(request, (struct mt_job_request){.kind = MT_JOB_SITES});
}

static struct mt_response reply_lines(struct request *request)
{
	return reply_by_job(request, (struct mt_job_request){.kind = MT_JOB_LINES});
}

/* For who wants to know what a token is good for: only the one for everything comes here. */
static struct mt_response reply_token(struct request *request)
{
	static const char text[] = "{\"changes\":true}";

	(void)request;
	return mt_response_bytes("application/json", text, sizeof(text) - 1, MT_RESPONSE_STATIC);
}

static const struct route routes[] = {
	{"/healthz", false, MT_ACCESS_NOTHING, reply_health},
	{"/metrics", false, MT_ACCESS_READ, reply_metrics},
	{"/api/processes", false, MT_ACCESS_READ, reply_processes},
	{"/api/processes/*", false, MT_ACCESS_READ, reply_process},
	{"/api/token", false, MT_ACCESS_CHANGE, reply_token},
	{"/api/processes/*/sites", false, MT_ACCESS_CHANGE, reply_sites},
	{"/api/processes/*/snapshot", false, MT_ACCESS_CHANGE, reply_snapshot},
	{"/api/processes/*/lines", true, MT_ACCESS_CHANGE, reply_lines},
	{"/api/processes/*/trim", true, MT_ACCESS_CHANGE, reply_trim},
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

/* Checks the client: another site's page, or no token. */
static struct mt_response check_client(struct request *request, const char *url,
				       const struct route *route)
{
	enum mt_access_right right = route ? route->right : MT_ACCESS_NOTHING;
	const char *why = route && route->posts ? mt_access_post(request->connection) : NULL;
	unsigned status = MHD_HTTP_FORBIDDEN;

	if (!why && strncmp(url, "/api/", 5) == 0)
		why = mt_access_site(request->connection);
	if (!why)
		why = mt_access_token(&request->server->access_rules, request->connection, right,
				      &status);
	return why ? mt_response_unauthorized(status, why) : (struct mt_response){0};
}

/* For the API and the page; `route` is NULL for files of the page. */
static struct mt_response check_request(struct request *request, const char *url,
					const char *method, const struct route *route)
{
	const char *why = mt_access_host(&request->server->access_rules, request->connection);
	bool reads = strcmp(method, MHD_HTTP_METHOD_GET) == 0 ||
		     strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
	bool posts = strcmp(method, MHD_HTTP_METHOD_POST) == 0;

	if (why)
		return mt_response_error(MHD_HTTP_FORBIDDEN, why);
	if (strlen(url) > MT_SERVER_URL_MAX)
		return mt_response_error(MHD_HTTP_URI_TOO_LONG, "no path here is so long");
	if (!route && !mt_page_find(url))
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
	const char *why = mt_access_head(connection);
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
		return route->reply(request);
	page = mt_page_find(url);
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
		return begin(request, url, method);
	}
	if (*upload_bytes) {
		*upload_bytes = 0;
		return MHD_YES;
	}
	reply = reply_request(request, url);
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
	if (request->job)
		mt_job_cancel(&server->jobs, request->job);
	if (request->waiter)
		mt_cache_leave(request->waiter);
	server->requests_count--;
	free(request);
	*place = NULL;
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
