/* test_entries_order.c -- the wrappers of the driver: what they tell the pool and the gate, and in
 * which order around the driver's call. */
#include "entries_doubles.h"

#define INSIDE(offset) (DPTR + (offset))

/* The pool has one block, asked for as 1000 bytes, 4096 to the driver. */
static void have_block(bool is_cached)
{
	block_base = DPTR;
	block_bytes = 1000;
	block_is_cached = is_cached;
}

/* ---- free ---- */

Test(entries_order, the_pools_blocks_are_freed_by_the_pool_and_others_by_the_driver)
{
	have_block(false);
	cr_expect_eq(cuMemFree_v2(DPTR), 0);
	expect_backoff("pool-free");
	cr_expect_eq(cuMemFree_v2(0x1234), 0);
	expect_backoff("cuMemFree_v2");
}

Test(entries_order, a_block_freed_in_stream_order_leaves_the_pool_first)
{
	have_block(false);
	cr_expect_eq(cuMemFreeAsync(DPTR, NULL), 0);
	expect_backoff("release cuMemFreeAsync");
	cr_expect_eq(cuMemFreeAsync_ptsz(DPTR, NULL), 0);
	expect_backoff("release cuMemFreeAsync_ptsz");
}

Test(entries_order, a_block_that_the_driver_would_not_free_in_stream_order_is_still_counted)
{
	have_block(false);
	answer(219, 0);
	cr_expect_eq(cuMemFreeAsync(DPTR, NULL), 219);
	cr_expect_eq(live(MT_UNPOOLED_direct, 0), 1000);
	block_base = 0; /* as the pool then sees it */
	cr_expect_eq(cuMemFree_v2(DPTR), 0);
	cr_expect_eq(live(MT_UNPOOLED_direct, 0), 0);
}

Test(entries_order, a_cached_block_cannot_be_freed_again_in_stream_order)
{
	have_block(true);
	cr_expect_eq(cuMemFreeAsync(DPTR, NULL), MT_CU_INVALID_VALUE);
	cr_expect_eq(cuMemFreeAsync_ptsz(DPTR, NULL), MT_CU_INVALID_VALUE);
	expect_backoff("");
}

/* ---- answers ---- */

Test(entries_order, what_the_pool_caches_is_free_but_never_more_than_the_device_has)
{
	size_t free_bytes = 0;
	size_t total_bytes = 0;

	cached_bytes = 300;
	cr_expect_eq(cuMemGetInfo_v2(&free_bytes, &total_bytes), 0);
	cr_expect_eq(free_bytes, 900);
	cached_bytes = 3000;
	cr_expect_eq(cuMemGetInfo_v2(&free_bytes, &total_bytes), 0);
	cr_expect_eq(free_bytes, 1000);
	cr_expect_eq(total_bytes, 1000);
}

Test(entries_order, the_free_bytes_single_may_be_asked_for)
{
	size_t free_bytes = 0;

	cached_bytes = 300;
	cr_expect_eq(cuMemGetInfo_v2(&free_bytes, NULL), 0);
	cr_expect_eq(free_bytes, 900);
}

Test(entries_order, a_live_block_is_as_large_as_was_asked_for_from_any_address_in_it)
{
	uint64_t base = 0;
	size_t bytes = 0;

	have_block(false);
	cr_expect_eq(cuMemGetAddressRange_v2(&base, &bytes, DPTR), 0);
	cr_expect_eq(base, DPTR);
	cr_expect_eq(bytes, 1000);
	base = bytes = 0;
	cr_expect_eq(cuMemGetAddressRange_v2(&base, &bytes, INSIDE(999)), 0);
	cr_expect_eq(base, DPTR);
	cr_expect_eq(bytes, 1000);
	cr_expect_eq(cuMemGetAddressRange_v2(&base, NULL, INSIDE(5)), 0);
	cr_expect_eq(cuMemGetAddressRange_v2(NULL, &bytes, INSIDE(5)), 0);
	cr_expect_eq(cuMemGetAddressRange_v2(&base, &bytes, INSIDE(1000)), MT_CU_NOT_FOUND,
		     "what was rounded up is nobody's");
}

