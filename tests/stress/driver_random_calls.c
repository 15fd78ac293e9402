/* driver_random_calls.c -- the calls of driver_random.c, and what is known of the objects they
 * made. Only one thread at a time is in here, but for storm_run. */
#include "driver_random_model.h"

struct block blocks[BLOCKS];
struct stream streams[STREAMS];
struct context contexts[CONTEXTS];
struct CUfunc_st *kernel_delay, *kernel_illegal;
int driver_version;

/* ---- sizes ---- */

size_t drawn_size(uint32_t what, uint32_t how)
{
	static const size_t edges[] = {
		0,           1,           511,         513,         100ul * MB,
		112ul * MB,  150ul * MB,  300ul * MB,  600ul * MB,  899ul * MB,
		998ul * MB,  1000ul * MB, 1001ul * MB, 4000ul * MB, (size_t)1 << 40,
		SIZE_MAX - 5};

	switch (what % 8) {
	case 0:
		return edges[how % (sizeof(edges) / sizeof(edges[0]))];
	case 1:
		return 1 + how % 4096;
	case 2:
		return 1 + how % (1 * MB);
	case 3:
	case 4:
		return 1 * MB + how % (20 * MB);
	case 5:
		return (100 + how % 2 * 12) * (size_t)MB;
	case 6:
		return 2 * MB + how % (100 * MB);
	default:
		return 50 * MB + how % (600 * MB);
	}
}

/* Freed in stream order: charged until the driver's pool is trimmed, so until the end of the
 * episode for all that is known here. */
static size_t idle_async_bytes[DEVICES];

static int device_of(const struct block *block)
{
	if (block->kind == HANDLE || block->kind == MAPPED)
		return 0;
	return block->context == 1 || block->context == CONTEXTS - 1;
}

size_t live_bytes(int device)
{
	size_t sum = idle_async_bytes[device];
	int i;

	for (i = 0; i < BLOCKS; i++)
		if ((blocks[i].dptr != 0 || blocks[i].handle != 0) &&
		    device_of(&blocks[i]) == device)
			sum += (blocks[i].bytes + 4 * MB) / (2 * MB) * (2 * MB);
	return sum;
}

/* ---- contexts ---- */

/* The slot of the calling thread's current context; -1: none, or one that has gone. */
int current_slot(void)
{
	struct CUctx_st *current = NULL;
	int i;

	cuCtxGetCurrent(&current);
	for (i = 0; i < CONTEXTS; i++)
		if (current != NULL && contexts[i].context == current)
			return i;
	return -1;
}

static void load_kernels(void)
{
	struct CUmod_st *module;

	if (kernel_delay != NULL || cuModuleLoadData(&module, "image") != OK)
		return;
	cuModuleGetFunction(&kernel_delay, module, FAKECUDA_KERNEL_DELAY);
	cuModuleGetFunction(&kernel_illegal, module, FAKECUDA_KERNEL_ILLEGAL);
}

/* Everything of the context is gone; one free of what it held says so. Memory of a pool is the
 * device's. */
static void forget(int slot)
{
	bool is_told = false;
	int i;

	for (i = 0; i < BLOCKS; i++)
		if (blocks[i].context == slot && blocks[i].dptr != 0 && blocks[i].kind < ASYNC) {
			if (!is_told)
				TRY(cuMemFree_v2, i, 709, blocks[i].dptr);
			is_told = true;
			blocks[i] = (struct block){0};
		} else if (blocks[i].context == slot && blocks[i].kind == PINNED) {
			blocks[i] = (struct block){0};
		}
	for (i = 0; i < STREAMS; i++)
		if (streams[i].context == slot && streams[i].stream != NULL)
			streams[i] = (struct stream){0};
	contexts[slot] = (struct context){0};
}

static bool end_context(int slot)
{
	int result;

	open_gates();
	if (slot == 0 && !end_green())
		return false;
	if (slot >= DEVICES)
		result = TRY(cuCtxDestroy_v2, slot, 0, contexts[slot].context);
	else
		result = TRY(cuDevicePrimaryCtxRelease_v2, slot, contexts[slot].retained, slot);
	if (result != OK || contexts[slot].context == NULL)
		return false;
	if (slot >= DEVICES || --contexts[slot].retained == 0)
		forget(slot);
	return true;
}

