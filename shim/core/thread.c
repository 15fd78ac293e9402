#include "core/thread.h"

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "core/core_internal.h"
#include "core/log.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/format.h"
#include "sys/loader.h"
#include "sys/os.h"

/* Weak: musl lacks it, and its loader rejects a missing symbol (sys/libc.h). */
extern __typeof__(pthread_attr_setaffinity_np) pthread_attr_setaffinity_np __attribute__((weak));

#define LARGE_STACK_BYTES (8 * MT_MIB)
/* address space that must be free to start a thread */
#define RESERVE_BYTES (32 * MT_MIB)

enum state { STATE_NONE, STATE_STARTING, STATE_RUNS };

/* Without address space the allocator's first calls in a new thread fail, and jemalloc then
 * crashes: better no thread yet. */
bool mt_thread_has_address_space(void)
{
	void *area = mmap(NULL, RESERVE_BYTES, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (area == MAP_FAILED)
		return false;
	munmap(area, RESERVE_BYTES);
	return true;
}

/* libc reserves the thread-local storage of all libraries loaded at the start on each thread's
 * stack. */
static size_t tls_bytes;

static int add_tls(struct dl_phdr_info *info, size_t bytes, void *sum)
{
	(void)bytes;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_TLS)
			*(size_t *)sum += info->dlpi_phdr[i].p_memsz + info->dlpi_phdr[i].p_align;
	return 0;
}

/* for 8,192 CPUs; the kernel returns EINVAL if it has more */
#define CPUS_BYTES 1024

/* The scheduling of a thread. The program's thread that starts a thread of the shim may be pinned
 * to a CPU or run at SCHED_IDLE. The shim's thread must not inherit that: it would wait for the CPU
 * with the purge lock held, and forks of the program would wait for it. */
struct schedule {
	uint8_t cpus[CPUS_BYTES];
	size_t cpus_bytes; /* 0: unknown */
	int policy;        /* -1: unknown */
};

static struct schedule initial_schedule;
static long initial_priority;

static void read_schedule(struct schedule *out)
{
	long bytes = mt_raw_syscall(SYS_sched_getaffinity, 0, sizeof(out->cpus), out->cpus);

	out->cpus_bytes = bytes > 0 ? (size_t)bytes : 0;
	mt_assert(out->cpus_bytes <= sizeof(out->cpus));
	out->policy = (int)mt_raw_syscall(SYS_sched_getscheduler, 0);
}

/* Returns 20 minus the nice value (getpriority(2), NOTES); -1 if it is unknown. */
static long read_priority(void)
{
	return mt_raw_syscall(SYS_getpriority, PRIO_PROCESS, 0);
}

void mt_thread_init(void)
{
	size_t sum = 0;
	int kept = errno;

	(void)mt_loader_iterate(add_tls, &sum);
	tls_bytes = sum;
	read_schedule(&initial_schedule);
	initial_priority = read_priority();
	errno = kept;
}

/* Returns what differs between the calling thread and the initial schedule. Only that is set:
 * services run under filters that kill a process at sched_setaffinity or setpriority. */
enum { CHANGE_CPUS = 1, CHANGE_POLICY = 2 };

static int find_changes(void)
{
	struct schedule now;
	int changes = 0;

	read_schedule(&now);
	if (initial_schedule.cpus_bytes && &pthread_attr_setaffinity_np &&
	    (now.cpus_bytes != initial_schedule.cpus_bytes ||
	     memcmp(now.cpus, initial_schedule.cpus, now.cpus_bytes) != 0))
		changes |= CHANGE_CPUS;
	if (now.policy == SCHED_FIFO || now.policy == SCHED_RR ||
	    (initial_schedule.policy == SCHED_OTHER && now.policy != SCHED_OTHER))
		changes |= CHANGE_POLICY;
	return changes;
}

/* Sets SCHED_OTHER, the only policy that libc accepts besides the real-time ones.
 * PTHREAD_EXPLICIT_SCHED alone does not suffice: without a policy in the attributes glibc sets
 * none, and the thread inherits it. */
static void set_policy(pthread_attr_t *attr)
{
	const struct sched_param normal = {0};

	(void)pthread_attr_setinheritsched(attr, PTHREAD_EXPLICIT_SCHED);
	(void)pthread_attr_setschedpolicy(attr, SCHED_OTHER);
	(void)pthread_attr_setschedparam(attr, &normal);
}

/* Resets the nice value, which the thread inherits from the program's thread. Without privileges it
 * can only rise. */
static void *thread_main(void *argument)
{
	struct mt_thread *thread = argument;

	if (initial_priority > 0 && read_priority() != initial_priority)
		(void)mt_raw_syscall(SYS_setpriority, PRIO_PROCESS, 0, 20 - initial_priority);
	return thread->run(NULL);
}

/* Returns 0 or the error. */
static int create(struct mt_thread *thread, size_t stack_bytes, int changes)
{
	pthread_attr_t attr;
	pthread_t id;
	int answer = pthread_attr_init(&attr);

	if (answer)
		return answer;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (changes & CHANGE_POLICY)
		set_policy(&attr);
	/* Set before the thread runs: on the inherited CPU it may never run. */
	if (changes & CHANGE_CPUS)
		(void)pthread_attr_setaffinity_np(
			&attr, initial_schedule.cpus_bytes,
			(const cpu_set_t *)(const void *)initial_schedule.cpus);
	(void)pthread_attr_setstacksize(&attr, stack_bytes);
	answer = pthread_create(&id, &attr, thread_main, thread);
	pthread_attr_destroy(&attr);
	return answer;
}

