/* sigaction_behind.c -- a library that stands in line behind the shim: its sigaction takes a lock,
 * late, and its fork handler takes the same one. Whoever calls it with a lock held that fork waits
 * for hangs the program. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void take(void)
{
	pthread_mutex_lock(&lock);
}

static void drop(void)
{
	pthread_mutex_unlock(&lock);
}

static int is_the_shims_thread(void)
{
	char name[16] = "";

	(void)prctl(PR_GET_NAME, name);
	return strcmp(name, "mtshim") == 0;
}

int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	static int (*next)(int, const struct sigaction *, struct sigaction *);
	const struct timespec while_others_fork = {.tv_nsec = 300000000};
	int result;

	if (!next)
		*(void **)(void *)&next = dlsym(RTLD_NEXT, "sigaction");
	if (is_the_shims_thread())
		nanosleep(&while_others_fork, NULL);
	take();
	result = next(sig, act, old);
	drop();
	return result;
}

__attribute__((constructor)) static void begin(void)
{
	pthread_atfork(take, drop, drop);
}
