/* ctl/ui/serve/main.c -- the program of mtctl serve: the command line and the loop. One thread;
 * children do what takes long. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctl/command.h"
#include "ctl/output/text.h"
#include "ctl/process/clock.h"
#include "ctl/ui/serve/serve.h"

/* ---- listen ---- */

/* The address that `mtctl serve` listens on. */
struct mt_listener {
	int fd;
	bool loopback; /* only this machine reaches it */
	/* as given, without brackets: what a Host header may contain */
	char host[256];
	/* http://127.0.0.1:9477/, for a browser on this machine; with the real port for port 0 */
	char url[320];
};

#define BACKLOG 512 /* the kernel applies its own limit */

/* Splits at the last colon, and removes brackets around the host. */
static enum mt_err split(const char *address, struct mt_listener *out, const char **port,
			 struct mt_error_reason *why)
{
	const char *colon = strrchr(address, ':');
	size_t length = colon ? (size_t)(colon - address) : 0;
	bool bracketed = length > 2 && address[0] == '[' && colon[-1] == ']';
	uint64_t number;

	if (!length || !mt_text_parse_u64(colon + 1, &number) || number > 65535)
		return mt_error_because(
			why, MT_ERR_INVALID,
			"--listen takes ADDRESS:PORT, for example 127.0.0.1:9477 or [::1]:9477");
	if (!bracketed && memchr(address, ':', length))
		return mt_error_because(why, MT_ERR_INVALID,
					"an IPv6 address stands in brackets: [::1]:9477");
	address += bracketed;
	length -= bracketed * (size_t)2;
	if (length >= sizeof(out->host))
		return mt_error_because(why, MT_ERR_INVALID, "the address is too long");
	memcpy(out->host, address, length);
	out->host[length] = '\0';
	*port = colon + 1;
	return MT_ERR_OK;
}

static bool is_loopback(const struct sockaddr *address)
{
	const struct in6_addr *is_ipv6 =
		&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;

	if (address->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)address)
				     ->sin_addr.s_addr) >>
			       24 ==
		       127;
	return IN6_IS_ADDR_LOOPBACK(is_ipv6) ||
	       (IN6_IS_ADDR_V4MAPPED(is_ipv6) && is_ipv6->s6_addr[12] == 127);
}

