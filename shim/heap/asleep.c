#include "heap/asleep.h"

#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <string.h>

#include "core/log.h"
#include "core/state.h"
#include "heap/account.h"
#include "heap/backend.h"
#include "heap/entries.h"
#include "heap/glibc.h"
#include "heap/growth.h"
#include "heap/jemalloc.h"
#include "heap/page_flags.h"
#include "sys/atomic.h"
#include "sys/libc.h"
#include "sys/loader.h"
#include "sys/lock.h"
#include "sys/os.h"
#include "sys/saturating.h"

#define FORK_WAIT_NS MT_NS_PER_S

/* 200 ms in all: jemalloc starts in 1 ms; the forking thread itself may allocate in a handler of
 * fork, if it waits without effect. */
#define WAKE_WAIT_NS 100000u
#define WAKE_WAITS   2000u

/* Free at the end of the heap where a large block grows: each copy lies behind the last one. */
#define GROWING_BYTES (4u << 20)

/* While asleep: the highest value that mallopt accepts, so that all blocks come from the heap that
 * brk extends. */
#define MMAP_THRESHOLD (32 << 20)

/* Checks of the threads of a large pool for each that reads their counters. */
#define THREADS_A_READ 16u

/* libc may give no larger block a mapping of its own */
#define LARGE_BYTES (64u << 10)

/* why libc's malloc stays */
#define LIMITED "RLIMIT_AS or RLIMIT_DATA is 4 GB or less"

enum state {
	UNDECIDED, /* libc serves, until the heap starts */
	ASLEEP,
	WAKING,
	AWAKE,
	STAYING /* jemalloc never serves */
};
static _Atomic int state; /* enum state; release/acquire with what the state stands for */

static struct mt_lock wake_lock = MT_LOCK(wake);
static bool fork_has_lock;             /* of the fork under way */
static _Atomic bool is_flagged_served; /* flagged_ops; no ordering */

static const struct mt_config *config;
static const struct mt_backend_hooks *hooks;
static struct mt_heap_ops libc; /* a copy: one load finds the function */

static enum state read_state(void)
{
	return (enum state)mt_load_acquire(&state);
}

static void set_state(enum state wanted)
{
	mt_assert(read_state() != AWAKE); /* for good, as is STAYING */
	mt_assert(read_state() != STAYING || wanted == STAYING);
	mt_store_release(&state, (int)wanted);
}

bool mt_asleep_is_awake(void)
{
	return read_state() == AWAKE;
}

/* ---- serving from libc ---- */

static void stay(const char *reason);

/* As mt_asleep_wake. If another thread starts jemalloc or forks, waits for it: a process that
 * gave the range up meanwhile would stay on libc's malloc for good. */
static bool wake_patiently(void)
{
	for (unsigned i = 0; i < WAKE_WAITS && !mt_asleep_wake(); i++) {
		if (!mt_lock_is_locked(&wake_lock))
			return mt_asleep_is_awake();
		mt_os_sleep_ns(WAKE_WAIT_NS);
	}
	return mt_asleep_is_awake();
}

/* A block of libc's outside the brk heap. Returns whether it may be handed out all the same. */
static bool accept_outside(void)
{
	if (wake_patiently() || !mt_glibc_range_give_up())
		return false;
	if (read_state() != UNDECIDED) /* else the heap starts later, and finds it given up */
		(void)mt_asleep_stay();
	return true;
}

/* Returns whether the block, which libc has just made, may be handed out. NULL: without a worker
 * nobody has seen a limit that another process has set. */
static MT_COLD bool accept(const void *block)
{
	if (!block && mt_address_space_follow())
		return !wake_patiently() && read_state() != STAYING;
	switch (mt_glibc_range_add(block)) {
	case MT_BRK_EXTENDED:
		mt_thread_counters.next_event_bytes = 0; /* an event with this block */
		return true;
	case MT_BRK_INSIDE:
		return true;
	case MT_BRK_OUTSIDE:
		return accept_outside();
	case MT_BRK_FROZEN:
		break;
	}
	return false;
}

static bool is_tuned; /* the thread that starts the heap, and calls before */

/* All blocks come from the brk heap. mallopt disables glibc's dynamic thresholds: it is called only
 * when needed, since the process may stay on libc's malloc. */
