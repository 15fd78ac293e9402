#include "reaper/bell.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "base/os.h"
#include "stats/files.h"
#include "stats/stats_layout.h"

static _Atomic uint32_t bits_set;
static _Atomic uint32_t private_word;
/* Which word is slept on; a handler may read it at any moment. release/acquire with the mapping behind it */
static _Atomic uint32_t *_Atomic word_at = &private_word;
static uint64_t seen_seq;

void mt_bell_ring(uint32_t bits)
{
	/* release: what was stored before the ring is seen by who takes the bit */
	uint32_t old = atomic_fetch_or_explicit(&bits_set, bits, memory_order_acq_rel);

	if ((old & bits) == bits)
		return;
	if (mt_os_futex_bump_wake(atomic_load_explicit(&word_at, memory_order_acquire)) != 0)
		(void)mt_os_futex_bump_wake(&private_word); /* the file is gone: so does the reaper fall back */
}

void mt_bell_use_file(bool keep)
{
	_Atomic uint32_t *word = mt_files_map_word();

	if (word && keep)
		mt_files_keep_bell_open();
	if (word)
		atomic_store_explicit(&word_at, word, memory_order_release);
}

static bool uses_file(void)
{
	return atomic_load_explicit(&word_at, memory_order_relaxed) != &private_word;
}

uint32_t mt_bell_word(void)
{
	struct mt_bell_file file;

	if (uses_file()) {
		if (mt_files_read_bell(&file, sizeof(file)) >= (ssize_t)(offsetof(struct mt_bell_file, word) + 4))
			return file.word;
		atomic_store_explicit(&word_at, &private_word, memory_order_release);
	}
	return atomic_load_explicit(&private_word, memory_order_acquire);
}

uint32_t mt_bell_bits(void)
{
	return atomic_load_explicit(&bits_set, memory_order_acquire);
}

void mt_bell_take(uint32_t bits)
{
	atomic_fetch_and_explicit(&bits_set, ~bits, memory_order_acq_rel);
}

void mt_bell_sleep(uint32_t word, uint64_t timeout_ns)
{
	_Atomic uint32_t *at = atomic_load_explicit(&word_at, memory_order_acquire);
	int answer = mt_os_futex_wait(at, word, timeout_ns, MT_FUTEX_SHARED);

	/* Truncated under us: the kernel says so instead of a SIGBUS. */
	if (answer == EFAULT && at != &private_word)
		atomic_store_explicit(&word_at, &private_word, memory_order_release);
}

bool mt_bell_request(struct mt_request *out)
{
	struct mt_bell_file file;

	if (!uses_file() || mt_files_read_bell(&file, sizeof(file)) != (ssize_t)sizeof(file))
		return false;
	if (file.magic != MT_BELL_MAGIC || file.version != MT_STATS_VERSION || file.request.seq == seen_seq)
		return false;
	seen_seq = file.request.seq;
	if (file.request.kind == MT_REQUEST_NONE || file.request.kind >= MT_REQUEST_COUNT ||
	    file.request.level >= MT_LEVEL_COUNT)
		return false;
	*out = file.request;
	out->name[sizeof(out->name) - 1] = 0;
	out->value[sizeof(out->value) - 1] = 0;
	return true;
}

void mt_bell_fork_child(void)
{
	atomic_store_explicit(&word_at, &private_word, memory_order_relaxed);
	atomic_store_explicit(&bits_set, 0, memory_order_relaxed);
	seen_seq = 0;
}
