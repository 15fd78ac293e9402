#include "account/account.h"

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lock.h"

/* glibc keeps the values of the first 32 keys inside the thread; those beyond are allocated, which we cannot have. The
 * last of the 32 is ours: destructors run by rising key, so in each round ours comes after everybody else's who uses
 * fewer, and what they allocate and free is still folded. */
#define LAST_INNER_KEY 31

/* Source: POSIX, PTHREAD_DESTRUCTOR_ITERATIONS; glibc runs 4 rounds. */
#define DESTRUCTOR_ROUNDS 4

MT_TLS struct mt_cell mt_cell;

static struct mt_lock list_lock; /* rank 10: the list, the cells' links, the sums of the dead */
static struct mt_cell *list_first;
static uint64_t dead_allocated_bytes;
static uint64_t dead_freed_bytes;

static pthread_key_t fold_key;
static bool started;
static mt_account_reader reader;

static void (*main_ended)(void);

/* libc blocks even its own signals, which no program can, once a thread has run its last destructor: from then on the
 * cell may vanish with the stack at any moment. What libc frees there (other threads' dead TLS) is not counted. */
static bool is_past_destructors(void)
{
	uint64_t mask = 0;
	const uint64_t cancel_signal = 1ull << 31; /* 32, glibc's SIGCANCEL */

	return syscall(SYS_rt_sigprocmask, 0, NULL, &mask, sizeof(mask)) == 0 && (mask & cancel_signal);
}

static bool read_cell(const struct mt_cell *cell, uint64_t *out_allocated, uint64_t *out_freed)
{
	if (reader)
		return reader(cell->counters, out_allocated, out_freed);
	*out_allocated = __atomic_load_n(&cell->allocated_bytes, __ATOMIC_RELAXED);
	*out_freed = __atomic_load_n(&cell->freed_bytes, __ATOMIC_RELAXED) & ~MT_CELL_KNOWN;
	return true;
}

/* The first question may make the allocator know this thread, and so call mt_account_thread_born: not under the lock. */
static bool prime_reader(void)
{
	uint64_t allocated;
	uint64_t freed;

	return !reader || reader(NULL, &allocated, &freed);
}

static void link_cell(struct mt_cell *cell)
{
	cell->previous = NULL;
	cell->next = list_first;
	if (list_first)
		list_first->previous = cell;
	list_first = cell;
	cell->linked = 1;
}

static void unlink_cell(struct mt_cell *cell)
{
	if (cell->previous)
		cell->previous->next = cell->next;
	else
		list_first = cell->next;
	if (cell->next)
		cell->next->previous = cell->previous;
	cell->linked = 0;
}

/* Moves what the cell has counted since the last fold into the sums of the dead. List lock held. */
static void fold_cell(struct mt_cell *cell, uint64_t allocated, uint64_t freed)
{
	dead_allocated_bytes += allocated - cell->folded_allocated_bytes;
	dead_freed_bytes += freed - cell->folded_freed_bytes;
	cell->folded_allocated_bytes = allocated;
	cell->folded_freed_bytes = freed;
}

/* The thread is dying. Its cell leaves the list in the first round, since nobody says when the memory behind it goes;
 * whatever other destructors still do is folded in the rounds that follow. */
static void fold_thread(void *value)
{
	struct mt_cell *cell = value;
	uint64_t allocated = 0;
	uint64_t freed = 0;
	bool known = read_cell(cell, &allocated, &freed); /* outside the lock: may ask the allocator */

	mt_lock_take(&list_lock);
	if (cell->linked)
		unlink_cell(cell);
	if (known)
		fold_cell(cell, allocated, freed);
	mt_lock_drop(&list_lock);
	if (++cell->rounds < DESTRUCTOR_ROUNDS)
		(void)pthread_setspecific(fold_key, cell);
	if (cell->rounds == 1 && main_ended && syscall(SYS_gettid) == getpid())
		main_ended();
}

/* Takes keys until ours has the wanted number, and gives the others back. */
static bool take_key(void)
{
	pthread_key_t spare[LAST_INNER_KEY + 1];
	int count = 0;
	bool taken = false;

	while (!taken && count <= LAST_INNER_KEY) {
		if (pthread_key_create(&spare[count], fold_thread) != 0)
			break;
		taken = spare[count] >= LAST_INNER_KEY;
		count++;
	}
	if (count == 0)
		return false;
	fold_key = spare[--count];
	while (count > 0)
		pthread_key_delete(spare[--count]);
	return true;
}

void mt_account_start(mt_account_reader given, void (*given_main_ended)(void))
{
	reader = given;
	main_ended = given_main_ended;
	started = take_key();
}

void mt_account_thread_born(const void *counters)
{
	struct mt_cell *cell = &mt_cell;
	int kept = errno;

	if ((cell->freed_bytes & MT_CELL_KNOWN) || !started)
		return;
	cell->freed_bytes |= MT_CELL_KNOWN;
	if (is_past_destructors()) {
		errno = kept;
		return;
	}
	cell->counters = counters;
	mt_lock_take(&list_lock);
	link_cell(cell);
	mt_lock_drop(&list_lock);
	(void)pthread_setspecific(fold_key, cell);
	errno = kept;
}

bool mt_account_read(struct mt_account_totals *out)
{
	struct mt_account_totals sum = {0};
	bool known = started && prime_reader();

	mt_lock_take(&list_lock);
	sum.allocated_bytes = dead_allocated_bytes;
	sum.freed_bytes = dead_freed_bytes;
	for (const struct mt_cell *cell = list_first; known && cell; cell = cell->next) {
		uint64_t allocated;
		uint64_t freed;

		known = read_cell(cell, &allocated, &freed);
		if (!known)
			break;
		sum.allocated_bytes += allocated - cell->folded_allocated_bytes;
		sum.freed_bytes += freed - cell->folded_freed_bytes;
		sum.threads_count++;
	}
	mt_lock_drop(&list_lock);
	if (!known)
		return false;
	sum.live_bytes = sum.allocated_bytes > sum.freed_bytes ? sum.allocated_bytes - sum.freed_bytes : 0;
	*out = sum;
	return true;
}

void mt_account_fork_prepare(void)
{
	mt_lock_take(&list_lock);
}

void mt_account_fork_parent(void)
{
	mt_lock_drop(&list_lock);
}

/* The other threads do not exist in the child, and libc hands their stacks, in which their cells lie, to new ones:
 * what they counted goes to the dead. */
void mt_account_fork_child(void)
{
	struct mt_cell *cell = list_first;

	mt_lock_reset(&list_lock);
	list_first = NULL;
	mt_cell.linked = 0;
	/* Asking the allocator builds its tables anew in each child; most children have nobody's cell to fold. */
	if (cell && (cell != &mt_cell || cell->next))
		(void)prime_reader();
	while (cell) {
		struct mt_cell *next = cell->next;
		uint64_t allocated;
		uint64_t freed;

		if (cell != &mt_cell && read_cell(cell, &allocated, &freed)) {
			fold_cell(cell, allocated, freed);
			cell->linked = 0;
		}
		cell = next;
	}
	if ((mt_cell.freed_bytes & MT_CELL_KNOWN) && mt_cell.rounds == 0 && !mt_cell.linked)
		link_cell(&mt_cell);
}
