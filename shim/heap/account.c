#include "heap/account.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "core/services.h"
#include "core/thread.h"
#include "core/worker.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/libc.h"
#include "sys/lock.h"
#include "sys/os.h"
#include "sys/saturating.h"

/* The last of the inner ones is ours: destructors run by rising key, so in each round ours comes
 * after those of all libraries that use fewer keys, and what they allocate and free is still
 * counted. */
#define LAST_INNER_KEY (MT_LIBC_INNER_KEYS - 1)

/* Source: POSIX, PTHREAD_DESTRUCTOR_ITERATIONS; glibc runs 4 rounds. */
#ifdef __SANITIZE_THREAD__
/* in the last one its own comes before ours, and no code that it has instrumented may run after
 * that */
#define DESTRUCTOR_ROUNDS 3
#else
#define DESTRUCTOR_ROUNDS 4
#endif

MT_TLS struct mt_thread_counters mt_thread_counters;

/* Several lists instead of one: each step in a list of counters that lie on as many stacks waits
 * for memory, and these wait together (200 threads, not in the caches: 85 us in one list, 18 in
 * 16). */
#define SHARDS         16
#define ACTIVE_THREADS 16 /* threads that are looked at between full sums */

struct sums {
	uint64_t allocated_bytes;
	uint64_t freed_bytes;
};

static MT_TLS bool is_list_ours;                    /* this thread has the lock, or waits for it */
static struct mt_lock list_lock = MT_LOCK(account); /* all that follows, and the counters' links */
static struct mt_thread_counters *shards[SHARDS];
static _Atomic uint64_t linked_count; /* written under the lock */
static uint64_t links_ever;           /* gives each thread its shard */
static struct sums dead;
static struct sums seen; /* of the living, as they were last looked at */

/* Threads that changed between the last two full sums. */
static struct mt_thread_counters *active_threads[ACTIVE_THREADS];
static unsigned int active_threads_count; /* ACTIVE_THREADS + 1: too many */
/* there was a full sum, and no thread was registered since */
static bool is_partial_sum_good;

static pthread_key_t fold_key;
static bool has_key;
static bool started;                          /* and it counts */
static _Atomic(mt_account_reader) also_reads; /* acquire/release with what it reads */

static void (*on_main_end)(void);

/* libc blocks even its own signals, which no program can, once a thread has run its last
 * destructor: from then on the counters may vanish with the stack at any moment. What libc frees
 * there (other threads' dead TLS) is not counted. */
static bool is_past_destructors(void)
{
	const uint64_t cancel_signal = 1ull << 31; /* 32, glibc's SIGCANCEL */

	return mt_os_blocked_signals() & cancel_signal;
}

static void lock_list(void)
{
	mt_lock_lock_noted(&list_lock, &is_list_ours);
}

static void unlock_list(void)
{
	mt_lock_unlock_noted(&list_lock, &is_list_ours);
}

static bool read_counters(const struct mt_thread_counters *counters, uint64_t *out_allocated,
			  uint64_t *out_freed)
{
	mt_account_reader read = mt_load_acquire(&also_reads);
	const void *theirs = mt_load_acquire(&counters->allocator_counters);

	*out_allocated = *out_freed = 0;
	if (read && theirs && !read(theirs, out_allocated, out_freed))
		return false;
	*out_allocated += __atomic_load_n(&counters->allocated_bytes, __ATOMIC_RELAXED);
	*out_freed +=
		__atomic_load_n(&counters->freed_bytes, __ATOMIC_RELAXED) & ~MT_THREAD_IS_KNOWN;
	return true;
}

static void link_thread(struct mt_thread_counters *counters)
{
	struct mt_thread_counters **first;

	mt_assert(!counters->linked);
	counters->shard = (uint8_t)(links_ever++ % SHARDS);
	first = &shards[counters->shard];
	counters->previous = NULL;
	counters->next = *first;
	if (*first)
		(*first)->previous = counters;
	*first = counters;
	counters->linked = 1;
	counters->tid = mt_libc_own_tid();
	counters->rest = MT_REST_MOVES;
	counters->seen_allocated_bytes = counters->folded_allocated_bytes;
	counters->seen_freed_bytes = counters->folded_freed_bytes;
	linked_count++;
	mt_assert(linked_count > 0);
	is_partial_sum_good = false;
}

static void forget_active_thread(const struct mt_thread_counters *counters)
{
	if (active_threads_count > ACTIVE_THREADS)
		return;
	for (unsigned int i = 0; i < active_threads_count; i++)
		if (active_threads[i] == counters) {
			active_threads[i] = active_threads[--active_threads_count];
			return;
		}
}

