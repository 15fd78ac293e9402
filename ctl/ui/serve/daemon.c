/* ctl/ui/serve/daemon.c -- see daemon.h. */
#include "ctl/ui/serve/daemon.h"

#include <string.h>

#define IDLE_S 30u /* a connection on which nothing moves */

/* Paths and arguments here are plain: what is escaped is left as it is, and matches nothing. */
static size_t leave_escaped(void *cls, struct MHD_Connection *connection, char *text)
{
	(void)cls;
	(void)connection;
	return strlen(text);
}

struct MHD_Daemon *mt_serve_start(struct mt_server *server, int listener)
{
	const struct MHD_OptionItem options[] = {
		{MHD_OPTION_LISTEN_SOCKET, listener, NULL},
		{MHD_OPTION_CONNECTION_LIMIT, MT_CLIENTS_MOST, NULL},
		{MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, NULL},
		{MHD_OPTION_CONNECTION_MEMORY_LIMIT, (intptr_t)MT_SERVER_BUFFER_BYTES, NULL},
		{MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL},
		{MHD_OPTION_UNESCAPE_CALLBACK, (intptr_t)leave_escaped, NULL},
		{MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)mt_clients_notify, &server->clients},
		{MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)mt_routes_completed, server},
		{MHD_OPTION_END, 0, NULL},
	};

	return MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
				mt_routes_handle, server, MHD_OPTION_ARRAY, options,
				MHD_OPTION_END);
}
