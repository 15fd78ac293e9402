#include "core/control_file.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "core/files.h"
#include "core/stats_layout.h"
#include "sys/atomic.h"
#include "sys/lock.h"
#include "sys/os.h"

static _Atomic uint32_t bits_set;
static _Atomic uint32_t private_word;
/* The word on which the worker sleeps; a signal handler may read it at any moment. seq_cst with the
 * bits: a notifier sets a bit and then reads which word it is, the worker writes which word it is
 * and then reads the bits. So either the worker sees the bit, or its word is woken. */
static _Atomic uint32_t *_Atomic word_at = &private_word;
static uint64_t last_seq;
static uint64_t last_rescue_ns;

/* In the shim's own memory, which cannot be truncated. */
static void wake_private(void)
{
	atomic_fetch_add(&private_word, 1);
	mt_os_futex_wake(&private_word, 1, MT_FUTEX_SHARED);
}

void mt_control_notify(uint32_t bits)
{
	/* Release: stores before the notification are visible to the thread that sees the bit. */
	uint32_t old = atomic_fetch_or(&bits_set, bits);
	_Atomic uint32_t *word;

	if ((old & bits) == bits)
		return;
	word = atomic_load(&word_at);
	if (word != &private_word && mt_os_futex_add_wake(word) == 0)
		return;
	/* There is no file, or it is gone, and the worker falls back to this word too. Or a sandbox
	 * refuses FUTEX_WAKE_OP: then a plain wake ends the present sleep. */
	wake_private();
	if (word != &private_word)
		mt_os_futex_wake(word, 1, MT_FUTEX_SHARED);
}

void mt_control_use_file(bool keep)
{
	_Atomic uint32_t *word = mt_files_map_word();

	if (word && keep)
		mt_files_keep_control_open();
	if (word)
		atomic_store(&word_at, word);
}

static bool uses_file(void)
{
	return mt_load_relaxed(&word_at) != &private_word;
}

uint32_t mt_control_read_word(void)
{
	struct mt_control_file file;

	if (uses_file()) {
		if (mt_files_read_control(&file, sizeof(file)) >=
		    (ssize_t)(offsetof(struct mt_control_file, word) + 4))
			return file.word;
		atomic_store(&word_at, &private_word);
	}
	return mt_load_acquire(&private_word);
}

uint32_t mt_control_pending_bits(void)
{
	return atomic_load(&bits_set);
}

void mt_control_clear_bits(uint32_t bits)
{
	atomic_fetch_and_explicit(&bits_set, ~bits, memory_order_acq_rel);
}

void mt_control_wait(uint32_t word, uint64_t timeout_ns)
{
	_Atomic uint32_t *at = mt_load_acquire(&word_at);
	int answer;

	mt_lock_check_wait("the control file");
	answer = mt_os_futex_wait(at, word, timeout_ns, MT_FUTEX_SHARED);
	/* The file was truncated: the kernel returns EFAULT where a load would raise SIGBUS. */
	if (answer == EFAULT && at != &private_word)
		atomic_store(&word_at, &private_word);
}

bool mt_control_read_request(struct mt_request *out)
{
	struct mt_control_file file, again;

	/* Also if the word could not be mapped: the next tick then reads the request. */
	if (mt_files_read_control(&file, sizeof(file)) != (ssize_t)sizeof(file))
		return false;
	if (file.magic != MT_CONTROL_MAGIC || file.version != MT_STATS_VERSION ||
	    !file.request.seq || file.request.seq == last_seq)
		return false;
	/* mtctl wrote during the copy: its notification comes when it has written all. */
	if (mt_files_read_control(&again, sizeof(again)) != (ssize_t)sizeof(again) ||
	    memcmp(&file.request, &again.request, sizeof(file.request)) != 0)
		return false;
	last_seq = file.request.seq;
	if (file.request.kind == MT_REQUEST_NONE)
		return false;
	*out = file.request;
	mt_assert(file.request.kind != MT_REQUEST_NONE);
	if (out->kind >= MT_REQUEST_COUNT || out->level >= MT_LEVEL_COUNT) {
		out->kind = MT_REQUEST_COUNT;
		out->level = MT_LEVEL_PURGE;
	}
	out->name[sizeof(out->name) - 1] = 0;
	out->value[sizeof(out->value) - 1] = 0;
	return true;
}

bool mt_control_read_rescue(struct mt_rescue_request *out)
{
	struct mt_control_file file;

	if (mt_files_read_control(&file, sizeof(file)) != (ssize_t)sizeof(file) ||
	    file.rescue.asked_ns == last_rescue_ns)
		return false;
	last_rescue_ns = file.rescue.asked_ns;
	*out = file.rescue;
	/* The clock is read after the file: a request may be written in between. */
	return out->asked_ns <= mt_os_now_ns();
}

void mt_control_fork_child(void)
{
	mt_store_relaxed(&word_at, &private_word);
	mt_store_relaxed(&bits_set, 0);
	last_seq = 0;
	last_rescue_ns = 0;
}