static bool is_any(const struct sockaddr *address)
{
	if (address->sa_family == AF_INET)
		return ((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr ==
		       htonl(INADDR_ANY);
	return IN6_IS_ADDR_UNSPECIFIED(
		&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

/* Reads the bound address from the kernel. A socket on all addresses is reached by loopback from
 * this machine. */
static void describe(struct mt_listener *listener)
{
	struct sockaddr_storage address = {0};
	socklen_t length = sizeof(address);
	const struct sockaddr *plain = (const struct sockaddr *)&address;
	char host[INET6_ADDRSTRLEN] = "", port[8] = "";
	bool is_ipv6;

	(void)getsockname(listener->fd, (struct sockaddr *)&address, &length);
	(void)getnameinfo(plain, length, host, sizeof(host), port, sizeof(port),
			  NI_NUMERICHOST | NI_NUMERICSERV);
	is_ipv6 = plain->sa_family == AF_INET6;
	if (is_any(plain))
		snprintf(host, sizeof(host), "%s", is_ipv6 ? "::1" : "127.0.0.1");
	listener->loopback = is_loopback(plain);
	snprintf(listener->url, sizeof(listener->url),
		 is_ipv6 ? "http://[%s]:%s/" : "http://%s:%s/", host, port);
}

/* Returns a listening socket, or -1 with errno. A port with connections in TIME_WAIT can be bound
 * again at once. */
static int open_socket(const struct addrinfo *where)
{
	const int on = 1;
	int fd = socket(where->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), saved;

	if (fd < 0)
		return -1;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, where->ai_addr, where->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

/* Opens a listening socket that does not block, for "127.0.0.1:9477", "[::1]:9477",
 * "localhost:9477". The caller closes it. INVALID: no such address. SYSTEM: it cannot be used
 * (taken, of another machine, a port below 1024). */
static enum mt_err listen_at(const char *address, struct mt_listener *out,
			     struct mt_error_reason *why)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	struct mt_listener listener = {.fd = -1};
	struct addrinfo *found;
	const char *port = NULL;
	int code;
	enum mt_err error = split(address, &listener, &port, why);

	if (error)
		return error;
	code = getaddrinfo(listener.host, port, &hints, &found);
	if (code != 0)
		return mt_error_because(why, MT_ERR_INVALID, "cannot listen on %.200s: %s", address,
					gai_strerror(code));
	for (const struct addrinfo *one = found; one && listener.fd < 0; one = one->ai_next)
		listener.fd = open_socket(one);
	freeaddrinfo(found);
	if (listener.fd < 0)
		return mt_error_because(why, MT_ERR_SYSTEM, "cannot listen on %.200s: %s", address,
					strerror(errno));
	describe(&listener);
	*out = listener;
	return MT_ERR_OK;
}

/* interval between checks of the clients, while there are any */
#define CHECK_MS    1000
#define SHUTDOWN_MS 1000u /* for replies in progress, at the end */
#define INTERVAL_MS 250u

struct arguments {
	const char *listen, *token_file, *reader_file;
	struct mt_server *server;
};

struct loop {
	struct mt_server *server;
	struct MHD_Daemon *daemon;
	int epoll, signals;
};

/* ---- the command line ---- */

static bool add_host(const struct mt_option *option, const char *name)
{
	struct mt_access *access_rules = option->target;

	if (access_rules->names_count == MT_ACCESS_NAMES_MAX - 1) {
		mt_error_say("--allow-host can be given %u times", MT_ACCESS_NAMES_MAX - 1);
		return false;
	}
	access_rules->names[access_rules->names_count++] = name;
	return true;
}

static bool read_arguments(int argc, char **argv, struct arguments *arguments, int *out_code)
{
	struct mt_access *access_rules = &arguments->server->access_rules;
	const struct mt_option options[] = {
		{.name = "listen", .target = &arguments->listen, .take = mt_option_text},
		{.name = "token-file", .target = &arguments->token_file, .take = mt_option_text},
		{.name = "read-token-file",
		 .target = &arguments->reader_file,
		 .take = mt_option_text},
		{.name = "open", .target = &access_rules->open},
		{.name = "allow-host", .target = access_rules, .take = add_host},
		{.name = "interval",
		 .target = &arguments->server->cache.interval_ms,
		 .take = mt_option_ms},
		{0}};
	const struct mt_command_line line = {"serve", NULL, options, 0, 0};

	return mt_command_line_read(&line, argc, argv, out_code);
}

/* ---- the loop ---- */

static int timeout_ms(const struct loop *loop)
{
	MHD_UNSIGNED_LONG_LONG wanted;
	int most = loop->server->clients.count ? CHECK_MS : -1;

	if (MHD_get_timeout(loop->daemon, &wanted) != MHD_YES ||
	    (most >= 0 && wanted > (unsigned)most))
		return most;
	return (int)wanted;
}

/* One round of the loop. Returns false if a signal asks the server to end. */
static bool run_once(struct loop *loop, int most_ms)
{
	struct pollfd list[3 + MT_JOBS_MAX] = {{.fd = loop->signals, .events = POLLIN},
					       {.fd = loop->epoll, .events = POLLIN}};
	size_t count = 2 + mt_jobs_poll(&loop->server->jobs, list + 2);
	int wait_ms = timeout_ms(loop);

	count += mt_cache_poll(&loop->server->cache, list + count);
	if (most_ms >= 0 && (wait_ms < 0 || wait_ms > most_ms))
		wait_ms = most_ms;
	(void)poll(list, count, wait_ms);
	mt_jobs_run(&loop->server->jobs);
	mt_cache_run(&loop->server->cache);
	(void)MHD_run(loop->daemon);
	mt_cache_send_next(&loop->server->cache);
	mt_clients_expire(&loop->server->clients);
	return !(list[0].revents & POLLIN);
}

/* Accepts nobody any more, replies 503 to connections that wait for a child, and lets others finish
 * within SHUTDOWN_MS. */
static void shut_down(struct loop *loop)
{
	uint64_t end_ns = mt_clock_now_ns() + SHUTDOWN_MS * UINT64_C(1000000);
	MHD_socket listener = MHD_quiesce_daemon(loop->daemon);

	if (listener != MHD_INVALID_SOCKET)
		close(listener);
	mt_jobs_stop(&loop->server->jobs);
	mt_cache_stop(&loop->server->cache);
	close(loop->signals); /* it stays readable: poll would not wait */
	loop->signals = -1;
	while (loop->server->requests_count && mt_clock_now_ns() < end_ns)
		(void)run_once(loop, 20);
	MHD_stop_daemon(loop->daemon);
}

/* ---- the start ---- */

/* Before any connection: these signals are read from a descriptor from here on, and a client that
 * has gone is an error of a write. */
static int catch_signals(void)
{
	sigset_t wanted = mt_command_block_endings();

	(void)signal(SIGPIPE, SIG_IGN);
	/* if it is inherited as ignored, waitpid has no status */
	(void)signal(SIGCHLD, SIG_DFL);
	return signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void print_start(const struct mt_listener *listener, const struct arguments *arguments)
{
	bool open = arguments->server->access_rules.open;

	if (arguments->token_file)
		printf("%s   (the token is in %s)\n", listener->url, arguments->token_file);
	else
		printf("%s#token=%s\n", listener->url, arguments->server->access_rules.token.text);
	fflush(stdout);
	if (geteuid() == 0)
		mt_error_say("running as root: the processes of all users are shown%s",
			     open ? ", to whoever connects" : "");
	if (!listener->loopback)
		mt_error_say(
			"warning: %s is reached from beyond this machine: %s, without encryption",
			arguments->listen,
			open ? "whoever reaches it reads names and figures of the processes"
			     : "the token and all that it opens go there");
}

static enum mt_err take_tokens(const struct arguments *arguments, struct mt_access *access_rules,
			       struct mt_error_reason *why)
{
	enum mt_err error = arguments->token_file ? mt_token_file(arguments->token_file,
								  &access_rules->token, why)
						  : mt_token_make(&access_rules->token, why);

	if (!error && arguments->reader_file)
		error = mt_token_file(arguments->reader_file, &access_rules->reader, why);
	if (!error && mt_token_matches(&access_rules->reader, access_rules->token.text))
		error = mt_error_because(why, MT_ERR_INVALID,
					 "--read-token-file: it is the token for everything");
	return error;
}

static int run(const struct arguments *arguments, const struct mt_listener *listener)
{
	struct mt_server *server = arguments->server;
	struct loop loop = {.server = server, .signals = catch_signals()};

	loop.daemon = mt_server_start(server, listener->fd);
	if (loop.signals < 0 || !loop.daemon) {
		mt_error_say("cannot start: %s", strerror(errno));
		return MT_EXIT_USAGE;
	}
	loop.epoll = MHD_get_daemon_info(loop.daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	print_start(listener, arguments);
	while (run_once(&loop, -1))
		continue;
	shut_down(&loop);
	mt_cache_free(&server->cache);
	return MT_EXIT_OK;
}

static int serve(const struct arguments *arguments)
{
	struct mt_access *access_rules = &arguments->server->access_rules;
	struct mt_listener listener;
	struct mt_error_reason why;
	enum mt_err error = take_tokens(arguments, access_rules, &why);

	if (!error)
		error = listen_at(arguments->listen, &listener, &why);
	if (error)
		return mt_error_fail(MT_EXIT_USAGE, &why);
	access_rules->names[access_rules->names_count++] = listener.host;
	return run(arguments, &listener);
}

static int mt_command_serve(int argc, char **argv)
{
	struct arguments arguments = {.listen = "127.0.0.1:9477"};
	int code;

	arguments.server = mt_error_check_memory(calloc(1, sizeof(*arguments.server)));
	arguments.server->cache.interval_ms = INTERVAL_MS;
	if (read_arguments(argc, argv, &arguments, &code))
		code = serve(&arguments);
	free(arguments.server);
	return code;
}

int main(int argc, char **argv)
{
	static const struct mt_subcommand commands[] = {{"serve", mt_command_serve}, {NULL, NULL}};

	return mt_subcommand_main(commands, argc, argv);
}