static MT_COLD void tune_libc(void)
{
	if (is_tuned)
		return;
	is_tuned = true;
	mt_glibc_read_users_parameters();
	mt_glibc_mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD);
	mt_glibc_mallopt(M_ARENA_MAX, 1);
}

static _Atomic size_t trim_bytes = MT_GLIBC_TRIM_THRESHOLD; /* no ordering */

static void raise_trim(size_t bytes)
{
	if (!is_tuned || bytes <= mt_load_relaxed(&trim_bytes))
		return; /* not before libc's malloc is ready */
	mt_store_relaxed(&trim_bytes, bytes);
	if (mt_glibc_adapts())
		mt_glibc_mallopt(M_TRIM_THRESHOLD, (int)bytes);
}

/* libc itself raises its threshold to twice a mapped block that is freed. */
static void adapt_libc(size_t size)
{
	if (size >= MT_GLIBC_MMAP_THRESHOLD && size < MT_WAKE_BLOCK_BYTES)
		raise_trim(2 * size);
}

/* From this minor version on libc initialises its malloc after the program's ifunc resolvers. */
#define LIBC_LATE_MINOR 43

/* 0 while the loader relocates the program: it copies the initial values of thread-local data
 * later. volatile: nothing ever writes it, so the compiler would take it for a constant. */
static MT_TLS volatile bool is_relocated = true;

/* Whether libc's malloc has its arena. Without one it crashes, except for a block that it maps. */
static bool libc_is_ready(void)
{
	return is_relocated || mt_libc_minor() < LIBC_LATE_MINOR;
}

/* Allocated in blocks of LARGE_BYTES and more since counted_ns; no ordering. */
static _Atomic uint64_t large_bytes;

static MT_COLD bool wakes_for_large(size_t size)
{
	if (read_state() == UNDECIDED && libc_is_ready())
		tune_libc();
	adapt_libc(size);
	mt_add_relaxed(&large_bytes, size);
	return size >= MT_WAKE_BLOCK_BYTES && mt_asleep_wake();
}

static inline bool wakes_for(size_t size)
{
	return mt_unlikely(size >= LARGE_BYTES) && wakes_for_large(size);
}

/* Returns whether the block, which libc has just made, may be handed out; else it goes back to
 * libc, and those of next_ops make one. */
static inline bool keeps(void *block)
{
	if (mt_likely(mt_glibc_range_is_inside(block)) || accept(block))
		return true;
	libc.free(block);
	return false;
}

static const struct mt_heap_ops *next_ops(void)
{
	return read_state() == STAYING ? mt_glibc_accounting_ops() : mt_jemalloc_ops();
}

static void *asleep_malloc(size_t size)
{
	void *block;

	if (wakes_for(size))
		return mt_jemalloc_ops()->malloc(size);
	block = libc.malloc(size);
	return keeps(block) ? mt_glibc_count(block) : next_ops()->malloc(size);
}

static void *asleep_calloc(size_t count, size_t size)
{
	size_t bytes;
	void *block;

	/* libc refuses a product that is too large */
	if (!__builtin_mul_overflow(count, size, &bytes) && wakes_for(bytes))
		return mt_jemalloc_ops()->calloc(count, size);
	block = libc.calloc(count, size);
	return keeps(block) ? mt_glibc_count(block) : next_ops()->calloc(count, size);
}

static void *asleep_memalign(size_t alignment, size_t size)
{
	void *block;

	if (wakes_for(size) || wakes_for(alignment))
		return mt_jemalloc_ops()->memalign(alignment, size);
	block = libc.memalign(alignment, size);
	return keeps(block) ? mt_glibc_count(block) : next_ops()->memalign(alignment, size);
}

static void *asleep_aligned_alloc(size_t alignment, size_t size)
{
	return mt_heap_aligned_alloc_by(asleep_memalign, alignment, size);
}

static int asleep_posix_memalign(void **out, size_t alignment, size_t size)
{
	return mt_heap_posix_memalign_by(asleep_memalign, out, alignment, size);
}

/* Returns whether jemalloc has made the block. From the freezing of the range on, a thread whose
 * block of libc's is refused gets one, while these functions may still serve. */
static inline bool is_jemallocs(const void *block)
{
	return mt_unlikely(!mt_glibc_range_is_inside(block)) &&
	       mt_glibc_range_add(block) == MT_BRK_FROZEN;
}

