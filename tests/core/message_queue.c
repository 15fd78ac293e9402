/* message_queue.c -- a program that asks for a notification of its message queue, grows, and prints
 * whether the notification came. */
#include <mqueue.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MB 64

static volatile sig_atomic_t has_come;

static void note(int number)
{
	(void)number;
	has_come = 1;
}

/* Until there is a second thread, or for a second. */
static void wait_for_worker(void)
{
	struct stat found;

	for (int n = 0; n < 100; n++) {
		if (stat("/proc/self/task", &found) == 0 && found.st_nlink > 3)
			return;
		usleep(10000);
	}
}

int main(void)
{
	struct mq_attr attributes = {.mq_maxmsg = 4, .mq_msgsize = 8};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR2};
	char name[32];
	char *block;
	mqd_t queue;

	(void)snprintf(name, sizeof(name), "/mtshim-test-%d", (int)getpid());
	queue = mq_open(name, O_CREAT | O_RDWR, 0600, &attributes);
	if (queue < 0) {
		puts("no message queues");
		return 0;
	}
	mq_unlink(name);
	signal(SIGUSR2, note);
	if (mq_notify(queue, &event) != 0)
		return 1;
	block = malloc((size_t)MB << 20);
	memset(block, 1, (size_t)MB << 20);
	wait_for_worker();
	usleep(100000);
	mq_send(queue, "x", 1, 1);
	for (int n = 0; n < 100 && !has_come; n++)
		usleep(10000);
	puts(has_come ? "the notification came" : "the notification was lost");
	free(block);
	return 0;
}