static void begin_context(int slot)
{
	if (slot < DEVICES) {
		if (contexts[slot].retained < 3 &&
		    TRY(cuDevicePrimaryCtxRetain, slot, 0, &contexts[slot].context, slot) == OK)
			contexts[slot].retained++;
		return;
	}
	if (contexts[slot].context == NULL &&
	    TRY(cuCtxCreate_v2, slot, 0, &contexts[slot].context, 0, slot == 4) == OK)
		load_kernels();
}

static void become_current(int slot)
{
	begin_context(slot);
	if (contexts[slot].context != NULL)
		TRY(cuCtxSetCurrent, slot, 0, contexts[slot].context);
	load_kernels();
}

static void use_context(const struct draw *draw)
{
	const int slot = (int)(draw->a % CONTEXTS), other = (int)(draw->b % CONTEXTS);
	struct CUctx_st *out = NULL;

	switch (draw->c % 16) {
	case 0:
		TRY(cuCtxSetCurrent, -1, 0, NULL);
		break;
	case 1:
		end_context(slot);
		break;
	case 2:
	case 3:
		TRY(cuCtxPopCurrent_v2, 0, 0, &out);
		break;
	case 4:
		if (contexts[other].context != NULL)
			TRY(cuCtxEnablePeerAccess, other, 0, contexts[other].context, 0);
		break;
	case 5:
		if (contexts[other].context != NULL)
			TRY(cuCtxDisablePeerAccess, other, 0, contexts[other].context);
		break;
	case 6:
		TRY(cuCtxSetLimit, 0, 0, 0, 1024);
		break;
	case 7:
	case 8:
		begin_context(slot);
		if (contexts[slot].context != NULL)
			TRY(cuCtxPushCurrent_v2, slot, 0, contexts[slot].context);
		break;
	default:
		become_current(slot);
		break;
	}
}

/* A context of its own breaks, for good: what others hold goes on. */
static void break_context(const struct draw *draw)
{
	const int slot = DEVICES + (int)(draw->a % (CONTEXTS - DEVICES));
	unsigned int us = 0;
	void *parameters[] = {&us};

	if (current_slot() != slot || kernel_illegal == NULL || draw->b % 4 != 0)
		return;
	open_gates();
	if (TRY(cuCtxSynchronize, slot, 0) != OK)
		return;
	TRY(cuLaunchKernel, slot, 0, kernel_illegal, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL);
	TRY(cuCtxSynchronize, slot, 1);
	note("context broken", now_us(), OK, slot, contexts[slot].freed_bytes);
}

/* ---- memory ---- */

static int create(struct block *block)
{
	const struct fake_allocation_prop prop = {.type = 1, .location = {.type = 1, .id = 0}};
	const size_t bytes = (block->bytes + 2 * MB - 1) / (2 * MB) * (2 * MB);
	uint64_t dptr = 0;

	if (TRY(cuMemCreate, bytes, 0, &block->handle, bytes, &prop, 0) != OK)
		return OUT_OF_MEMORY;
	block->bytes = bytes;
	if (block->kind == HANDLE)
		return OK;
	if (TRY(cuMemAddressReserve, bytes, 0, &dptr, bytes, 0, 0, 0) != OK)
		return OK;
	if (TRY(cuMemMap, bytes, 0, dptr, bytes, 0, block->handle, 0) == OK)
		block->dptr = dptr;
	return OK;
}

static int ask_for(struct block *block)
{
	const size_t bytes = block->bytes;
	void *ptr = NULL;
	size_t pitch;

	switch (block->kind) {
	case PITCH:
		return TRY(cuMemAllocPitch_v2, bytes / 64, 64, &block->dptr, &pitch, bytes / 64, 64,
			   4);
	case MANAGED:
		return TRY(cuMemAllocManaged, bytes, 0, &block->dptr, bytes, 1);
	case ASYNC:
		return driver_version < 11020
			       ? NOT_SUPPORTED
			       : TRY(cuMemAllocAsync, bytes, 0, &block->dptr, bytes, NULL);
	case PINNED:
		block->bytes = bytes % (8 * MB);
		if (TRY(cuMemHostAlloc, block->bytes, 0, &ptr, block->bytes, 0) != OK)
			return OUT_OF_MEMORY;
		block->dptr = (uint64_t)(uintptr_t)ptr;
		return OK;
	case HANDLE:
	case MAPPED:
		block->bytes = bytes < (size_t)1 << 50 ? bytes : (size_t)1 << 50;
		return create(block);
	default:
		return TRY(cuMemAlloc_v2, bytes, 0, &block->dptr, bytes);
	}
}

