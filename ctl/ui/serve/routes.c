/* ctl/ui/serve/routes.c -- see routes.h. */
#include "ctl/ui/serve/routes.h"

#include <stdlib.h>
#include <string.h>

#include "ctl/ui/serve/page.h"
#include "ctl/output/text.h"
#include "core/stats_layout.h"

#define IDLE_S 30u /* a connection on which nothing moves */

/* What libmicrohttpd keeps for us from the first call for a request to its end. */
struct request {
	struct mt_server *server;
	struct MHD_Connection *connection;
	struct mt_job *job;                      /* that it waits for */
	struct mt_response_cache_waiter *waiter; /* the same, for figures */
	pid_t pid;                               /* of the path, 0: none */
};

struct route {
	const char *path; /* '*' stands for a process id */
	bool posts;
	enum mt_access_right right;
	struct mt_response (*answer)(struct request *request);
};

/* ---- what there is ---- */

static struct mt_response answer_health(struct request *request)
{
	static const char text[] = "ok\n";

	(void)request;
	return mt_response_bytes("text/plain; charset=utf-8", text, sizeof(text) - 1,
				 MT_RESPONSE_STATIC);
}

/* The first call suspends the connection where there is no answer yet; the one after its end takes
 * it. */
static struct mt_response answer_by_figures(struct request *request, struct mt_reader_ask ask)
{
	struct mt_response answer = mt_response_cache_get(&request->server->cache, ask,
							  request->connection, &request->waiter);

	if (request->waiter && mt_clients_of(request->connection))
		mt_clients_of(request->connection)->waits = true;
	return answer;
}

static struct mt_response answer_metrics(struct request *request)
{
	const char *accept = MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND,
							 MHD_HTTP_HEADER_ACCEPT);
	bool modern = accept && strstr(accept, "application/openmetrics-text");

	return answer_by_figures(
		request,
		(struct mt_reader_ask){modern ? MT_READER_OPENMETRICS : MT_READER_PLAIN, 0});
}

static struct mt_response answer_processes(struct request *request)
{
	return answer_by_figures(request, (struct mt_reader_ask){MT_READER_PROCESSES, 0});
}

static struct mt_response answer_process(struct request *request)
{
	return answer_by_figures(request, (struct mt_reader_ask){MT_READER_PROCESS, request->pid});
}

/* As with figures; the child is of this request alone. */
static struct mt_response answer_by_job(struct request *request, struct mt_job_request order)
{
	struct mt_response answer = {0};

	order.pid = request->pid;
	request->job = mt_jobs_start(&request->server->jobs, &order, request->connection, &answer);
	if (request->job && mt_clients_of(request->connection))
		mt_clients_of(request->connection)->waits = true;
	return answer;
}

static struct mt_response answer_trim(struct request *request)
{
	const char *level =
		MHD_lookup_connection_value(request->connection, MHD_GET_ARGUMENT_KIND, "level");
	bool light = level && strcmp(level, "light") == 0;
	const struct mt_job_request order = {.kind = MT_JOB_TRIM,
					     .level = light ? MT_LEVEL_LIGHT : MT_LEVEL_HEAVY};

	if (level && !light && strcmp(level, "heavy") != 0)
		return mt_response_error(MHD_HTTP_BAD_REQUEST, "level is light or heavy");
	return answer_by_job(request, order);
}

static struct mt_response answer_snapshot(struct request *request)
{
	return answer_by_job(request, (struct mt_job_request){.kind = MT_JOB_SNAPSHOT});
}

static const struct route routes[] = {
	{"/healthz", false, MT_ACCESS_NOTHING, answer_health},
	{"/metrics", false, MT_ACCESS_READ, answer_metrics},
	{"/api/processes", false, MT_ACCESS_READ, answer_processes},
	{"/api/processes/*", false, MT_ACCESS_READ, answer_process},
	{"/api/processes/*/snapshot", false, MT_ACCESS_ASK, answer_snapshot},
	{"/api/processes/*/trim", true, MT_ACCESS_ASK, answer_trim},
};

/* ---- from a path to it ---- */

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

/* Who asks: another site's page, or somebody without the token. */
static struct mt_response check_asker(struct request *request, const char *url,
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
	return why ? mt_response_locked(status, why) : (struct mt_response){0};
}

/* For the API and the page alike; `route` is NULL for the page's files. */
static struct mt_response check_request(struct request *request, const char *url,
					const char *method, const struct route *route)
{
	const char *why = mt_access_host(&request->server->access_rules, request->connection);
	bool reads = strcmp(method, MHD_HTTP_METHOD_GET) == 0 ||
		     strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
	bool posts = strcmp(method, MHD_HTTP_METHOD_POST) == 0;

	if (why)
		return mt_response_error(MHD_HTTP_FORBIDDEN, why);
	if (strlen(url) > MT_SERVER_URL_MOST)
		return mt_response_error(MHD_HTTP_URI_TOO_LONG, "no path here is so long");
	if (!route && !mt_page_find(url))
		return mt_response_error(MHD_HTTP_NOT_FOUND, "there is nothing of this name");
	if (route && route->posts ? !posts : !reads)
		return mt_response_method(route && route->posts ? "POST" : "GET, HEAD");
	return check_asker(request, url, route);
}

/* Where the request ends. None here needs a body; a short one is read and dropped, so that the
 * connection may go on. */
static struct mt_response check_length(struct request *request)
{
	struct MHD_Connection *connection = request->connection;
	const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
							 MHD_HTTP_HEADER_CONTENT_LENGTH);
	const char *why = mt_access_head(connection);
	uint64_t bytes = 0;

	if (why)
		return mt_response_last(MHD_HTTP_BAD_REQUEST, why);
	if (MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
					MHD_HTTP_HEADER_TRANSFER_ENCODING))
		return mt_response_last(MHD_HTTP_LENGTH_REQUIRED, "a body needs a Content-Length");
	if (length && (!mt_text_parse_u64(length, &bytes) || bytes > MT_SERVER_BODY_MOST))
		return mt_response_last(MHD_HTTP_CONTENT_TOO_LARGE,
					"nothing here takes so long a body");
	return (struct mt_response){0};
}

static struct mt_response answer_request(struct request *request, const char *url)
{
	const struct route *route = find_route(url, &request->pid);
	const struct mt_page *page;

	struct mt_response_cache_waiter *waiter = request->waiter;

	request->waiter = NULL;
	if (waiter)
		return mt_response_cache_take(waiter);
	if (request->job)
		return mt_job_take(&request->server->jobs, request->job);
	if (route)
		return route->answer(request);
	page = mt_page_find(url);
	return mt_response_bytes(page->type, page->bytes, page->length, MT_RESPONSE_STATIC);
}

static enum MHD_Result queue(struct MHD_Connection *connection, struct mt_response answer)
{
	enum MHD_Result result = MHD_queue_response(connection, answer.status, answer.response);

	if (!answer.kept)
		MHD_destroy_response(answer.response);
	return result;
}

/* The first call: everything that can be refused by the head alone is, before any body comes. */
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
	struct mt_response answer;

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
	answer = answer_request(request, url);
	if (answer.response) {
		request->job = NULL;
		return queue(connection, answer);
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
		mt_job_drop(&server->jobs, request->job);
	if (request->waiter)
		mt_response_cache_leave(request->waiter);
	server->requests_count--;
	free(request);
	*place = NULL;
}

/* Paths and arguments here are plain: what is escaped is left as it is, and matches nothing. */
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
		{MHD_OPTION_CONNECTION_LIMIT, MT_CLIENTS_MOST, NULL},
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
