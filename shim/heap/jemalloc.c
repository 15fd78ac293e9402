/* heap/jemalloc.c -- the embedded jemalloc as a backend: its settings, its figures, its purge, and
 * the few calls of it that come to us instead of to libc (jemalloc.mk renames them to mt_je_...).
 */

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "heap/account.h"
#include "heap/backend.h"
#include "heap/glibc.h"
#include "heap/jemalloc_internal.h"
#include "heap/page_flags.h"
#include "heap/purge_lock.h"
#include "sys/loader.h"
#include "sys/os.h"
#include "sys/saturating.h"
#include "core/log.h"
#include "core/services.h"
#include "core/thread.h"

/* jemalloc 5.3 starts with 8 MB, some of it aligned to 2 MB. */
#define START_BYTES       (20u << 20)
#define START_LARGE_BYTES (2u << 20)
#define START_SMALL_BYTES (64u << 10)

/* What jemalloc calls in libc's stead. */
char *mt_je_secure_getenv(const char *name);
ssize_t mt_je_readlink(const char *path, char *out, size_t out_bytes);
int mt_je_pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
int mt_je_pthread_setspecific(pthread_key_t key, const void *value);
void *mt_je_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
int mt_je_munmap(void *address, size_t bytes);
int mt_je_madvise(void *address, size_t bytes, int advice);
long mt_je_syscall(long number, long a, long b, long c, long d, long e);
void *mt_je_sbrk(intptr_t bytes);

/* longest wait of a thread of the program that asks for figures */
#define INFO_WAIT_NS (10 * MT_NS_PER_MS)

const bool mt_jemalloc_is_built = true;

static const struct mt_backend_hooks *hooks;
static const char *conf;
static bool conf_was_read;

/* ---- what jemalloc asks of libc, and gets from us ---- */

char *mt_je_secure_getenv(const char *name)
{
	(void)name; /* MALLOC_CONF, whatever its prefix */
	conf_was_read = true;
	return (char *)(uintptr_t)conf;
}

/* /etc/malloc.conf is meant for a stock jemalloc; one that turned decay on would put purging on
 * program threads. */
ssize_t mt_je_readlink(const char *path, char *out, size_t out_bytes)
{
	(void)path;
	(void)out;
	(void)out_bytes;
	errno = ENOENT;
	return -1;
}

static pthread_key_t thread_key;
static bool has_thread_key;
static void (*thread_destructor)(void *);

static void end_thread(void *value)
{
	if (thread_destructor)
		thread_destructor(value);
}

bool mt_jemalloc_take_key(void)
{
	has_thread_key = has_thread_key || mt_account_take_key(&thread_key, end_thread);
	return has_thread_key;
}

/* A thread that jemalloc knows and whose end it does not hear of stays in its lists, which go
 * through the thread's stack: the next that begins or ends there crashes. With an outer key that
 * may happen; so it does not begin with one. */
int mt_je_pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	if (!mt_jemalloc_take_key())
		return EAGAIN;
	thread_destructor = destructor;
	*key = thread_key;
	return 0;
}

/* The heap of libc's malloc ends at the program break: jemalloc never takes memory there. */
void *mt_je_sbrk(intptr_t bytes)
{
	(void)bytes;
	errno = ENOMEM;
	return (void *)-1;
}

/* jemalloc calls this once per thread, with the address of its thread-local object, and again while
 * the thread dies. */
int mt_je_pthread_setspecific(pthread_key_t key, const void *value)
{
	int answer = pthread_setspecific(key, value);

	mt_jemalloc_counters_note_thread(value);
	hooks->thread_born((void *)(uintptr_t)value);
	return answer;
}

/* Free blocks of libc's heap have let the program break sink, and the kernel has put the mapping
 * where the heap was: free would pass its blocks to libc. It stays mapped, so that the next one
 * lies elsewhere. */
static MT_COLD void *map_elsewhere(size_t bytes, int protection, int flags)
{
	void *fresh;

	do
		fresh = mmap(NULL, bytes, protection, flags, -1, 0);
	while (fresh != MAP_FAILED && mt_glibc_range_overlaps(fresh, bytes));
	return fresh;
}