Test(entries_order, a_cached_block_is_no_memory_to_who_asks)
{
	uint64_t base = 7;
	size_t bytes = 7;

	have_block(true);
	cr_expect_eq(cuMemGetAddressRange_v2(&base, &bytes, INSIDE(16)), MT_CU_NOT_FOUND);
	cr_expect_eq(base, 7);
	cr_expect_eq(bytes, 7);
	cr_expect_eq(cuPointerGetAttribute(&bytes, MT_CU_POINTER_RANGE_SIZE, DPTR),
		     MT_CU_INVALID_VALUE);
	cr_expect_eq(cuPointerGetAttribute(&bytes, MT_CU_POINTER_MEMORY_TYPE, INSIDE(16)),
		     MT_CU_INVALID_VALUE);
	cr_expect_eq(bytes, 7);
}

Test(entries_order, attributes_of_a_live_block_are_the_drivers_but_for_its_size)
{
	size_t bytes = 0;

	have_block(false);
	cr_expect_eq(cuPointerGetAttribute(&bytes, MT_CU_POINTER_RANGE_SIZE, DPTR), 0);
	cr_expect_eq(bytes, 1000);
	expect_backoff("cuPointerGetAttribute");
	cr_expect_eq(cuPointerGetAttribute(&bytes, MT_CU_POINTER_RANGE_SIZE, INSIDE(64)), 0);
	cr_expect_eq(bytes, 1000);
}

Test(entries_order, many_attributes_at_once_say_the_same)
{
	int attributes[] = {MT_CU_POINTER_MEMORY_TYPE, MT_CU_POINTER_RANGE_SIZE};
	uint64_t type = 1;
	size_t bytes = 0;
	void *data[] = {&type, &bytes};

	have_block(false);
	cr_expect_eq(cuPointerGetAttributes(2, attributes, data, DPTR), 0);
	cr_expect_eq(bytes, 1000);
	cr_expect_eq(seen[3], DPTR);
	block_is_cached = true;
	bytes = 0;
	cr_expect_eq(cuPointerGetAttributes(2, attributes, data, DPTR), 0);
	cr_expect_eq(bytes, 0);
	cr_expect(seen[3] < DPTR || seen[3] >= DPTR + 4096,
		  "the driver is asked about memory that it does not know");
}

Test(entries_order, memory_that_is_not_the_pools_is_answered_by_the_driver)
{
	size_t bytes = 0;
	uint64_t base;

	cr_expect_eq(cuPointerGetAttribute(&bytes, MT_CU_POINTER_RANGE_SIZE, DPTR), 0);
	cr_expect_eq(bytes, 4096);
	bytes = 0;
	cr_expect_eq(cuMemGetAddressRange_v2(&base, &bytes, INSIDE(8)), 0);
	cr_expect_eq(bytes, 4096);
}

/* ---- taint ---- */

Test(entries_order, what_is_about_to_be_known_elsewhere_is_non_recyclable_first)
{
	struct mt_cu_ipc_handle handle;
	int yes = 1;
	uint64_t tokens[2];

	have_block(false);
	cr_expect_eq(cuIpcGetMemHandle(&handle, DPTR), 0);
	expect_backoff("taint cuIpcGetMemHandle");
	cr_expect_eq(cuMemGetHandleForAddressRange(&handle, DPTR, 64, 1, 0), 0);
	expect_backoff("taint cuMemGetHandleForAddressRange");
	cr_expect_eq(cuMulticastBindAddr(1, 0, DPTR, 64, 0), 0);
	expect_backoff("taint cuMulticastBindAddr");
	cr_expect_eq(cuMulticastBindAddr_v2(1, 0, 0, DPTR, 64, 0), 0);
	expect_backoff("taint cuMulticastBindAddr_v2");
	cr_expect_eq(cuPointerSetAttribute(&yes, MT_CU_POINTER_SYNC_MEMOPS, DPTR), 0);
	expect_backoff("taint cuPointerSetAttribute");
	cr_expect_eq(cuPointerGetAttribute(tokens, MT_CU_POINTER_P2P_TOKENS, DPTR), 0);
	expect_backoff("taint cuPointerGetAttribute");
}

Test(entries_order, an_address_in_the_middle_taints_its_block)
{
	struct mt_cu_ipc_handle handle;

	have_block(false);
	cr_expect_eq(cuIpcGetMemHandle(&handle, INSIDE(512)), 0);
	expect_backoff("cuMemGetAddressRange_v2 taint cuIpcGetMemHandle");
}