/* Memory apart from its addresses: an odd slot's handle goes while it is mapped. */
static void give_handle_back(int slot)
{
	struct block *block = &blocks[slot];

	if (slot % 2 != 0 && block->handle != 0 &&
	    TRY(cuMemRelease, slot, block->bytes, block->handle) == OK)
		block->handle = 0;
	if (block->dptr != 0) {
		open_gates();
		if (TRY(cuMemUnmap, slot, block->bytes, block->dptr, block->bytes) == OK &&
		    TRY(cuMemAddressFree, slot, block->bytes, block->dptr, block->bytes) == OK)
			block->dptr = 0;
	}
	if (slot % 2 == 0 && block->handle != 0 &&
	    TRY(cuMemRelease, slot, block->bytes, block->handle) == OK)
		block->handle = 0;
}

static void give_back(int slot)
{
	struct block *block = &blocks[slot];
	int result;

	if (block->kind == HANDLE || block->kind == MAPPED) {
		give_handle_back(slot);
		return;
	}
	if (block->kind == PINNED || is_gate_blocking)
		open_gates();
	if (block->kind == PINNED)
		result = TRY(cuMemFreeHost, slot, block->bytes, (void *)(uintptr_t)block->dptr);
	else
		result = TRY(cuMemFree_v2, slot, block->bytes, block->dptr);
	if (result != OK)
		return;
	if (block->kind == DEVICE && block->context >= 0)
		contexts[block->context].freed_bytes += block->bytes;
	if (block->kind == ASYNC)
		idle_async_bytes[device_of(block)] += block->bytes + 2 * MB;
	*block = (struct block){0};
}

static void change_block(const struct draw *draw)
{
	static const enum kind kinds[] = {DEVICE, DEVICE, DEVICE, DEVICE, DEVICE,  DEVICE,
					  DEVICE, DEVICE, DEVICE, PITCH,  MANAGED, ASYNC,
					  PINNED, HANDLE, MAPPED, DEVICE};
	const int slot = (int)(draw->a % BLOCKS);
	struct block fresh = {.kind = kinds[draw->b % 16],
			      .bytes = drawn_size(draw->c, draw->d),
			      .context = current_slot()};

	if (blocks[slot].dptr != 0 || blocks[slot].handle != 0)
		give_back(slot);
	else if (ask_for(&fresh) == OK)
		blocks[slot] = fresh;
}

/* A hoard of the size, freed at once, and a block that fits only where the hoard has gone: threads
 * and captures may be in between. */
static void hoard(const struct draw *draw)
{
	const size_t each = (draw->a % 2 ? 112ul : 60ul) * MB;
	uint64_t held[16] = {0}, large = 0;
	int i;

	open_gates();
	for (i = 0; i < 16; i++)
		if (TRY(cuMemAlloc_v2, each, i, &held[i], each) != OK)
			break;
	while (i-- > 0)
		if (TRY(cuMemFree_v2, each, i, held[i]) == OK && current_slot() >= 0)
			contexts[current_slot()].freed_bytes += each;
	if (draw->b % 2 && TRY(cuMemAlloc_v2, 300ul * MB, 0, &large, 300ul * MB) == OK)
		TRY(cuMemFree_v2, 300ul * MB, 0, large);
}

