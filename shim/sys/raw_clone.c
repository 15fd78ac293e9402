#include "sys/raw_clone.h"

#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#include "sys/os.h"

/* The first word of the page: not 0 in the process that marked it. release/acquire with the content
 * of the page. */
static _Atomic(_Atomic uint32_t *) mark;
/* 0: not marked; release, pairs with the readers' acquire */
static _Atomic pid_t worker;

static _Atomic uint32_t *map_mark(void)
{
	uint64_t bytes = mt_os_page_bytes();
	void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return NULL;
	if (madvise(page, bytes, MADV_WIPEONFORK) == 0)
		return page;
	(void)munmap(page, bytes);
	return NULL;
}

void mt_raw_clone_mark(void)
{
	_Atomic uint32_t *word = atomic_load_explicit(&mark, memory_order_acquire);

	if (!word)
		word = map_mark();
	if (!word)
		return;
	atomic_store_explicit(word, 1, memory_order_relaxed);
	atomic_store_explicit(&mark, word, memory_order_release);
	atomic_store_explicit(&worker, mt_os_gettid(), memory_order_release);
}

void mt_raw_clone_fork_child(void)
{
	atomic_store_explicit(&worker, 0, memory_order_relaxed);
}

bool mt_raw_clone_is_child(void)
{
	const _Atomic uint32_t *word;

	if (!atomic_load_explicit(&worker, memory_order_acquire))
		return false;
	word = atomic_load_explicit(&mark, memory_order_acquire);
	return word && atomic_load_explicit(word, memory_order_relaxed) == 0;
}

bool mt_raw_clone_was_worker(pid_t thread)
{
	return mt_raw_clone_is_child() &&
	       thread == atomic_load_explicit(&worker, memory_order_relaxed);
}
