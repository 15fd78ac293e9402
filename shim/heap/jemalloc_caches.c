#include "heap/jemalloc_internal.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "core/log.h"
#include "core/thread.h"
#include "heap/account.h"
#include "heap/backend.h"
#include "heap/purge_lock.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/format.h"
#include "sys/os.h"
#include "sys/saturating.h"

#define STEP_NS (20 * 1000ull)
/* bytes: a thread with more stack in use is left alone */
#define STACK_MOST (1u << 20)
#define STACK_STEP 4096u

/* ---- a cache ---- */

/* Source: struct tcache_s and cache_bin_s of jemalloc 5.3.0. */
struct bin {
	void **top; /* of the blocks that it holds; the last one freed */
	uint64_t others[2];
};

struct cache {
	void *slow;
	struct bin bins[];
};

/* Internal to jemalloc: src/tcache.c of 5.3.0. Weak: another version may lack them. thread: the
 * caller's. */
extern unsigned int je_nhbins __attribute__((weak));
extern void je_tcache_bin_flush_small(void *thread, struct cache *cache, struct bin *bin,
				      unsigned int size_class, unsigned int rest)
	__attribute__((weak));
extern void je_tcache_bin_flush_large(void *thread, struct cache *cache, struct bin *bin,
				      unsigned int size_class, unsigned int rest)
	__attribute__((weak));
extern void __real_je_tcache_cleanup(void *thread) __attribute__((weak));
void __wrap_je_tcache_cleanup(void *thread);

static unsigned int small_count; /* size classes of slabs; 0: the layout is not known */
static _Atomic(void *) emptied;  /* the cache that the worker empties; seq_cst */
static _Atomic bool is_shared;   /* mt_jemalloc_caches_note_shared was called; seq_cst */
static const struct mt_jemalloc_gate *gate;

/* ---- where the thread's own cache lies ---- */

/* bytes: jemalloc's thread-local object is smaller. A cache that mallctl makes lies elsewhere. */
#define OBJECT_MOST (16u << 10)

static _Atomic size_t offset; /* in the object, the same in each thread; 0: not known */
static MT_TLS bool has_none;

void mt_jemalloc_caches_note(void *thread)
{
	size_t bytes = mt_load_relaxed(&offset);

	if (bytes && !has_none)
		mt_store_relaxed(&mt_thread_counters.cache, (char *)thread + bytes);
}

void mt_jemalloc_caches_note_fill(void *thread, void *filled, unsigned int size_class)
{
	char *bins = (char *)((struct bin *)filled - size_class);
	size_t bytes = (size_t)(bins - offsetof(struct cache, bins) - (char *)thread);

	if (bytes >= OBJECT_MOST)
		return;
	mt_store_relaxed(&offset, bytes);
	mt_jemalloc_caches_note(thread);
}

void mt_jemalloc_caches_note_begin(bool has_one)
{
	has_none = !has_one;
}

static unsigned int count_of(const char *name)
{
	unsigned int count = 0;
	size_t bytes = sizeof(count);

	return je_mallctl(name, &count, &bytes, NULL, 0) == 0 ? count : 0;
}

/* Returns whether a block that is freed comes to lie on top of this class of the own cache. */
static bool lies_on_top(unsigned int size_class, size_t bytes)
{
	struct cache *cache = mt_load_relaxed(&mt_thread_counters.cache);
	void *block = je_malloc(bytes);

	je_free(block);
	return block && *cache->bins[size_class].top == block;
}

static bool has_signal_mark(void)
{
#ifdef __x86_64__
	unsigned int a, b, c = 0, d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE);
#else
	return true;
#endif
}

void mt_jemalloc_caches_begin(bool profiles)
{
	unsigned int count = count_of("arenas.nbins");

	if (profiles || !&je_nhbins || !&je_tcache_bin_flush_small || !&je_tcache_bin_flush_large ||
	    !&__real_je_tcache_cleanup || !mt_load_relaxed(&mt_thread_counters.cache) ||
	    !has_signal_mark() || count < 2 || je_nhbins < count)
		return;
	if (lies_on_top(0, 8) && lies_on_top(7, 112) && lies_on_top(count - 1, 14336))
		small_count = count;
}