static void asleep_free(void *ptr)
{
	size_t header;

	if (mt_unlikely(!ptr))
		return;
	if (is_jemallocs(ptr)) {
		mt_jemalloc_ops()->free(ptr);
		return;
	}
	header = mt_glibc_header(ptr);
	if (mt_unlikely(!mt_account_bump_known(&mt_thread_counters.freed_bytes,
					       mt_glibc_heap_usable(header))))
		mt_account_thread_born(NULL);
	libc.free(ptr);
}

/* The program has set flags on pages of the heap. libc would have mapped a block of held bytes by
 * itself, and now unmap all but the first kept bytes: these whole pages are replaced. Returns
 * whether it would have, and a page of the block is flagged. */
static MT_COLD bool drop_flags(void *ptr, size_t held, size_t kept)
{
	uintptr_t page = mt_os_page_bytes();
	uintptr_t first = ((uintptr_t)ptr + kept + page - 1) / page * page;
	uintptr_t end = ((uintptr_t)ptr + held) / page * page;

	mt_assert(kept <= held);
	if (held < MT_GLIBC_MMAP_THRESHOLD || !mt_page_flags_has(ptr, held))
		return false;
	if (end > first)
		mt_page_flags_freed((void *)first, end - first);
	return true;
}

static void asleep_free_flagged(void *ptr)
{
	if (ptr && !is_jemallocs(ptr))
		(void)drop_flags(ptr, mt_glibc_usable(ptr), 0);
	asleep_free(ptr);
}

/* A block that grows is copied: libc's realloc could move it out of the range, and it could not be
 * moved back without memory. An eighth more, or all that does not wake the process up, so that a
 * buffer that grows in small steps is not copied in each. */
static void *grow(void *ptr, size_t held, size_t size)
{
	size_t more = mt_min_u64(size + (held >= 1024 ? held / 8 : 0), MT_WAKE_BLOCK_BYTES - 1);
	void *fresh;

	mt_assert(size > held);
	if (size >= MT_GLIBC_MMAP_THRESHOLD)
		raise_trim(GROWING_BYTES);
	fresh = asleep_malloc(more > size ? more : size);
	if (!fresh)
		return NULL;
	memcpy(fresh, ptr, held);
	asleep_free_flagged(ptr);
	return fresh;
}

static void *asleep_realloc(void *ptr, size_t size)
{
	void *shrunk;
	size_t held;

	if (!ptr)
		return asleep_malloc(size);
	if (is_jemallocs(ptr))
		return mt_jemalloc_ops()->realloc(ptr, size);
	if (!size) {
		asleep_free_flagged(ptr);
		return NULL;
	}
	held = mt_glibc_usable(ptr);
	if (size > held)
		return grow(ptr, held, size);
	if (mt_unlikely(mt_page_flags_any()) && drop_flags(ptr, held, size))
		return ptr; /* libc would write to pages that may be protected */
	if (size >= held / 2)
		return ptr;
	shrunk = libc.realloc(ptr, size);
	mt_assert(shrunk == ptr); /* libc shrinks a block where it is */
	mt_glibc_uncount(held - mt_glibc_usable(shrunk));
	return shrunk;
}

static size_t asleep_malloc_usable_size(void *ptr)
{
	if (is_jemallocs(ptr))
		return mt_jemalloc_ops()->malloc_usable_size(ptr);
	return ptr ? mt_glibc_usable(ptr) : 0;
}

static const struct mt_heap_ops asleep_ops = {
#define X(type, name, params, args) .name = asleep_##name,
	MT_HEAP_ALLOCATING(X) MT_HEAP_EXISTING(X)
#undef X
};

static const struct mt_heap_ops flagged_ops = {
#define X(type, name, params, args) .name = asleep_##name,
	MT_HEAP_ALLOCATING(X)
#undef X
		.free = asleep_free_flagged,
	.malloc_usable_size = asleep_malloc_usable_size,
};

/* Once in a process. With all signals blocked, as in wake(). */
static MT_COLD void serve_flagged(void)
{
	uint64_t signals = mt_os_block_signals();

	if (mt_lock_lock_within(&wake_lock, 0)) {
		if (read_state() == ASLEEP) {
			mt_heap_serve(&flagged_ops);
			mt_store_relaxed(&is_flagged_served, true);
		}
		mt_lock_unlock(&wake_lock);
	}
	mt_os_restore_signals(signals);
}

