/* ctl/ui/serve/listen.c -- see listen.h. */
#include "ctl/ui/serve/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctl/output/text.h"

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

enum mt_err mt_listen(const char *address, struct mt_listener *out, struct mt_error_reason *why)
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