static void empty(struct cache *cache)
{
	void *thread = (void *)(uintptr_t)mt_load_relaxed(&mt_thread_counters.allocator_counters);

	for (unsigned int i = 0; i < small_count; i++)
		je_tcache_bin_flush_small(thread, cache, &cache->bins[i], i, 0);
	for (unsigned int i = small_count; i < je_nhbins; i++)
		je_tcache_bin_flush_large(thread, cache, &cache->bins[i], i, 0);
}

/* ---- does a thread sleep? ---- */

/* Calls in which threads wait, and of which none runs code of the program in their stead, as vfork
 * does. */
static bool is_wait(long call)
{
	static const short waits[] = {
		SYS_futex,
		SYS_read,
		SYS_readv,
		SYS_recvfrom,
		SYS_recvmsg,
		SYS_recvmmsg,
		SYS_write,
		SYS_writev,
		SYS_sendto,
		SYS_sendmsg,
		SYS_splice,
		SYS_ioctl,
		SYS_connect,
		SYS_accept,
		SYS_accept4,
		SYS_flock,
		SYS_fcntl,
		SYS_msgrcv,
		SYS_io_uring_enter,
		SYS_epoll_pwait,
#ifdef SYS_epoll_pwait2
		SYS_epoll_pwait2,
#endif
#ifdef SYS_futex_waitv
		SYS_futex_waitv,
#endif
		SYS_ppoll,
		SYS_pselect6,
		SYS_nanosleep,
		SYS_semtimedop,
		SYS_clock_nanosleep,
		SYS_rt_sigtimedwait,
		SYS_rt_sigsuspend,
#ifdef __x86_64__
		SYS_poll,
		SYS_select,
		SYS_epoll_wait,
		SYS_pause,
#endif
	};

	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++)
		if (call == waits[i])
			return true;
	return false;
}

/* Returns how often the thread has begun to run; 0: unknown. */
static uint64_t turns_of(pid_t tid)
{
	char path[64], text[96];
	const char *turns;

	mt_format(path, sizeof(path), "/proc/self/task/%d/schedstat", (int)tid);
	if (mt_os_read_file(path, text, sizeof(text)) <= 0)
		return 0;
	turns = strrchr(text, ' ');
	return turns ? mt_os_parse_number(turns) : 0;
}

