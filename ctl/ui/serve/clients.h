/* ctl/ui/serve/clients.h -- the connections, and limits on slow ones. The timeout of libmicrohttpd
 * restarts with every byte. Here a request must be complete, and its reply sent, within 30 s of the
 * end of the one before. If connections run out, the one that has finished nothing for longest
 * is closed. For one thread. */
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
	bool waits; /* for the server: no limit then */
	bool ended; /* shut down, and not closed yet */
	/* CLOCK_MONOTONIC: of the connection, or of the end of its last request */
	uint64_t since_ns;
};

struct mt_clients {
	struct mt_client list[MT_CLIENTS_MAX];
	size_t count;
};

/* For MHD_OPTION_NOTIFY_CONNECTION; cls is the struct mt_clients. */
void mt_clients_notify(void *cls, struct MHD_Connection *connection, void **place,
		       enum MHD_ConnectionNotificationCode code);

/* Returns the client of a connection; NULL: mt_clients_notify was not called for it. */
struct mt_client *mt_clients_of(struct MHD_Connection *connection);

/* Notes that the reply was sent. */
void mt_clients_done(struct mt_client *client);

/* Shuts down connections whose time is over, and the oldest ones if fewer than 16 are free.
 * libmicrohttpd closes them in its next run. */
void mt_clients_expire(struct mt_clients *clients);

#endif
