/* sys/libc.h -- which libc this process runs on. The library is built for glibc; a musl program
 * that preloads it must still run, so functions that musl lacks are weak references and the shim
 * stays off there. Owns the addresses of two variables of libc. Any thread may call. Takes no lock,
 * never allocates. */
#ifndef MT_SYS_LIBC_H
#define MT_SYS_LIBC_H

#include <gnu/libc-version.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Number of pthread keys whose values glibc stores inside the thread descriptor, so that
 * pthread_setspecific cannot fail for them. For other keys glibc allocates memory, which the
 * allocator cannot serve while it registers a thread. Source: PTHREAD_KEY_2NDLEVEL_SIZE of
 * glibc. */
#define MT_LIBC_INNER_KEYS 32

extern __typeof__(gnu_get_libc_version) gnu_get_libc_version __attribute__((weak));

static inline bool mt_libc_is_glibc(void)
{
	return gnu_get_libc_version != NULL;
}

/* Returns the minor version: 36 for glibc 2.36; 0 if it is unknown. */
static inline unsigned mt_libc_minor(void)
{
	const char *at = mt_libc_is_glibc() ? gnu_get_libc_version() : "";
	unsigned minor = 0;

	while (*at && *at != '.')
		at++;
	while (*at && *++at >= '0' && *at <= '9')
		minor = minor * 10 + (unsigned)(*at - '0');
	return minor;
}

/* Finds the two variables by which libc knows of threads. Called once, from the constructor. Before
 * glibc 2.36 it finds nothing. */
void mt_libc_find_threads(void);

/* Returns whether the variables were found; without them the functions below do nothing. */
bool mt_libc_knows_threads(void);

/* Returns the calling thread's id as libc knows it, without the system call, which a sandbox may
 * forbid. Any moment. */
pid_t mt_libc_own_tid(void);

/* Returns how many threads of this process libc has started and not yet ended, the first one too; 0
 * if it is unknown. */
unsigned int mt_libc_threads_count(void);

/* A fork whose process has one thread beside ours: libc shall leave out its locks, as it does if
 * there is one thread. Begin is called right before libc's fork, which looks at once. Count is
 * called from each fork handler that may be the first to run: the handlers find libc's locks in
 * use. Child is called from the first one in the child, which has one thread indeed. End is called
 * after libc's fork, with the result of begin. Only if mt_libc_knows_threads, by the thread that
 * forks, also in a signal handler that has interrupted another fork. */
struct mt_libc_fork {
	bool was_single_threaded;
	bool was_alone;
};
struct mt_libc_fork mt_libc_begin_fork_alone(void);
void mt_libc_count_all_threads(void);
void mt_libc_fork_alone_child(void);
void mt_libc_end_fork_alone(struct mt_libc_fork before, bool is_child);

/* Returns whether libc leaves out its locks in the fork under way on this thread. */
bool mt_libc_forks_alone(void);

#endif
