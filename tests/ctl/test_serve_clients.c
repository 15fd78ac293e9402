/* The deadline of a connection, without waiting for it; libmicrohttpd is played by two functions.
 */
#include <criterion/criterion.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ctl/ui/serve/clients.c"

static union MHD_ConnectionInfo info;

/* A connection is its client here. */
const union MHD_ConnectionInfo *MHD_get_connection_info(struct MHD_Connection *connection,
							enum MHD_ConnectionInfoType type, ...)
{
	(void)connection;
	cr_assert_eq(type, MHD_CONNECTION_INFO_CONNECTION_FD);
	return &info;
}

/* Connects; *ours is the end of the client. */
static struct mt_client *come(struct mt_clients *clients, int *ours)
{
	void *place = NULL;
	int ends[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	*ours = ends[0];
	info.connect_fd = ends[1];
	mt_clients_notify(clients, NULL, &place, MHD_CONNECTION_NOTIFY_STARTED);
	return place;
}

static void go(struct mt_clients *clients, struct mt_client *client)
{
	void *place = client;

	close(client->fd);
	mt_clients_notify(clients, NULL, &place, MHD_CONNECTION_NOTIFY_CLOSED);
}

static bool is_out(int ours)
{
	char byte;

	return recv(ours, &byte, 1, MSG_DONTWAIT) == 0;
}

Test(serve_clients, a_request_has_its_time_and_no_more)
{
	struct mt_clients clients = {0};
	int late, early, waiting;
	struct mt_client *first = come(&clients, &late), *second = come(&clients, &early),
			 *third = come(&clients, &waiting);

	first->since_ns -= DEADLINE_NS + 1;
	second->since_ns -= DEADLINE_NS - UINT64_C(5000000000);
	third->since_ns -= 2 * DEADLINE_NS;
	third->waits = true;
	mt_clients_expire(&clients);

	cr_expect(is_out(late));
	cr_expect_not(is_out(early));
	cr_expect_not(is_out(waiting), "it is we who let it wait");
}

Test(serve_clients, the_time_restarts_with_every_reply)
{
	struct mt_clients clients = {0};
	int ours;
	struct mt_client *client = come(&clients, &ours);

	client->since_ns -= 2 * DEADLINE_NS;
	client->waits = true;
	mt_clients_done(client);
	mt_clients_expire(&clients);

	cr_expect_not(is_out(ours));
	cr_expect_not(client->waits);
}

Test(serve_clients, where_connections_run_out_the_oldest_are_closed)
{
	struct mt_clients clients = {0};
	struct mt_client *all[MT_CLIENTS_MAX];
	int ours[MT_CLIENTS_MAX];
	size_t out = 0;

	for (size_t i = 0; i < MT_CLIENTS_MAX; i++) {
		all[i] = come(&clients, &ours[i]);
		/* the last is the oldest */
		all[i]->since_ns = all[0]->since_ns - (uint64_t)i * 1000000;
	}
	all[MT_CLIENTS_MAX - 1]->waits = true;
	for (int again = 0; again < 3; again++)
		mt_clients_expire(&clients);

	for (size_t i = 0; i < MT_CLIENTS_MAX; i++)
		out += is_out(ours[i]);
	cr_expect_eq(out, ROOM, "so many at once, and not more each time: they are not gone yet");
	cr_expect_not(is_out(ours[MT_CLIENTS_MAX - 1]));
	cr_expect(is_out(ours[MT_CLIENTS_MAX - 2]));
	cr_expect_not(is_out(ours[0]));
}

Test(serve_clients, a_closed_connection_makes_room)
{
	struct mt_clients clients = {0};
	int ours;
	struct mt_client *client = come(&clients, &ours);

	go(&clients, client);
	cr_expect_eq(clients.count, 0);
	cr_expect_eq(come(&clients, &ours), client);
	cr_expect_not(client->ended);
	cr_expect_eq(clients.count, 1);
}