Test(entries_order, other_attributes_mark_non_recyclable_nothing)
{
	uint64_t value = 0;

	have_block(false);
	cr_expect_eq(cuPointerSetAttribute(&value, MT_CU_POINTER_BUFFER_ID, DPTR), 0);
	expect_backoff("cuPointerSetAttribute");
}

Test(entries_order, tokens_among_many_attributes_mark_non_recyclable)
{
	int attributes[] = {MT_CU_POINTER_MEMORY_TYPE, MT_CU_POINTER_P2P_TOKENS};
	uint64_t values[4];
	void *data[] = {&values[0], &values[1]};

	have_block(false);
	cr_expect_eq(cuPointerGetAttributes(2, attributes, data, DPTR), 0);
	expect_backoff("taint cuPointerGetAttributes");
}

Test(entries_order, a_freed_block_is_not_exported)
{
	struct mt_cu_ipc_handle handle;

	have_block(true);
	cr_expect_eq(cuIpcGetMemHandle(&handle, DPTR), MT_CU_INVALID_VALUE);
	expect_backoff("");
}

/* ---- contexts ---- */

static void have_array(void)
{
	const struct mt_cu_array_descriptor flat = {.width = 100, .format = 0x01, .channels = 1};
	struct CUarray_st *array;

	cr_assert_eq(cuArrayCreate_v2(&array, &flat), 0);
	cr_assert_eq(live(MT_UNPOOLED_array, 0), 100);
	backoff[0] = 0;
}

#define MADE ((struct CUctx_st *)0xcc)

Test(entries_order, a_new_context_is_known_from_its_beginning)
{
	struct CUctx_st *context;

	cr_expect_eq(cuCtxCreate(&context, 0, 3), 0);
	expect_backoff("cuCtxCreate made-0x7000000000-3");
	cr_expect_eq(cuCtxCreate_v2(&context, 0, 3), 0);
	expect_backoff("cuCtxCreate_v2 made-0x7000000000-3");
	cr_expect_eq(cuCtxCreate_v3(&context, NULL, 0, 0, 3), 0);
	expect_backoff("cuCtxCreate_v3 made-0x7000000000-3");
	cr_expect_eq(cuCtxCreate_v4(&context, NULL, 0, 3), 0);
	expect_backoff("cuCtxCreate_v4 made-0x7000000000-3");
	answer(2, 0);
	cr_expect_eq(cuCtxCreate_v2(&context, 0, 3), 2);
	expect_backoff("cuCtxCreate_v2 room");
}

Test(entries_order, whatever_allocates_makes_its_context_known)
{
	uint64_t dptr;
	size_t pitch;

	cr_expect_eq(cuMemAllocPitch_v2(&dptr, &pitch, 64, 2, 4), 0);
	cr_expect_eq(knows_current, 1);
	cr_expect_eq(cuMemAllocAsync(&dptr, 64, NULL), 0);
	cr_expect_eq(knows_current, 2);
}

Test(entries_order, a_context_is_forgotten_before_it_is_destroyed_and_the_gate_opens_only_then)
{
	have_array();
	cr_expect_eq(cuCtxDestroy_v2(CURRENT), 0);
	expect_backoff("gate-up cuDevicePrimaryCtxRelease_v2 context-dies captures-die "
		       "cuCtxDestroy_v2 gate-down context-died");
	cr_expect_eq(live(MT_UNPOOLED_array, 0), 0);
	cr_expect_eq(cuCtxDestroy(CURRENT), 0);
	expect_backoff("gate-up cuDevicePrimaryCtxRelease_v2 context-dies captures-die "
		       "cuCtxDestroy gate-down context-died");
}

Test(entries_order,
     a_context_that_was_seen_to_be_made_is_destroyed_without_sampling_for_the_primary_one)
{
	cr_expect_eq(cuCtxDestroy_v2(MADE), 0);
	expect_backoff("gate-up context-dies captures-die cuCtxDestroy_v2 gate-down context-died");
}

Test(entries_order, a_context_whose_destroy_is_refused_is_known_again)
{
	answer(900, 0);
	cr_expect_eq(cuCtxDestroy_v2(MADE), 900);
	expect_backoff("gate-up context-dies captures-die cuCtxDestroy_v2 know-0xcc gate-down "
		       "context-lives");
}

