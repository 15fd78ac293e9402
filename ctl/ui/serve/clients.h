/* ctl/ui/serve/clients.h -- the connections, so that slow ones keep nobody out. libmicrohttpd's own
 * timeout starts again with every byte; here a request has its time from the end of the one before
 * until its answer is out, and where many are connected, who has gone longest without finishing
 * anything is put out for those who come. */
#ifndef MT_CTL_UI_SERVE_CLIENTS_H
#define MT_CTL_UI_SERVE_CLIENTS_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MT_CLIENTS_MAX 256u

struct mt_client {
	int fd;
	bool used;
	bool waits;        /* for a cleanup: it is we who are slow */
	bool ended;        /* put out, and not gone yet */
	uint64_t since_ns; /* CLOCK_MONOTONIC: connected, or done with its last request */
};

struct mt_clients {
	struct mt_client list[MT_CLIENTS_MAX];
	size_t count;
};

/* For MHD_OPTION_NOTIFY_CONNECTION; cls is the struct mt_clients. */
void mt_clients_notify(void *cls, struct MHD_Connection *connection, void **place,
		       enum MHD_ConnectionNotificationCode code);

/* Of a connection that mt_clients_notify was told of; NULL otherwise. */
struct mt_client *mt_clients_of(struct MHD_Connection *connection);

/* Its answer is out. */
void mt_clients_done(struct mt_client *client);

/* Puts out those whose time is over, and the oldest where places run out. libmicrohttpd sees them
 * end in its next run. */
void mt_clients_expire(struct mt_clients *clients);

#endif