/* Calls whose answer is known without the pool: none of them is a block that may be freed now. */
static void misuse(const struct draw *draw)
{
	const int slot = (int)(draw->a % BLOCKS);
	const struct block block = blocks[slot];
	static char own[4096];
	uint64_t value = 0;
	size_t bytes = 0;

	if (is_gate_blocking)
		open_gates();
	switch (draw->b % 8) {
	case 0:
		TRY(cuMemAlloc_v2, 0, 0, NULL, drawn_size(draw->c, draw->d));
		break;
	case 1:
		TRY(cuMemFree_v2, 0, 0, 0);
		TRY(cuMemFree_v2, 1, 0, (uint64_t)(uintptr_t)own);
		break;
	case 2:
		if (block.dptr != 0 && block.bytes > 600)
			TRY(cuMemFree_v2, slot, 512, block.dptr + 512);
		break;
	case 3:
		if (block.dptr != 0 && block.kind == DEVICE) {
			give_back(slot);
			if (blocks[slot].dptr == 0)
				TRY(cuMemFree_v2, slot, 2, block.dptr);
		}
		break;
	case 4:
		if (block.dptr != 0 && block.kind == DEVICE) {
			TRY(cuPointerGetAttribute, slot, block.bytes, &value, 9,
			    block.dptr + block.bytes - 1);
			TRY(cuPointerGetAttribute, slot, block.bytes + 1, &value, 9,
			    block.dptr + (block.bytes + 511) / 512 * 512);
		}
		break;
	case 5:
		if (block.dptr != 0 && block.kind == DEVICE &&
		    TRY(cuMemGetAddressRange_v2, slot, 0, &value, &bytes, block.dptr) == OK)
			note("the size", now_us(), OK, slot, bytes);
		break;
	case 6:
		TRY(cuMemGetInfo_v2, 0, 0, &bytes, NULL);
		break;
	default:
		if (driver_version >= 11020 && block.dptr != 0 && block.kind == ASYNC) {
			open_gates();
			if (TRY(cuMemFreeAsync, slot, 0, block.dptr, NULL) == OK) {
				idle_async_bytes[device_of(&block)] += block.bytes + 2 * MB;
				blocks[slot] = (struct block){0};
			}
			TRY(cuStreamSynchronize, -1, 0, NULL);
		}
		break;
	}
}

/* ---- all of them ---- */

void calls_set_up(uint64_t seed)
{
	has_green = seed % 8 == 0;
	cuInit(0);
	cuDriverGetVersion(&driver_version);
}

bool calls_make(const struct draw *draw)
{
	/* Contexts first; and while a host function waits, mostly calls that wait for nothing. */
	unsigned int kind = is_gate_closed ? draw->kind % 60 : draw->kind % 100;

	if (draw->d % 8 != 0 && current_slot() < 0)
		become_current((int)(draw->a % CONTEXTS));
	if (kind < 42)
		change_block(draw);
	else if (kind < 50)
		misuse(draw);
	else if (kind < 56)
		use_context(draw);
	else if (kind < 60)
		green_context(draw);
	else if (kind < 68)
		launch(draw);
	else if (kind < 76)
		change_stream(draw);
	else if (kind < 86)
		change_capture(draw);
	else if (kind < 92)
		use_context(draw);
	else if (kind < 94)
		hoard(draw);
	else if (kind < 97)
		break_context(draw);
	else
		return false;
	return true;
}

void calls_leave(void)
{
	struct CUctx_st *out;
	uint64_t count = 0;
	int mode = 0;

	open_gates();
	cuThreadExchangeStreamCaptureMode(&mode);
	while (cuCtxPopCurrent_v2(&out) == OK)
		count++;
	note("contexts left", now_us(), OK, count, 0);
}

void calls_end(void)
{
	int i, j;

	end_streams();
	begin_context(0);
	/* A broken context frees nothing; what is left of its blocks goes with it. */
	for (i = 0; i < CONTEXTS; i++)
		if (contexts[i].context != NULL) {
			TRY(cuCtxPushCurrent_v2, i, 0, contexts[i].context);
			TRY(cuCtxSynchronize, i, 0);
			for (j = 0; j < BLOCKS; j++)
				if (blocks[j].dptr != 0 || blocks[j].handle != 0)
					give_back(j);
		}
	for (i = CONTEXTS - 1; i >= 0; i--)
		while (contexts[i].context != NULL && (i >= DEVICES || contexts[i].retained > 0))
			if (!end_context(i))
				break;
	for (i = 0; i < BLOCKS; i++)
		blocks[i] = (struct block){0};
	note_host_calls();
	for (i = 0; i < DEVICES; i++)
		contexts[i].context = NULL, idle_async_bytes[i] = 0;
	calls_leave();
	note("bytes left", now_us(), OK, fakecuda_used_bytes(0), fakecuda_used_bytes(1));
}