/* Address space that stands in if the kernel refuses jemalloc memory for its start: it writes to
 * pages that it did not get. Only the thread that starts it is inside it then. What it takes is its
 * own for good. */
static char *start_area; /* NULL before and after */
static size_t start_used_bytes;

static bool map_start_area(void)
{
	void *area = mmap(NULL, START_BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (area == MAP_FAILED)
		return false;
	start_area = area;
	return true;
}

static void unmap_start_area(void)
{
	(void)munmap(start_area + start_used_bytes, START_BYTES - start_used_bytes);
	start_area = NULL;
}

static MT_COLD void *take_of_start_area(size_t bytes)
{
	size_t step = bytes >= START_LARGE_BYTES ? START_LARGE_BYTES : START_SMALL_BYTES;
	size_t ahead;

	if (!start_area || bytes > START_BYTES)
		return MAP_FAILED;
	ahead = -((uintptr_t)start_area + start_used_bytes) & (step - 1);
	bytes = (bytes + START_SMALL_BYTES - 1) & ~(size_t)(START_SMALL_BYTES - 1);
	if (ahead + bytes > START_BYTES - start_used_bytes)
		return MAP_FAILED;
	start_used_bytes += ahead + bytes;
	mt_assert(start_used_bytes <= START_BYTES);
	return start_area + start_used_bytes - bytes;
}

void *mt_je_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	void *answer = mt_jemalloc_kernel_has(bytes, protection, flags)
			       ? mmap(address, bytes, protection, flags, fd, offset)
			       : MAP_FAILED;

	if (mt_unlikely(answer != MAP_FAILED && mt_glibc_range_overlaps(answer, bytes)))
		answer = address ? MAP_FAILED : map_elsewhere(bytes, protection, flags);
	if (mt_unlikely(answer == MAP_FAILED))
		mt_jemalloc_unmap_refused();
	if (mt_unlikely(answer == MAP_FAILED && !address))
		answer = take_of_start_area(bytes);
	if (mt_likely(answer != MAP_FAILED))
		mt_page_flags_mapped(answer, bytes);
	return answer;
}

int mt_je_munmap(void *address, size_t bytes)
{
	mt_page_flags_unmapped(address, bytes);
	return munmap(address, bytes);
}

/* A purge also takes the flags of the pages. */
int mt_je_madvise(void *address, size_t bytes, int advice)
{
	int answer;

	if (advice == MADV_DONTNEED)
		return mt_page_flags_purge(address, bytes);
	answer = (int)mt_raw_syscall(SYS_madvise, address, bytes, advice);
	if (answer == 0) /* with the user's thp:always */
		mt_page_flags_note(SYS_madvise, (long)address, (long)bytes, advice);
	return answer;
}

/* syscall is a wrapper of this library's. */
long mt_je_syscall(long number, long a, long b, long c, long d, long e)
{
	return mt_raw_syscall(number, a, b, c, d, e);
}

void mt_jemalloc_know_thread(void)
{
	int kept = errno;

	if (!mt_jemalloc_counters_have_thread())
		je_free(je_malloc(1));
	errno = kept;
}

/* ---- the members of the family that jemalloc lacks, or answers otherwise than libc ---- */

void *je_bare_realloc(void *ptr, size_t size);
void *je_bare_memalign(size_t alignment, size_t size);
void *je_bare_aligned_alloc(size_t alignment, size_t size);
int je_bare_posix_memalign(void **out, size_t alignment, size_t size);

void *je_realloc(void *ptr, size_t size)
{
	bool moves =
		mt_unlikely(size > MT_JEMALLOC_MOVE_LEAST) && ptr && mt_jemalloc_is_move(ptr, size);
	void *fresh = moves ? mt_jemalloc_move(ptr, size) : je_bare_realloc(ptr, size);

	if (mt_unlikely(!fresh) && size)
		errno = ENOMEM;
	return fresh;
}

/* libc rounds an alignment that is no power of two up, and programs rely on it. */
void *je_memalign(size_t alignment, size_t size)
{
	size_t power = sizeof(void *);
	void *fresh;

	if (alignment > SIZE_MAX / 2 + 1) {
		errno = EINVAL;
		return NULL;
	}
	while (power < alignment)
		power <<= 1;
	/* of nothing it gives the next best 8 bytes, aligned to 8 */
	fresh = je_bare_memalign(power, size ? size : 1);
	if (!fresh)
		errno = ENOMEM;
	return fresh;
}

