/* fuzz_http.c -- bytes from a client of mtctl serve, pushed into its own libmicrohttpd by
 * MHD_add_connection on one end of a socket pair: so libmicrohttpd's options, the guard, the
 * routes, the answers and the list of clients are those of the server, in their order, with no port
 * and no network, and what is tried is what a client can do, not what a built request can say.
 *
 * An input is what the client sends; a line "%%" is a pause in which the server reads, "%%end"
 * closes the client's side for good. */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ctl/ui/serve/serve.h"
#include "fuzz.h"

#define TOKEN       "0123456789abcdef-token"
#define TURNS_MOST  24
#define ANSWER_MOST ((size_t)1 << 20)

static struct mt_server server;
static struct MHD_Daemon *daemon_of_ours;
static char answer[ANSWER_MOST + 1];

/* No child is made (fuzz.mk: --wrap): there is no process here to be asked for, and the machine's
 * own are not what is tried, and must not be trimmed. */
struct mt_response __wrap_mt_cache_get(struct mt_cache *cache, struct mt_reader_request request,
				       struct MHD_Connection *connection,
				       struct mt_cache_waiter **out_waiter);
struct mt_response __wrap_mt_cache_get(struct mt_cache *cache, struct mt_reader_request request,
				       struct MHD_Connection *connection,
				       struct mt_cache_waiter **out_waiter)
{
	(void)cache;
	(void)connection;
	(void)out_waiter;
	if (request.form == MT_READER_PROCESS)
		return mt_response_error(MHD_HTTP_NOT_FOUND, "no such process");
	return mt_response_bytes("text/plain", "# EOF\n", 6, MT_RESPONSE_STATIC);
}

struct mt_job *__wrap_mt_jobs_start(struct mt_jobs *jobs, const struct mt_job_request *order,
				    struct MHD_Connection *connection,
				    struct mt_response *out_refusal);
struct mt_job *__wrap_mt_jobs_start(struct mt_jobs *jobs, const struct mt_job_request *order,
				    struct MHD_Connection *connection,
				    struct mt_response *out_refusal)
{
	(void)jobs;
	(void)order;
	(void)connection;
	*out_refusal = mt_response_error(MHD_HTTP_NOT_FOUND, "no such process");
	return NULL;
}

/* A listening socket that nobody can reach. */
static int listener(void)
{
	const struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	/* Without a name the kernel gives it an abstract one. */
	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(sa_family_t)) != 0 ||
	    listen(fd, 1) != 0)
		abort();
	return fd;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	server.cache.interval_ms = 3600000;
	server.access_rules.names[server.access_rules.names_count++] = "gpu-box.example";
	strcpy(server.access_rules.token.text, TOKEN);
	daemon_of_ours = mt_server_start(&server, listener());
	if (!daemon_of_ours)
		abort();
	return 0;
}

static bool holds(const char *text, size_t bytes, const char *what)
{
	size_t length = strlen(what);

	for (size_t i = 0; i + length <= bytes; i++)
		if (strncasecmp(text + i, what, length) == 0)
			return true;
	return false;
}

/* Reads what the server has written; false: it has closed. */
static bool drain(int fd, size_t *used)
{
	ssize_t got;

	while (*used < ANSWER_MOST &&
	       (got = recv(fd, answer + *used, ANSWER_MOST - *used, MSG_DONTWAIT)) > 0)
		*used += (size_t)got;
	return *used < ANSWER_MOST && got < 0 && errno == EAGAIN;
}

static void run(int fd, size_t *used)
{
	for (int run_once = 0; run_once < TURNS_MOST; run_once++) {
		size_t before = *used;

		fuzz_expect(MHD_run(daemon_of_ours) == MHD_YES, "%s", "the daemon does not run");
		if (!drain(fd, used) || (run_once > 2 && before == *used))
			break;
	}
}

static void send_all(int fd, const char *text, size_t bytes, size_t *used)
{
	while (bytes) {
		ssize_t sent = send(fd, text, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent <= 0 && errno == EAGAIN && *used < ANSWER_MOST) {
			size_t before = *used;

			run(fd, used);
			if (before == *used)
				return; /* it neither reads nor writes: it is putting us out */
			continue;
		}
		if (sent <= 0)
			return;
		text += sent;
		bytes -= (size_t)sent;
	}
}

/* Up to each line that begins with "%%". */
static void speak(int fd, const char *text, size_t bytes, size_t *used)
{
	const char *end = text + bytes;

	while (text < end) {
		const char *mark = memmem(text, (size_t)(end - text), "\n%%", 3);
		const char *stop = mark ? mark + 1 : end, *line;

		send_all(fd, text, (size_t)(stop - text), used);
		run(fd, used);
		if (!mark)
			return;
		line = memchr(stop, '\n', (size_t)(end - stop));
		if (end - stop >= 5 && memcmp(stop, "%%end", 5) == 0) {
			(void)shutdown(fd, SHUT_WR);
			run(fd, used);
			return;
		}
		text = line ? line + 1 : end;
	}
}

static bool names_us(const char *text, size_t bytes)
{
	return holds(text, bytes, "localhost") || holds(text, bytes, "127.0.0.1") ||
	       holds(text, bytes, "::1") || holds(text, bytes, "gpu-box.example");
}

/* Each head of an answer that is ours, and not libmicrohttpd's own of a request that it cannot
 * read, forbids what it must. */
static void expect_answer(const char *text, size_t bytes, size_t used)
{
	bool has_host = holds(text, bytes, "host:") && names_us(text, bytes),
	     has_token = holds(text, bytes, TOKEN);

	answer[used] = '\0';
	for (const char *at = answer; (at = strstr(at, "HTTP/1.")); at++) {
		const char *end = strstr(at, "\r\n\r\n");
		bool ok = strncmp(at + 8, " 200", 4) == 0;

		if (at != answer && at[-1] != '\n' && at[-1] != '}')
			continue; /* within a body */
		fuzz_expect(!ok || has_host, "%.60s: without a Host that is ours", at);
		fuzz_expect(!end || !ok ||
				    memmem(at, (size_t)(end - at),
					   "X-Content-Type-Options: nosniff", 31),
			    "%.60s", at);
		fuzz_expect(!end || !memmem(at, (size_t)(end - at), "Access-Control-Allow", 20),
			    "%.60s", at);
	}
	/* Behind the guard of a post there is no process here: who is told so has come through. */
	fuzz_expect(has_token || holds(text, bytes, "get") || holds(text, bytes, "head") ||
			    !holds(answer, used, "no process of this id"),
		    "%s", "a post came through without the token");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const struct sockaddr_in address = {.sin_family = AF_INET,
					    .sin_port = htons(4711),
					    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	size_t used = 0;
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0)
		abort();
	fuzz_expect(MHD_add_connection(daemon_of_ours, ends[1], (const struct sockaddr *)&address,
				       sizeof(address)) == MHD_YES,
		    "%s", "no place for a client");
	speak(ends[0], (const char *)data, bytes, &used);
	expect_answer((const char *)data, bytes, used);
	close(ends[0]);
	for (int run_once = 0; run_once < TURNS_MOST && server.clients.count; run_once++) {
		(void)MHD_run(daemon_of_ours);
		mt_clients_expire(&server.clients);
	}
	fuzz_expect(!server.clients.count && !server.requests_count && !server.jobs.count,
		    "%zu clients, %zu requests, %zu jobs", server.clients.count,
		    server.requests_count, server.jobs.count);
	return 0;
}