static void unlink_thread(struct mt_thread_counters *counters)
{
	mt_assert(is_list_ours);
	mt_assert(counters->linked && linked_count > 0);
	mt_assert(counters->shard < SHARDS);
	mt_assert(counters->previous ? counters->previous->next == counters
				     : shards[counters->shard] == counters);
	if (counters->previous)
		counters->previous->next = counters->next;
	else
		shards[counters->shard] = counters->next;
	if (counters->next)
		counters->next->previous = counters->previous;
	counters->linked = 0;
	linked_count--;
	seen.allocated_bytes -= counters->seen_allocated_bytes - counters->folded_allocated_bytes;
	seen.freed_bytes -= counters->seen_freed_bytes - counters->folded_freed_bytes;
	forget_active_thread(counters);
}

/* Adds what the thread has counted since the last fold to the sums of ended threads. List lock
 * held. */
static void fold_counters(struct mt_thread_counters *counters, uint64_t allocated, uint64_t freed)
{
	dead.allocated_bytes += allocated - counters->folded_allocated_bytes;
	dead.freed_bytes += freed - counters->folded_freed_bytes;
	counters->folded_allocated_bytes = allocated;
	counters->folded_freed_bytes = freed;
}

/* The thread ends. Its counters leave the list in the first round, since nothing tells when the
 * memory behind it goes; whatever other destructors still do is folded in the rounds that follow.
 */
static void fold_thread(void *value)
{
	struct mt_thread_counters *counters = value;
	uint64_t allocated = 0;
	uint64_t freed = 0;
	/* outside the lock: may ask the allocator */
	bool known = read_counters(counters, &allocated, &freed);

	lock_list();
	if (started && counters->linked)
		unlink_thread(counters);
	if (known)
		fold_counters(counters, allocated, freed);
	unlock_list();
	if (++counters->rounds < DESTRUCTOR_ROUNDS)
		(void)pthread_setspecific(fold_key, counters);
	if (counters->rounds == 1 && counters->is_main && on_main_end)
		on_main_end();
}

/* Takes keys until one has the last inner number, and gives the others back. */
bool mt_account_take_key(pthread_key_t *out, void (*destructor)(void *))
{
	pthread_key_t spare[LAST_INNER_KEY + 1];
	int count = 0;
	bool taken = false;

	while (!taken && count <= LAST_INNER_KEY) {
		if (pthread_key_create(&spare[count], destructor) != 0)
			break;
		taken = spare[count] >= LAST_INNER_KEY;
		count++;
	}
	if (count > 0 && spare[count - 1] > LAST_INNER_KEY) /* somebody else has the last of them */
		pthread_key_delete(spare[--count]);
	if (count == 0)
		return false;
	*out = spare[--count];
	while (count > 0)
		pthread_key_delete(spare[--count]);
	mt_assert(*out <= LAST_INNER_KEY);
	return true;
}

void mt_account_start(mt_account_reader reader, void (*main_ended)(void))
{
	mt_account_use_reader(reader);
	on_main_end = main_ended;
	has_key = has_key || mt_account_take_key(&fold_key, fold_thread);
	started = has_key;
}

void mt_account_use_reader(mt_account_reader reader)
{
	mt_store_release(&also_reads, reader);
}

uint64_t mt_account_own_allocated(void)
{
	uint64_t allocated = 0;
	uint64_t freed = 0;

	(void)read_counters(&mt_thread_counters, &allocated, &freed);
	return allocated;
}

/* After a start for an allocator that then could not begin, too: nobody asks that one for its
 * counters any more. */
void mt_account_watch_main(void (*main_ended)(void))
{
	mt_account_use_reader(NULL);
	started = false;
	on_main_end = main_ended;
	has_key = has_key || mt_account_take_key(&fold_key, fold_thread);
	mt_account_know_main();
}

/* What the thread's end is told by; false if libc has no room for it. Whose end it is, is
 * settled here and kept: asked again at the end it may be refused (a sandbox), and threads of ours
 * were started upon this answer. */
static bool remember(struct mt_thread_counters *counters)
{
	bool done = pthread_setspecific(fold_key, counters) == 0;

	if (done && !mt_worker_is_main_watched() && mt_os_gettid() == mt_os_getpid()) {
		counters->is_main = true;
		mt_worker_note_main_watched(true);
	}
	return done;
}

void mt_account_know_main(void)
{
	if (has_key && mt_thread_counters.rounds == 0 && mt_os_gettid() == mt_os_getpid())
		(void)remember(&mt_thread_counters);
}