void *je_aligned_alloc(size_t alignment, size_t size)
{
	if (mt_likely(mt_heap_alignment_is_power(alignment)))
		return je_bare_aligned_alloc(alignment, size);
	if (mt_heap_alignment_is_refused(alignment)) {
		errno = EINVAL;
		return NULL;
	}
	return je_memalign(alignment, size);
}

int je_posix_memalign(void **out, size_t alignment, size_t size)
{
	int answer = je_bare_posix_memalign(out, alignment, size);

	if (mt_unlikely(answer == ENOMEM))
		errno = ENOMEM;
	return answer;
}

/* ---- its start ---- */

/* What jemalloc must have called by the end of its first allocation: another version might learn of
 * these things in another way, and the shim would not hear of them. */
static const char *misfit(void)
{
	if (!conf_was_read)
		return "it does not read its settings by secure_getenv";
	if (!mt_jemalloc_fork_has_handlers())
		return "it does not call pthread_atfork";
	if (!mt_jemalloc_counters_have_thread())
		return "it does not call pthread_setspecific";
	return mt_jemalloc_check();
}

/* Why its first allocation failed. */
static const char *refusal(void)
{
	return mt_jemalloc_message_refuses_pages()
		       ? "it was built for smaller pages than this kernel's"
		       : "jemalloc cannot initialise";
}

const char *mt_jemalloc_begins(void)
{
	const char *reason;
	void *first;

	if (!map_start_area())
		return refusal();
	first = je_malloc(1);
	reason = first ? misfit() : refusal();
	if (!reason) {
		mt_jemalloc_counters_begin();
		mt_jemalloc_errors_begin();
		mt_jemalloc_arena_begin();
		mt_jemalloc_large_begin();
		mt_jemalloc_caches_begin(mt_config()->prof != MT_PROF_NONE);
	}
	unmap_start_area();
	mt_jemalloc_message_begun();
	je_free(first);
	if (!reason)
		return NULL;
	mt_jemalloc_fork_give_up();
	if (first || mt_jemalloc_message_refuses_pages())
		mt_log(MT_LOG_WARN, "the embedded jemalloc does not fit: %s. libc's malloc serves",
		       reason);
	return reason;
}

/* ---- figures ---- */

static uint64_t ask(const char *name)
{
	uint64_t value = 0;
	size_t bytes = sizeof(size_t);

	if (je_mallctl(name, &value, &bytes, NULL, 0) != 0)
		return 0;
	return value;
}

/* Under the purge lock: a purge would keep the caller waiting. */
static bool enter_epoch(void)
{
	uint64_t epoch = 1;
	size_t bytes = sizeof(epoch);

	return je_mallctl("epoch", &epoch, &bytes, &epoch, bytes) == 0;
}

static bool renew_figures(void)
{
	bool done;

	/* a thread new to jemalloc is registered under the account's lock, which fork takes first
	 */
	mt_jemalloc_know_thread();
	mt_purge_enter();
	done = enter_epoch();
	mt_purge_leave();
	return done;
}

/* 4096 is MALLCTL_ARENAS_ALL: all arenas merged. */
static bool jemalloc_figures(struct mt_heap_figures *out)
{
	uint64_t page = mt_jemalloc_page_bytes(), returned = mt_jemalloc_records_returned_bytes();
	struct mt_object_heap_figures objects;

	if (!renew_figures())
		return false;
	mt_object_heap_read(&objects, true);
	memset(out, 0, sizeof(*out));
	out->live_bytes = ask("stats.allocated") + objects.live_bytes;
	out->dirty_bytes =
		(ask("stats.arenas.4096.pdirty") + ask("stats.arenas.4096.pmuzzy")) * page +
		objects.dirty_bytes;
	out->active_bytes = ask("stats.active") + objects.used_bytes;
	out->resident_bytes = mt_sat_sub(ask("stats.resident"), returned) + objects.used_bytes +
			      objects.dirty_bytes;
	out->mapped_bytes = ask("stats.mapped") + objects.used_bytes;
	out->retained_bytes = ask("stats.retained");
	out->metadata_bytes = mt_sat_sub(ask("stats.metadata"), returned);
	out->thread_cache_bytes = ask("stats.arenas.4096.tcache_bytes");
	out->arenas_count = mt_jemalloc_arenas_count();
	out->alloc_count =
		ask("stats.arenas.4096.small.nmalloc") + ask("stats.arenas.4096.large.nmalloc");
	out->free_count =
		ask("stats.arenas.4096.small.ndalloc") + ask("stats.arenas.4096.large.ndalloc");
	return true;
}

