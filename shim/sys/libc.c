#include "sys/libc.h"

#include <pthread.h>

#include "sys/attr.h"
#include "sys/loader.h"

/* From this minor version on fork and malloc read __libc_single_threaded. */
#define LIBC_READS_FLAG_MINOR 36

/* libc's own variables, not the program's copies of them. NULL: unknown. Written by the
 * constructor. */
static volatile char *is_single_threaded;
static const volatile unsigned int *threads_count;

static MT_TLS bool is_fork_alone; /* of the fork under way */

void mt_libc_find_threads(void)
{
	if (mt_libc_minor() < LIBC_READS_FLAG_MINOR)
		return;
	threads_count = mt_loader_libc_function("__nptl_nthreads");
	is_single_threaded =
		threads_count ? mt_loader_libc_function("__libc_single_threaded") : NULL;
}

bool mt_libc_knows_threads(void)
{
	return is_single_threaded != NULL;
}

/* glibc's plain mutexes note the thread that holds them. */
pid_t mt_libc_own_tid(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pid_t tid;

	(void)pthread_mutex_lock(&mutex);
	tid = mutex.__data.__owner;
	(void)pthread_mutex_unlock(&mutex);
	return tid;
}

unsigned int mt_libc_threads_count(void)
{
	return is_single_threaded ? *threads_count : 0;
}

struct mt_libc_fork mt_libc_begin_fork_alone(void)
{
	struct mt_libc_fork before = {*is_single_threaded, is_fork_alone};

	is_fork_alone = true;
	*is_single_threaded = 1;
	return before;
}

void mt_libc_count_all_threads(void)
{
	if (is_fork_alone)
		*is_single_threaded = 0;
}

void mt_libc_fork_alone_child(void)
{
	if (is_fork_alone)
		*is_single_threaded = 1;
}

void mt_libc_end_fork_alone(struct mt_libc_fork before, bool is_child)
{
	is_fork_alone = before.was_alone;
	if (!is_child)
		*is_single_threaded = before.was_single_threaded;
}

bool mt_libc_forks_alone(void)
{
	return is_fork_alone || (is_single_threaded && *is_single_threaded);
}