void mt_account_thread_born(const void *allocator_counters)
{
	struct mt_thread_counters *counters = &mt_thread_counters;
	int kept = errno;

	/* release: with what the allocator has written there */
	if (allocator_counters)
		mt_store_release(&counters->allocator_counters, allocator_counters);
	if ((counters->freed_bytes & MT_THREAD_IS_KNOWN) || !started)
		return;
	counters->freed_bytes |= MT_THREAD_IS_KNOWN;
	/* Counters that no destructor would take out again are not linked: what this thread holds
	 * goes uncounted. */
	if (!is_past_destructors() && remember(counters)) {
		lock_list();
		link_thread(counters);
		unlock_list();
	}
	errno = kept;
}

/* List lock held. True when it could be looked at. */
static bool look_at(struct mt_thread_counters *counters)
{
	uint64_t allocated;
	uint64_t freed;

	mt_assert(is_list_ours && counters->linked);
	if (!read_counters(counters, &allocated, &freed))
		return false;
	if (allocated != counters->seen_allocated_bytes || freed != counters->seen_freed_bytes) {
		counters->moves = true;
		seen.allocated_bytes += allocated - counters->seen_allocated_bytes;
		seen.freed_bytes += freed - counters->seen_freed_bytes;
		counters->seen_allocated_bytes = allocated;
		counters->seen_freed_bytes = freed;
	}
	return true;
}

static void add_up(struct mt_account_totals *out)
{
	out->allocated_bytes = dead.allocated_bytes + seen.allocated_bytes;
	out->freed_bytes = dead.freed_bytes + seen.freed_bytes;
	/* A free may be seen before its allocation. */
	out->live_bytes = mt_sat_sub(out->allocated_bytes, out->freed_bytes);
	out->threads_count = linked_count;
}

/* Whole pages of objects are allocated and freed, and only a part of them is live. */
static void add_objects(struct mt_account_totals *out)
{
	struct mt_object_heap_figures objects;

	mt_object_heap_read(&objects, false);
	out->allocated_bytes += objects.allocated_bytes;
	out->freed_bytes += objects.freed_bytes;
	out->live_bytes += objects.live_bytes;
}

static void note_active_thread(struct mt_thread_counters *counters)
{
	mt_assert(active_threads_count <= ACTIVE_THREADS + 1);
	if (counters->moves && active_threads_count < ACTIVE_THREADS)
		active_threads[active_threads_count++] = counters;
	else if (counters->moves)
		active_threads_count = ACTIVE_THREADS + 1;
	counters->moves = false;
}

static bool look_at_all(void)
{
	struct mt_thread_counters *at[SHARDS];
	bool known = true;
	bool more = true;

	mt_assert(is_list_ours);
	memcpy(at, shards, sizeof(at));
	active_threads_count = 0;
	while (known && more) {
		more = false;
		for (int shard = 0; shard < SHARDS; shard++) {
			if (!at[shard])
				continue;
			known = known && look_at(at[shard]);
			note_active_thread(at[shard]);
			at[shard] = at[shard]->next;
			more = true;
		}
	}
	return known;
}

/* ---- threads that rest ---- */

/* A thread that wakes up for a timeout, a heartbeat, moves little. */
#define REST_LITTLE_BYTES 65536u

/* What an emptied thread moves adds up until it is no longer little. */
static void note_rest(struct mt_thread_counters *thread, bool at_once)
{
	uint64_t allocated, freed;

	if (!read_counters(thread, &allocated, &freed))
		return;
	if (allocated + freed - thread->rest_bytes >= (at_once ? 1 : REST_LITTLE_BYTES))
		thread->rest = at_once ? MT_REST_RESTS : MT_REST_MOVES;
	else if (thread->rest == MT_REST_EMPTIED)
		return;
	else
		thread->rest = MT_REST_RESTS;
	thread->rest_bytes = allocated + freed;
}

unsigned int mt_account_note_rest(bool at_once)
{
	unsigned int count = 0;

	mt_assert(mt_thread_is_ours());
	lock_list();
	for (int shard = 0; shard < SHARDS; shard++)
		for (struct mt_thread_counters *at = shards[shard]; at; at = at->next) {
			note_rest(at, at_once);
			count += at->rest == MT_REST_RESTS && mt_load_relaxed(&at->cache);
		}
	unlock_list();
	return count;
}

static struct mt_thread_counters *find_resting(void)
{
	for (int shard = 0; shard < SHARDS; shard++)
		for (struct mt_thread_counters *at = shards[shard]; at; at = at->next)
			if (at->rest == MT_REST_RESTS && mt_load_relaxed(&at->cache))
				return at;
	return NULL;
}

bool mt_account_try_sleeper(bool (*sleeps)(const struct mt_thread_counters *thread),
			    void **out_cache)
{
	struct mt_thread_counters *thread;
	bool is_asleep;

	mt_assert(mt_thread_is_ours());
	lock_list();
	thread = find_resting();
	is_asleep = thread && sleeps(thread);
	*out_cache = is_asleep ? mt_load_relaxed(&thread->cache) : NULL;
	if (thread)
		thread->rest = is_asleep ? MT_REST_EMPTIED : MT_REST_TRIED;
	unlock_list();
	return thread != NULL;
}

