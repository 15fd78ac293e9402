#include "backend/purge.h"

#include "base/lock.h"
#include "base/os.h"

#define WAIT_NS MT_NS_PER_S

static struct mt_lock lock = MT_LOCK(purge);

void mt_purge_enter(void)
{
	mt_lock_take(&lock);
}

bool mt_purge_enter_within(uint64_t span_ns)
{
	return mt_lock_take_within(&lock, span_ns);
}

void mt_purge_leave(void)
{
	mt_lock_hand_over(&lock);
}

bool mt_purge_hold(void)
{
	return mt_lock_take_within(&lock, WAIT_NS);
}

void mt_purge_release(void)
{
	mt_lock_drop(&lock);
}

void mt_purge_forget(void)
{
	mt_lock_reset(&lock);
}