Test(entries_order, a_handle_that_is_no_context_loses_nothing)
{
	have_array();
	answer(MT_CU_INVALID_CONTEXT, 0);
	cr_expect_eq(cuCtxDestroy_v2((struct CUctx_st *)0xbad), MT_CU_INVALID_CONTEXT);
	expect_backoff("gate-up cuCtxDestroy_v2 gate-down");
	answer(1, 0);
	cr_expect_eq(cuCtxDestroy_v2(NULL), 1);
	expect_backoff("cuCtxDestroy_v2");
	cr_expect_eq(live(MT_UNPOOLED_array, 0), 100);
}

Test(entries_order, a_primary_context_cannot_be_destroyed_and_loses_nothing)
{
	answer(0, MT_CU_INVALID_CONTEXT);
	cr_expect_eq(cuCtxDestroy_v2(PRIMARY), MT_CU_INVALID_CONTEXT);
	expect_backoff("gate-up cuDevicePrimaryCtxRelease_v2 cuCtxDestroy_v2 gate-down");
}

Test(entries_order, a_detach_that_is_not_the_last_closes_no_gate)
{
	struct CUctx_st *context;

	cr_expect_eq(cuCtxAttach(&context, 0), 0);
	cr_expect_eq(cuCtxDetach(CURRENT), 0);
	expect_backoff("cuCtxAttach cuCtxDetach");
	cr_expect_eq(cuCtxDetach(CURRENT), 0);
	expect_backoff("gate-up cuCtxDetach gate-down");
}

Test(entries_order, a_detached_context_is_forgotten_once_the_driver_knows_it_no_more)
{
	cr_expect_eq(cuCtxDetach(CURRENT), 0);
	expect_backoff("gate-up cuCtxDetach gate-down");
	have_array();
	cr_expect_eq(cuCtxDetach((struct CUctx_st *)0xbad), 0);
	expect_backoff("gate-up cuCtxDetach context-ended captures-die gate-down");
	answer(MT_CU_INVALID_CONTEXT, 0);
	cr_expect_eq(cuCtxDetach((struct CUctx_st *)0xbad), MT_CU_INVALID_CONTEXT);
	expect_backoff("gate-up cuCtxDetach gate-down");
}

Test(entries_order, a_release_that_is_not_the_last_changes_nothing)
{
	cr_expect_eq(cuDevicePrimaryCtxRelease_v2(0), 0);
	expect_backoff(
		"gate-up cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxRelease_v2 gate-down");
}

/* The driver's state changes with the call itself. */
static int last_release(int device)
{
	tell("last-release");
	(void)device;
	primary_is_active = 0;
	return 0;
}

Test(entries_order, the_last_release_is_seen_afterwards_and_the_gate_opens_only_then)
{
	driver_table.cuDevicePrimaryCtxRelease = last_release;
	cr_expect_eq(cuDevicePrimaryCtxRelease(0), 0);
	expect_backoff("gate-up cuDevicePrimaryCtxRelease_v2 last-release context-ended "
		       "captures-die gate-down");
}

Test(entries_order, the_last_release_may_be_the_one_with_which_we_asked)
{
	driver_table.cuDevicePrimaryCtxRelease_v2 = last_release;
	answer(MT_CU_INVALID_CONTEXT, 0);
	cr_expect_eq(cuCtxDestroy_v2(PRIMARY), MT_CU_INVALID_CONTEXT);
	expect_backoff("gate-up last-release context-ended captures-die context-dies captures-die "
		       "cuCtxDestroy_v2 know-0xc1 gate-down context-lives");
}

Test(entries_order, a_reset_ends_the_primary_context_whoever_holds_it)
{
	cr_expect_eq(cuDevicePrimaryCtxReset_v2(0), 0);
	expect_backoff("gate-up cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxReset_v2 "
		       "context-ended captures-die gate-down");
	cr_expect_eq(cuDevicePrimaryCtxReset(0), 0);
	expect_backoff("gate-up cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxReset context-ended "
		       "captures-die gate-down");
	answer(0, 219);
	cr_expect_eq(cuDevicePrimaryCtxReset(0), 219);
	expect_backoff("gate-up cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxReset gate-down");
}

Test(entries_order, an_inactive_primary_context_has_nothing_to_lose_and_is_not_made)
{
	primary_is_active = 0;
	cr_expect_eq(cuDevicePrimaryCtxReset_v2(0), 0);
	expect_backoff("cuDevicePrimaryCtxReset_v2");
}