void mt_asleep_note_flags(long number, long address, long bytes, long argument)
{
	mt_page_flags_note(number, address, bytes, argument);
	if (mt_page_flags_any() && read_state() == ASLEEP && !mt_load_relaxed(&is_flagged_served))
		serve_flagged();
}

/* Returns NULL if libc's malloc has no names of its own. */
static const struct mt_heap_ops *prepare(void)
{
	const struct mt_heap_ops *found = mt_glibc_ops();

	if (found && !mt_glibc_range_has_begun()) {
		libc = *found;
		mt_glibc_range_begin();
	}
	return found ? &asleep_ops : NULL;
}

const struct mt_heap_ops *mt_asleep_early_ops(void)
{
	const struct mt_heap_ops *ops = mt_backend_libc_is_next() ? prepare() : NULL;

	return ops ? ops : mt_system_plain_ops();
}

/* ---- programs that lock all their memory ---- */

/* Programs that call mlockall(2), such as mysqld and memcached. The kernel then locks all mappings,
 * and jemalloc maps more than it hands out: 18 MB before the first block, later up to 60 % more
 * than the program holds. Within the kernel's default limit of 8 MB the call would fail; near a
 * memory limit the process would be killed. */

#define GNU_BUCKETS  4 /* words before the Bloom filter; its length is the third */
#define SYMBOLS_MOST 100000u

/* Up to which symbol there may be undefined ones. Behind them in the table come those that the GNU
 * hash section knows, and it says which is the first. If it is empty, lld says how many symbols
 * there are. GNU ld always says 1, and puts the strings right behind the table. What else lies in
 * between is no symbol, and its name may be anywhere. */
static size_t undefined_end(const ElfW(Sym) * symbols, const char *strings,
			    const uint32_t *gnu_hash, const uint32_t *hash)
{
	const uint32_t *buckets =
		gnu_hash ? gnu_hash + GNU_BUCKETS + gnu_hash[2] * (sizeof(ElfW(Addr)) / 4) : NULL;
	size_t between = (uintptr_t)strings > (uintptr_t)symbols
				 ? ((uintptr_t)strings - (uintptr_t)symbols) / sizeof(*symbols)
				 : 0;

	if (hash)
		return hash[1];
	if (gnu_hash && (gnu_hash[0] != 1 || gnu_hash[1] > 1 || buckets[0] != 0))
		return gnu_hash[1];
	return between < SYMBOLS_MOST ? between : 0;
}

static bool imports(const struct mt_elf_object *object, const char *name)
{
	const ElfW(Sym) *symbols = NULL;
	const char *strings = NULL;
	const uint32_t *gnu_hash = NULL, *hash = NULL;
	size_t strings_bytes = 0, end;

	for (const ElfW(Dyn) *at = object->dynamic; at->d_tag != DT_NULL; at++) {
		const void *table = mt_loader_at(object, at->d_un.d_ptr);

		if (at->d_tag == DT_SYMTAB)
			symbols = table;
		else if (at->d_tag == DT_STRTAB)
			strings = table;
		else if (at->d_tag == DT_STRSZ)
			strings_bytes = at->d_un.d_val;
		else if (at->d_tag == DT_GNU_HASH)
			gnu_hash = table;
		else if (at->d_tag == DT_HASH)
			hash = table;
	}
	if (!symbols || !strings)
		return false;
	end = undefined_end(symbols, strings, gnu_hash, hash);
	for (size_t i = 1; i < end; i++)
		if (symbols[i].st_shndx == SHN_UNDEF &&
		    symbols[i].st_name + strlen(name) < strings_bytes &&
		    strcmp(strings + symbols[i].st_name, name) == 0)
			return true;
	return false;
}