/* Returns where the stack of a thread that waits ends; 0: it does not wait, or in this library. */
static uintptr_t waits_at(pid_t tid)
{
	extern const char __ehdr_start[] __attribute__((visibility("hidden")));
	char path[64], text[256];
	char *stack, *program;
	uintptr_t address;

	mt_format(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
	if (mt_os_read_file(path, text, sizeof(text)) <= 0 || text[0] < '0' || text[0] > '9' ||
	    !is_wait((long)mt_os_parse_number(text)))
		return 0;
	program = strrchr(text, ' ');
	if (!program)
		return 0;
	*program++ = '\0';
	stack = strrchr(text, ' ');
	address = strtoull(program, NULL, 16);
	if (!stack || (address >= (uintptr_t)__ehdr_start && address < (uintptr_t)&emptied))
		return 0; /* the code lies between the library's first byte and its variables */
	return strtoull(stack + 1, NULL, 16);
}

/* The kernel marks the registers that it saves for a handler (FP_XSTATE_MAGIC1, FPSIMD_MAGIC). */
static bool has_mark(int memory, uintptr_t at, uintptr_t end)
{
#ifdef __x86_64__
	const uint32_t mark = 0x46505853;
#else
	const uint32_t mark = 0x46508001;
#endif
	static uint64_t words[STACK_STEP / sizeof(uint64_t)];

	for (; at < end; at += sizeof(words)) {
		size_t bytes = mt_min_u64(end - at, sizeof(words));

		if (mt_os_read_at(memory, words, bytes, at) != (ssize_t)bytes)
			return true;
		for (size_t i = 0; i < bytes / sizeof(words[0]); i++)
			if ((uint32_t)words[i] == mark)
				return true;
	}
	return false;
}

/* Returns whether there may be a signal handler on the stack, which may have interrupted the
 * allocator; true also for a stack that is not the thread's own, behind which its thread-local
 * storage lies. Read by the kernel, since other stacks end where nothing is mapped. */
static bool may_be_in_handler(uintptr_t stack, const struct mt_thread_counters *behind)
{
	uintptr_t end = (uintptr_t)behind;
	int memory;
	bool may_be;

	stack &= ~(uintptr_t)7;
	if (stack >= end || end - stack > STACK_MOST)
		return true;
	memory = mt_os_open("/proc/self/mem", O_RDONLY | O_CLOEXEC, 0);
	may_be = memory < 0 || has_mark(memory, stack, end);
	if (memory >= 0)
		mt_os_close(memory);
	return may_be;
}

/* Returns whether /proc names threads as this process does: it may be of an outer namespace. */
static bool names_own_threads(void)
{
	static char status[4096];
	const char *ids = mt_os_read_file("/proc/self/status", status, sizeof(status)) > 0
				  ? mt_os_find_line(status, "NSpid:\t")
				  : NULL;

	return ids && ids[strspn(ids, "0123456789")] == '\n';
}

void mt_jemalloc_caches_note_shared(void)
{
	mt_store_seq(&is_shared, true);
}

/* From here on the thread waits if it wakes up. So what is true afterwards stays true. */
static bool sleeps(const struct mt_thread_counters *thread)
{
	uint64_t turns;
	uintptr_t stack;

	mt_store_seq(&emptied, mt_load_relaxed(&thread->cache));
	turns = turns_of(thread->tid);
	stack = turns ? waits_at(thread->tid) : 0;
	return stack && !mt_load_relaxed(&thread->lock_waits) &&
	       !may_be_in_handler(stack, thread) && turns_of(thread->tid) == turns &&
	       !mt_load_seq(&is_shared);
}

/* ---- the gate ---- */

void mt_jemalloc_caches_use(const struct mt_jemalloc_gate *given)
{
	gate = given;
}

void mt_jemalloc_caches_wait(void)
{
	void *own = mt_load_relaxed(&mt_thread_counters.cache);

	while (mt_unlikely(own && mt_load_seq(&emptied) == own))
		mt_os_sleep_ns(STEP_NS);
}

/* One thread. Under the purge lock, which fork takes first: a thread that wakes up and forks waits
 * for that, and holds no other lock. Returns false if there is no further thread. */
static bool try_one(unsigned int *count)
{
	void *cache;
	bool is_one;

	mt_purge_enter();
	is_one = mt_account_try_sleeper(sleeps, &cache);
	if (cache) {
		empty(cache);
		++*count;
	}
	mt_store_seq(&emptied, NULL);
	mt_purge_leave();
	return is_one;
}

unsigned int mt_jemalloc_caches_empty(bool at_once)
{
	unsigned int count = 0;

	mt_assert(mt_thread_is_ours());
	if (!small_count || !gate ||
	    (!at_once && mt_account_threads() < MT_JEMALLOC_MANY_THREADS) ||
	    mt_load_seq(&is_shared) || !mt_account_note_rest(at_once) || !names_own_threads())
		return 0;
	mt_jemalloc_know_thread();
	if (gate->close())
		while (try_one(&count))
			;
	gate->open();
	if (count > 0)
		mt_log(MT_LOG_DEBUG, "the caches of %u sleeping threads emptied", count);
	return count;
}

void mt_jemalloc_caches_fork_child(void)
{
	mt_store_seq(&emptied, NULL);
	if (gate)
		gate->reset();
}

/* The thread ends, or gives its cache up. */
void __wrap_je_tcache_cleanup(void *thread)
{
	mt_jemalloc_caches_wait();
	has_none = true;
	mt_store_relaxed(&mt_thread_counters.cache, NULL);
	__real_je_tcache_cleanup(thread);
}
