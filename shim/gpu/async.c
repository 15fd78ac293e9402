#include "gpu/async.h"

#include "sys/attr.h"
#include "sys/os.h"
#include "gpu/fence.h"
#include "gpu/release.h"

/* An event costs about as much as a small kernel launch (some microseconds with many streams):
 * shared by 16 frees the cost is small. Blocks that a program frees together (at the end of a scope
 * or step) come within 20 us; a longer wait would fence later work. */
#define GROUP_BLOCKS 16
#define GROUP_NS     20000

/* A group larger than this share of the device is closed at once. Work that the program enqueues
 * after a free may wait for the program (a host function), and an allocation that needs the block
 * must not wait for that work. */
#define GROUP_SHARE 64

/* Returns whether the open group is to be closed: full, large, 20 us after its third block, or at
 * once where the device has little memory left (mt_device_memory_is_scarce). The lock is held. */
static bool is_due(struct mt_context *context)
{
	const struct mt_group *group = context->open;

	if (!group)
		return false;
	if (group->count >= GROUP_BLOCKS || mt_device_memory_is_scarce(context) ||
	    group->bytes > mt_counter(&mt_context_device(context)->total_bytes) / GROUP_SHARE)
		return true;
	return group->count >= 4 && mt_os_now_ns() - group->third_ns > GROUP_NS;
}

static void keep_cap(struct mt_context *context, uint64_t bytes)
{
	int device = mt_context_ordinal(context);
	struct mt_release rule = mt_release_all(MT_RELEASE_IDLE);

	mt_release_make_idle(context, bytes);
	rule.in_capture = true;
	rule.bytes = mt_release_over_cap(device);
	(void)mt_release_device(device, &rule);
}

void mt_async_free(struct mt_context *context, uint64_t bytes)
{
	bool is_overdue, is_fenced = true;

	if (is_due(context)) {
		is_fenced = mt_fence_close(context);
		mt_fence_poll(context, 2);
	}
	is_overdue = !is_fenced || mt_release_is_overdue(context);
	mt_lock_unlock(&context->lock);
	if (mt_unlikely(is_overdue))
		mt_release_overdue(context);
	keep_cap(context, bytes);
}