/* Ends the walk at the first object that imports mlockall. */
static int look_at_object(struct dl_phdr_info *info, size_t bytes, void *unused)
{
	struct mt_elf_object object = {info->dlpi_addr, NULL, "", false};

	(void)bytes;
	(void)unused;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			object.dynamic =
				(const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	return object.dynamic && imports(&object, "mlockall");
}

/* Returns whether a loaded object imports it. A program that finds it by dlsym is not noticed.
 * Iterates over the loaded objects under the gate of sys/loader.h. */
static bool mlockall_is_imported(void)
{
	int kept = errno;
	bool is_found = mt_loader_iterate(look_at_object, NULL) == 1;

	errno = kept;
	return is_found;
}

/* ---- waking up, and staying ---- */

void mt_asleep_give_up(void)
{
	uint64_t arenas = mt_config()->arena_max;

	set_state(STAYING);
	mt_thread_counters.next_event_bytes = 0; /* what was counted before counts, too */
	if (!is_tuned)
		return;
	mt_glibc_reset_parameters();
	if (arenas)
		mt_glibc_mallopt(M_ARENA_MAX, (int)arenas);
}

/* libc's malloc serves for good. */
static void stay(const char *reason)
{
	if (read_state() == STAYING)
		return; /* the first reason stands: libc maps large blocks from then on */
	mt_asleep_give_up();
	mt_backend_use_glibc(reason);
	mt_heap_serve(mt_glibc_accounting_ops());
	mt_log(MT_LOG_INFO, "glibc serves for good: %s", reason);
}

bool mt_asleep_stay(void)
{
	bool is_outside = mt_glibc_range_is_given_up();

	if (is_outside)
		stay("libc's malloc does not use the brk heap (GLIBC_TUNABLES, LD_AUDIT?)");
	return is_outside;
}

/* Under the lock, or on the thread that starts the heap. Returns NULL, or why jemalloc cannot
 * serve. */
static const char *begin_jemalloc(void)
{
	const char *refusal;

	mt_assert(read_state() == WAKING || read_state() == UNDECIDED);
	mt_backend_prepare_jemalloc(config, hooks);
	refusal = mt_jemalloc_begins();
	if (refusal || !mt_glibc_range_freeze())
		return refusal ? refusal : "blocks lie outside the brk heap";
	mt_account_use_reader(mt_jemalloc_counters);
	mt_backend_use_jemalloc();
	mt_heap_serve_jemalloc();
	set_state(AWAKE);
	return NULL;
}

/* jemalloc maps more than it hands out, and would lock all of that. */
static bool is_refused_by_mlockall(void)
{
	return config->allocator == MT_ALLOCATOR_AUTO && mlockall_is_imported();
}

/* Returns NULL, or why libc's malloc stays. Calls the loader. */
static const char *find_refusal(void)
{
	if (is_refused_by_mlockall())
		return "the program imports mlockall";
	return mt_backend_is_limited(config) ? LIMITED : NULL;
}

/* With all signals blocked: fork takes the lock, and a handler that interrupts its holder may fork.
 */
static bool wake(void)
{
	const char *refusal = find_refusal(); /* before the lock */
	uint64_t signals = mt_os_block_signals();

	if (!mt_lock_lock_within(&wake_lock, 0)) {
		mt_os_restore_signals(signals);
		return false;
	}
	if (read_state() == ASLEEP) {
		if (!refusal) {
			set_state(WAKING);
			refusal = begin_jemalloc();
		}
		if (refusal)
			stay(refusal);
	}
	mt_lock_unlock(&wake_lock);
	mt_os_restore_signals(signals);
	return mt_asleep_is_awake();
}

static void wake_on_own_stack(void *out)
{
	*(bool *)out = wake();
}

/* jemalloc's start needs 12 kB of stack more than libc's malloc, which the thread may not have. */
bool mt_asleep_wake(void)
{
	int kept = errno;
	bool is_awake = mt_asleep_is_awake();

	if (!is_awake && read_state() == ASLEEP && mt_state_is_on() && mt_state_is_own_process())
		mt_os_own_stack_call(wake_on_own_stack, &is_awake);
	errno = kept;
	return is_awake;
}

void mt_asleep_leave_break(void)
{
	if (mt_libc_threads_count() != 1 && wake_patiently())
		mt_glibc_leave_break();
}

bool mt_asleep_start(const struct mt_config *given_config,
		     const struct mt_backend_hooks *given_hooks)
{
	const struct mt_heap_ops *ops = prepare();

	config = given_config;
	hooks = given_hooks;
	if (!ops || mt_glibc_range_is_given_up() || !mt_glibc_check(&libc) ||
	    !mt_jemalloc_take_key())
		return false;
	mt_backend_use_sleeping(config);
	mt_state_note_heap(mt_backend_identity()->allocator, true);
	if (mt_backend_is_limited(config)) {
		stay(LIMITED);
		return true;
	}
	tune_libc();
	set_state(ASLEEP);
	mt_heap_serve(ops);
	return true;
}

bool mt_asleep_begin_awake(const struct mt_config *given_config,
			   const struct mt_backend_hooks *given_hooks)
{
	config = given_config;
	hooks = given_hooks;
	return !mt_glibc_range_is_given_up() && !is_refused_by_mlockall() && !begin_jemalloc();
}

/* Allocated bytes are counted from here. Two threads may both see them reached. No ordering. */
static _Atomic uint64_t counted_ns;
static _Atomic uint64_t counted_bytes;

/* libc's malloc with our count on it takes 4 ns a pair more than bare, 1 % of the time if it makes
 * 64-byte blocks at just below this pace. So a server that does little at a time stays, and holds
 * no tables of jemalloc's. One that is large by other memory must be awake for its worker. */
static bool allocates_much(uint64_t allocated_bytes)
{
	uint64_t then = mt_load_relaxed(&counted_ns);
	uint64_t fresh = mt_sat_sub(allocated_bytes, mt_load_relaxed(&counted_bytes));
	uint64_t now, large;

	if (then && fresh < MT_WAKE_ALLOCATED_BYTES)
		return false;
	now = mt_os_now_ns();
	mt_store_relaxed(&counted_ns, now);
	mt_store_relaxed(&counted_bytes, allocated_bytes);
	large = mt_exchange_relaxed(&large_bytes, 0);
	return then && (now - then < mt_sat_sub(fresh, large) * MT_WAKE_ALLOCATED_NS /
					     MT_WAKE_ALLOCATED_BYTES ||
			mt_growth_is_large());
}

/* To read the totals goes through all threads, and each thread asks when it begins. */
static bool are_totals_due(void)
{
	static _Atomic uint64_t left_out; /* no ordering */

	if (mt_add_relaxed(&left_out, 1) < mt_account_threads() / THREADS_A_READ)
		return false;
	mt_store_relaxed(&left_out, 0);
	return true;
}

static bool has_grown(void)
{
	struct mt_account_totals totals;

	if (mt_glibc_range_bytes() >= MT_WAKE_HEAP_BYTES)
		return true;
	return are_totals_due() && mt_account_read_malloc(&totals) &&
	       (totals.live_bytes >= MT_WAKE_LIVE_BYTES || allocates_much(totals.allocated_bytes));
}

bool mt_asleep_note_growth(void)
{
	enum state now = read_state();

	if (now == ASLEEP && mt_state_is_on() && has_grown())
		(void)mt_asleep_wake();
	return now != STAYING;
}

/* ---- old blocks ---- */

static void trim_old(void *unused)
{
	(void)unused;
	mt_glibc_trim_old();
}

MT_COLD void mt_asleep_free_old(void *ptr)
{
	size_t bytes = mt_glibc_heap_usable(mt_glibc_header(ptr));

	mt_assert(mt_asleep_is_awake() && mt_glibc_range_has(ptr));
	if (mt_unlikely(mt_page_flags_any()))
		(void)drop_flags(ptr, mt_glibc_usable(ptr), 0);
	mt_glibc_uncount(bytes);
	mt_glibc_prepare_old_free(bytes);
	libc.free(ptr);
	if (mt_unlikely(mt_glibc_note_old_free(bytes)) && mt_state_is_own_process())
		mt_os_own_stack_call(trim_old, NULL);
}

MT_COLD void *mt_asleep_realloc_old(void *ptr, size_t size, void *(*make)(size_t size))
{
	size_t held = mt_glibc_usable(ptr);
	void *fresh = size ? make(size) : NULL;

	if (fresh)
		memcpy(fresh, ptr, size < held ? size : held);
	if (fresh || !size)
		mt_asleep_free_old(ptr);
	return fresh;
}

/* ---- fork ---- */

void mt_asleep_fork_prepare(void)
{
	fork_has_lock = mt_lock_lock_within(&wake_lock, FORK_WAIT_NS);
}

void mt_asleep_fork_parent(void)
{
	if (!fork_has_lock)
		return;
	mt_assert(read_state() != WAKING); /* who wakes the process up holds the lock */
	mt_lock_unlock(&wake_lock);
}

/* A thread that does not exist here was initialising jemalloc, which begins once. */
void mt_asleep_fork_child(void)
{
	mt_lock_reset(&wake_lock);
	if (read_state() == WAKING)
		set_state(STAYING);
}
