#include "ctl/ui/serve/serve.h"

#include <sys/socket.h>

#include "ctl/process/clock.h"

#define DEADLINE_NS (30u * UINT64_C(1000000000))
#define ROOM        16u /* connections that are kept free */

static void add(struct mt_clients *clients, int fd, void **place)
{
	for (size_t i = 0; i < MT_CLIENTS_MAX; i++) {
		struct mt_client *client = &clients->list[i];

		if (client->used)
			continue;
		*client = (struct mt_client){.fd = fd, .used = true, .since_ns = mt_clock_now_ns()};
		clients->count++;
		*place = client;
		return;
	}
}

void mt_clients_notify(void *cls, struct MHD_Connection *connection, void **place,
		       enum MHD_ConnectionNotificationCode code)
{
	const union MHD_ConnectionInfo *info;
	struct mt_clients *clients = cls;
	struct mt_client *client = *place;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
		if (info)
			add(clients, info->connect_fd, place);
	} else if (client) {
		*client = (struct mt_client){0};
		clients->count--;
		*place = NULL;
	}
}

struct mt_client *mt_clients_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

void mt_clients_done(struct mt_client *client)
{
	client->since_ns = mt_clock_now_ns();
	client->waits = false;
}

static bool may_disconnect(const struct mt_client *client)
{
	return client->used && !client->waits && !client->ended;
}

/* Shuts down both directions, so that libmicrohttpd sees the end both when it reads and when it
 * writes. The descriptor stays open. */
static void disconnect(struct mt_client *client)
{
	(void)shutdown(client->fd, SHUT_RDWR);
	client->ended = true;
}

void mt_clients_expire(struct mt_clients *clients)
{
	uint64_t now_ns = mt_clock_now_ns();
	size_t ending = 0;

	for (size_t i = 0; i < MT_CLIENTS_MAX; i++) {
		struct mt_client *client = &clients->list[i];

		if (may_disconnect(client) && now_ns - client->since_ns > DEADLINE_NS)
			disconnect(client);
		ending += client->ended;
	}
	for (; clients->count - ending > MT_CLIENTS_MAX - ROOM; ending++) {
		struct mt_client *oldest = NULL;

		for (size_t i = 0; i < MT_CLIENTS_MAX; i++) {
			struct mt_client *client = &clients->list[i];

			if (may_disconnect(client) &&
			    (!oldest || client->since_ns < oldest->since_ns))
				oldest = client;
		}
		if (!oldest)
			return;
		disconnect(oldest);
	}
}