Test(entries_order, the_current_context_may_touch_its_peers_blocks)
{
	struct CUctx_st *peer = (struct CUctx_st *)0xee;

	cr_expect_eq(cuCtxEnablePeerAccess(peer, 0), 0);
	expect_backoff("cuCtxEnablePeerAccess peer-0xc0-0xee");
	answer(MT_CU_PEER_ACCESS_ALREADY_ENABLED, 0);
	cr_expect_eq(cuCtxEnablePeerAccess(peer, 0), MT_CU_PEER_ACCESS_ALREADY_ENABLED);
	expect_backoff("cuCtxEnablePeerAccess peer-0xc0-0xee");
	answer(219, 0);
	cr_expect_eq(cuCtxEnablePeerAccess(peer, 0), 219);
	expect_backoff("cuCtxEnablePeerAccess");
}

Test(entries_order, green_contexts_end_pooling_before_they_exist)
{
	struct CUctx_st *context = NULL;

	cr_expect_eq(cuGreenCtxCreate(NULL, NULL, 3, 0), 0);
	expect_backoff("green-3 cuGreenCtxCreate");
	cr_expect_eq(cuCtxFromGreenCtx(&context, NULL), 0);
	expect_backoff("cuCtxFromGreenCtx green-2");
}

/* ---- captures ---- */

Test(entries_order, the_gate_is_up_before_a_capture_begins)
{
	struct CUstream_st *stream = (struct CUstream_st *)0x5c;

	cr_expect_eq(cuStreamBeginCapture(stream), 0);
	expect_backoff("gate-up cuStreamBeginCapture begun");
	cr_expect_eq(cuStreamBeginCapture_v2(stream, 1), 0);
	expect_backoff("gate-up cuStreamBeginCapture_v2 begun");
	cr_expect_eq(cuStreamBeginCaptureToGraph(stream, NULL, NULL, NULL, 0, 1), 0);
	expect_backoff("gate-up cuStreamBeginCaptureToGraph begun");
	cr_expect_eq(cuStreamBeginRecaptureToGraph(stream, 1, NULL, NULL, NULL), 0);
	expect_backoff("gate-up cuStreamBeginRecaptureToGraph begun");
	cr_expect_eq(cuStreamEndCapture(stream, NULL), 0);
	expect_backoff("cuStreamEndCapture ended");
}

Test(entries_order, the_twins_of_the_per_thread_stream_call_their_own)
{
	cr_expect_eq(cuStreamBeginCapture_ptsz(NULL), 0);
	expect_backoff("gate-up cuStreamBeginCapture_ptsz begun-ptsz");
	cr_expect_eq(cuStreamBeginCapture_v2_ptsz(NULL, 1), 0);
	expect_backoff("gate-up cuStreamBeginCapture_v2_ptsz begun-ptsz");
	cr_expect_eq(cuStreamBeginCaptureToGraph_ptsz(NULL, NULL, NULL, NULL, 0, 1), 0);
	expect_backoff("gate-up cuStreamBeginCaptureToGraph_ptsz begun-ptsz");
	cr_expect_eq(cuStreamBeginRecaptureToGraph_ptsz(NULL, 1, NULL, NULL, NULL), 0);
	expect_backoff("gate-up cuStreamBeginRecaptureToGraph_ptsz begun-ptsz");
	cr_expect_eq(cuStreamEndCapture_ptsz(NULL, NULL), 0);
	expect_backoff("cuStreamEndCapture_ptsz ended-ptsz");
}

Test(entries_order, a_capture_that_cannot_begin_lowers_the_gate_again)
{
	answer(MT_CU_INVALID_VALUE, 0);
	cr_expect_eq(cuStreamBeginCapture_v2((struct CUstream_st *)0x5c, 9), MT_CU_INVALID_VALUE);
	expect_backoff("gate-up cuStreamBeginCapture_v2 gate-down");
}

Test(entries_order, a_stream_is_forgotten_before_its_handle_can_be_given_again)
{
	cr_expect_eq(cuStreamDestroy_v2((struct CUstream_st *)0x5c), 0);
	expect_backoff("stream-dies cuStreamDestroy_v2 stream-died");
	cr_expect_eq(cuStreamDestroy((struct CUstream_st *)0x5c), 0);
	expect_backoff("stream-dies cuStreamDestroy stream-died");
	answer(1, 0);
	cr_expect_eq(cuStreamDestroy_v2(NULL), 1);
	expect_backoff("cuStreamDestroy_v2");
}