uint64_t mt_account_threads(void)
{
	return mt_load_relaxed(&linked_count);
}

bool mt_account_read_malloc(struct mt_account_totals *out)
{
	bool known;

	if (!started)
		return false;
	lock_list();
	known = look_at_all();
	is_partial_sum_good = known && active_threads_count <= ACTIVE_THREADS;
	if (known)
		add_up(out);
	unlock_list();
	return known;
}

bool mt_account_read(struct mt_account_totals *out)
{
	bool known = mt_account_read_malloc(out);

	if (known)
		add_objects(out);
	return known;
}

bool mt_account_partial_sum(struct mt_account_totals *out)
{
	bool good;

	lock_list();
	good = started && is_partial_sum_good;
	mt_assert(!good || active_threads_count <= ACTIVE_THREADS);
	for (unsigned int i = 0; good && i < active_threads_count; i++)
		good = look_at(active_threads[i]);
	if (good)
		add_up(out);
	unlock_list();
	if (good)
		add_objects(out);
	return good;
}

void mt_account_fork_prepare(void)
{
	mt_lock_fork_prepare(&list_lock, is_list_ours);
}

void mt_account_fork_parent(void)
{
	mt_lock_fork_parent(&list_lock, is_list_ours);
}

/* The other threads do not exist in the child, and libc hands their stacks, in which their counters
 * lie, to new ones: what they counted goes to the dead. */
static void fold_shard(struct mt_thread_counters *counters)
{
	while (counters) {
		struct mt_thread_counters *next = counters->next;
		uint64_t allocated;
		uint64_t freed;

		if (counters != &mt_thread_counters &&
		    read_counters(counters, &allocated, &freed)) {
			fold_counters(counters, allocated, freed);
			counters->linked = 0;
		}
		counters = next;
	}
}

void mt_account_fork_child(void)
{
	struct mt_thread_counters *left[SHARDS];

	mt_lock_fork_child(&list_lock, is_list_ours);
	/* The thread that forks is the main thread of the child. */
	mt_worker_note_main_watched(false);
	mt_account_know_main();
	/* A handler has interrupted a change of the lists, which goes on in this child: it counts
	 * nothing. */
	if (is_list_ours) {
		started = false;
		return;
	}
	memcpy(left, shards, sizeof(left));
	memset(shards, 0, sizeof(shards));
	linked_count = 0;
	active_threads_count = 0;
	is_partial_sum_good = false;
	seen = (struct sums){0};
	mt_thread_counters.linked = 0;
	for (int shard = 0; shard < SHARDS; shard++)
		fold_shard(left[shard]);
	if ((mt_thread_counters.freed_bytes & MT_THREAD_IS_KNOWN) &&
	    mt_thread_counters.rounds == 0 && !mt_thread_counters.linked)
		link_thread(&mt_thread_counters);
}

/* ---- allocation events ---- */

static _Atomic(const struct mt_allocation_listener *) given; /* set once; no ordering */

static const struct mt_allocation_listener *listener(void)
{
	return mt_load_relaxed(&given);
}

void mt_account_event_listen(const struct mt_allocation_listener *listener)
{
	mt_store_relaxed(&given, listener);
}

uint64_t mt_account_event_note(uint64_t allocated_bytes)
{
	uint64_t fresh = allocated_bytes - mt_thread_counters.event_allocated_bytes;

	mt_thread_counters.event_allocated_bytes = allocated_bytes;
	if (listener() && mt_unlikely(listener()->note(fresh)))
		listener()->run(fresh);
	return fresh;
}

void mt_account_event_objects(uint64_t bytes)
{
	if (listener() && mt_unlikely(listener()->note(bytes)))
		listener()->run(bytes);
}

/* ---- who allocates ---- */

static _Atomic bool callers_wanted;       /* no ordering */
static _Atomic(void (*)(void)) on_change; /* set once; no ordering */

MT_TLS struct mt_allocation_caller mt_allocation_caller;

void mt_account_event_offer_callers(void (*changed)(void))
{
	mt_store_relaxed(&on_change, changed);
}

bool mt_account_event_wants_callers(void)
{
	return mt_load_relaxed(&callers_wanted);
}

void mt_account_event_note_callers(bool wanted)
{
	void (*changed)(void) = mt_load_relaxed(&on_change);

	if (mt_exchange_relaxed(&callers_wanted, wanted) != wanted && changed)
		changed();
}

void mt_account_event_freed_large(void)
{
	if (listener())
		listener()->freed_large();
}

void mt_account_event_purged(void)
{
	if (listener())
		listener()->purged();
}