static bool jemalloc_info(struct mt_mallinfo *out)
{
	uint64_t page = mt_jemalloc_page_bytes();
	bool is_new = false;

	mt_jemalloc_know_thread();
	if (mt_purge_enter_within(INFO_WAIT_NS)) {
		is_new = enter_epoch();
		mt_purge_leave();
	}
	*out = (struct mt_mallinfo){
		.keepcost =
			(ask("stats.arenas.4096.pdirty") + ask("stats.arenas.4096.pmuzzy")) * page};
	out->arena = ask("stats.active") + out->keepcost;
	mt_jemalloc_large_classes(MT_GLIBC_MMAP_THRESHOLD, &out->hblks, &out->hblkhd);
	return is_new;
}

/* ---- purge ---- */

/* Arena by arena: a thread that needs pages of an arena waits for that arena alone. Which of them
 * are in use is not asked: jemalloc's answer is as old as the last epoch, and one that has never
 * been used is passed over by it. */
static void jemalloc_purge(struct mt_purge_outcome *out)
{
	unsigned int count = mt_jemalloc_arenas_count();

	memset(out, 0, sizeof(*out));
	out->possible = true;
	mt_purge_enter();
	mt_glibc_trim_old();
	mt_purge_leave();
	for (unsigned int index = 0; index < count; index++) {
		uint64_t began = mt_os_now_ns();
		uint64_t took;

		mt_purge_enter();
		mt_jemalloc_purge_arena(index);
		took = mt_os_now_ns() - began;
		mt_purge_leave();
		if (took > out->longest_hold_ns)
			out->longest_hold_ns = took;
	}
	if (mt_thread_is_ours())
		mt_jemalloc_records_return();
}

static unsigned int jemalloc_empty(bool at_once)
{
	mt_jemalloc_records_return();
	return mt_jemalloc_caches_empty(at_once);
}

/* ---- the backend ---- */

static const struct mt_heap_ops jemalloc_ops = {
#define X(type, name, params, args) .name = je_##name,
	MT_HEAP_ALLOCATING(X) MT_HEAP_EXISTING(X)
#undef X
};

static const struct mt_backend jemalloc_backend = {
	.ops = &jemalloc_ops,
	.counting = MT_COUNTING_OWN,
	.figures_show_dirty = true,
	.figures = jemalloc_figures,
	.info = jemalloc_info,
	.classes = mt_jemalloc_classes,
	.profiler = &mt_jemalloc_profiler,
	.pages = mt_jemalloc_pages,
	.purge = jemalloc_purge,
	.purge_again = mt_jemalloc_purge_again,
	.reclaim = mt_jemalloc_reclaim,
	.flush_thread = mt_jemalloc_flush_thread,
	.empty_caches = jemalloc_empty,
	.take_cost_ns = mt_jemalloc_reuse_take_cost_ns,
};

const struct mt_backend *mt_jemalloc_backend(const struct mt_config *config,
					     const struct mt_backend_hooks *given, char *out_conf,
					     size_t out_conf_bytes)
{
	hooks = given;
	mt_jemalloc_conf(config, out_conf, out_conf_bytes);
	conf = out_conf;
	je_malloc_message = mt_jemalloc_message;
	mt_jemalloc_message_start(conf);
	mt_jemalloc_event_use(MT_BACKEND_EVENT_BYTES, hooks->allocated);
	mt_jemalloc_large_use(hooks->freed_large);
	mt_jemalloc_frees_use(hooks->freed);
	return &jemalloc_backend;
}
