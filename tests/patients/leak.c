/* leak.c -- a server that forgets to free the session of a client that hangs up: 2 MB/s, among
 * requests that are freed. */
#include "patient.h"

struct session {
	struct session *next;
	char state[2000];
};

static struct session *sessions;

__attribute__((noinline)) struct session *remember_session(void)
{
	struct session *session = must(malloc(sizeof(*session)));

	memset(session, 's', sizeof(*session));
	session->next = sessions;
	sessions = session;
	return session;
}

__attribute__((noinline)) void serve_request(void)
{
	char *body = filled(64 * KB);

	remember_session()->state[0] = body[0];
	free(body);
}

int main(void)
{
	void *tables = filled(384 * MB);

	ready();
	while (goes_on(20))
		for (int i = 0; i < 20; i++)
			serve_request();
	free(tables);
	return 0;
}