/* As create, on the large stack if libc may refuse the small one. */
static int create_on_stack(struct mt_thread *thread, size_t stack_bytes, int changes)
{
	int answer = create(thread, stack_bytes, changes);

	return answer == EINVAL ? create(thread, LARGE_STACK_BYTES, changes) : answer;
}

/* Retries without what the kernel refuses: a policy (leaving SCHED_IDLE needs privileges) or CPUs
 * (a cpuset without them). */
static int create_as_allowed(struct mt_thread *thread, size_t stack_bytes)
{
	int changes = find_changes();
	int answer = create_on_stack(thread, stack_bytes, changes);

	if ((answer == EPERM || answer == EINVAL) && changes == (CHANGE_CPUS | CHANGE_POLICY))
		answer = create_on_stack(thread, stack_bytes, CHANGE_CPUS);
	if ((answer == EPERM || answer == EINVAL) && (changes & CHANGE_POLICY))
		answer = create_on_stack(thread, stack_bytes, CHANGE_POLICY);
	if ((answer == EPERM || answer == EINVAL) && changes)
		answer = create_on_stack(thread, stack_bytes, 0);
	return answer;
}

static bool start(struct mt_thread *thread, size_t stack_bytes)
{
	int kept = errno;
	sigset_t all;
	sigset_t before;
	int answer = ENOMEM;

	sigfillset(&all);
	if (mt_thread_has_address_space())
		answer = pthread_sigmask(SIG_SETMASK, NULL, &before);
	if (!answer) {
		/* a sandbox may answer system calls in its handler; who waits for it blocks it */
		if (sigismember(&before, SIGSYS) == 0)
			sigdelset(&all, SIGSYS);
		/* not SIG_BLOCK: libc's own signals for setuid(2) would stay blocked */
		pthread_sigmask(SIG_SETMASK, &all, NULL);
		answer = create_as_allowed(thread, stack_bytes);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		if (answer)
			mt_log(MT_LOG_INFO, "cannot start a thread yet (error %d)", answer);
	}
	errno = kept;
	return answer == 0;
}

bool mt_thread_start(struct mt_thread *thread, void *(*run)(void *), size_t stack_bytes)
{
	int expected = STATE_NONE;
	bool started;

	if (!atomic_compare_exchange_strong_explicit(&thread->state, &expected, STATE_STARTING,
						     memory_order_acq_rel, memory_order_acquire))
		return expected == STATE_RUNS;
	mt_assert(run != NULL);
	thread->run = run;
	started = start(thread, stack_bytes + tls_bytes);
	/* A thread that has ended already has reset the state: it must not count as running. */
	expected = STATE_STARTING;
	(void)atomic_compare_exchange_strong_explicit(&thread->state, &expected,
						      started ? STATE_RUNS : STATE_NONE,
						      memory_order_release, memory_order_relaxed);
	return started;
}

bool mt_thread_is_running(const struct mt_thread *thread)
{
	return mt_load_acquire(&thread->state) == STATE_RUNS;
}

void mt_thread_reset(struct mt_thread *thread)
{
	mt_store_relaxed(&thread->state, STATE_NONE);
}

static MT_TLS bool is_shim_thread;

void mt_thread_mark_ours(void)
{
	is_shim_thread = true;
}

bool mt_thread_is_ours(void)
{
	return is_shim_thread;
}

/* ---- rights ---- */

#define STATUS_BYTES 4096

/* Source: proc(5). setuid(2) and similar calls depend on ids and effective capabilities, which come
 * from the permitted ones. Two seccomp filters may differ although their modes are equal. */
bool mt_thread_rights_compare(const char *status, const char *other)
{
	static const char *const keys[] = {"Uid:", "Gid:", "CapPrm:", "CapEff:", "Seccomp:\t0"};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *line = mt_os_find_line(status, keys[i]);
		const char *other_line = mt_os_find_line(other, keys[i]);
		size_t length = line ? strcspn(line, "\n") : 0;

		/* a line without an end is cut */
		if (!line || !other_line || line[length] != '\n' ||
		    strncmp(line, other_line, length + 1) != 0)
			return false;
	}
	return true;
}

struct question {
	pid_t thread;
	bool are_equal;
};

static void compare_rights(void *at)
{
	struct question *question = at;
	char own[STATUS_BYTES], other[STATUS_BYTES], path[64];

	(void)mt_format(path, sizeof(path), "/proc/self/task/%d/status", (int)question->thread);
	question->are_equal = mt_os_read_file("/proc/thread-self/status", own, sizeof(own)) > 0 &&
			      mt_os_read_file(path, other, sizeof(other)) > 0 &&
			      mt_thread_rights_compare(own, other);
}

/* The caller, a set*id call of the program's, may have a small stack. */
bool mt_thread_rights_are_equal(pid_t thread)
{
	struct question question = {.thread = thread};

	mt_os_own_stack_call(compare_rights, &question);
	return question.are_equal;
}
