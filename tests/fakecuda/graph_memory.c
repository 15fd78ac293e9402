/* graph_memory.c -- what graphs allocate: there from the capture on until the last of the graph and
 * its executable ones is gone. What is gone then still counts against the device until
 * cuDeviceGraphMemTrim, or until another graph needs it. */
#include <stdlib.h>

#include "internal.h"

enum { ATTR_USED = 0, ATTR_USED_HIGH = 1, ATTR_RESERVED = 2, ATTR_RESERVED_HIGH = 3 };

static uint64_t rounded(uint64_t bytes)
{
	return (bytes + fake_settings.granularity - 1) / fake_settings.granularity *
	       fake_settings.granularity;
}

static uint64_t reserved(const struct fake_device *device)
{
	return rounded(device->graph_used_bytes) + device->graph_idle_bytes;
}

static void take_from_idle(int device, uint64_t bytes)
{
	struct fake_device *at = &fake_devices[device];

	if (bytes > at->graph_idle_bytes)
		bytes = at->graph_idle_bytes;
	at->graph_idle_bytes -= bytes;
	fake_uncharge(device, bytes);
}

static void own(struct CUgraph_st *graph, struct fake_block *block)
{
	struct fake_graph_memory *memory = graph->memory;

	if (memory == NULL) {
		memory = graph->memory = fake_alloc(sizeof(*memory));
		memory->refs = 1;
	}
	memory->at = realloc(memory->at, (memory->count + 1) * sizeof(*memory->at));
	if (memory->at == NULL)
		abort();
	memory->at[memory->count].block = block;
	memory->at[memory->count++].id = block->id;
}

int fake_graph_allocate(struct CUstream_st *stream, uint64_t *dptr, size_t bytes)
{
	const struct fake_work work = {.kind = WORK_GRAPH_ALLOC};
	struct fake_device *device = &fake_devices[stream->context->device];
	struct fake_block *block;
	int result;

	if (stream->capture->is_invalid)
		return CAPTURE_INVALIDATED;
	take_from_idle(stream->context->device, rounded(bytes));
	block = fake_block_new(FAKECUDA_GRAPH, stream->context->root, bytes, true, &result);
	if (block == NULL)
		return result;
	device->graph_used_bytes += bytes;
	if (device->graph_used_bytes > device->graph_used_high)
		device->graph_used_high = device->graph_used_bytes;
	if (reserved(device) > device->graph_reserved_high)
		device->graph_reserved_high = reserved(device);
	own(stream->capture->graph, block);
	*dptr = block->base;
	return fake_submit(stream, &work);
}

void fake_graph_memory_unref(struct fake_graph_memory *memory)
{
	unsigned int i;

	if (memory == NULL || --memory->refs > 0)
		return;
	for (i = 0; i < memory->count; i++) {
		struct fake_block *block = memory->at[i].block;
		struct fake_device *device;

		if (block->id != memory->at[i].id)
			continue;
		device = &fake_devices[block->device];
		device->graph_used_bytes -= block->bytes;
		fake_block_free(block);
		if (fake_charge(block->device, rounded(block->bytes)))
			device->graph_idle_bytes += rounded(block->bytes);
	}
	free(memory->at);
	free(memory);
}

int cuDeviceGetGraphMemAttribute(int device, int attribute, void *value)
{
	const int result = fake_enter(FN_cuDeviceGetGraphMemAttribute, NULL);
	const struct fake_device *at;

	if (result != OK)
		return result;
	if (!fake_device_is(device))
		return fake_leave(INVALID_DEVICE);
	if (value == NULL || attribute < ATTR_USED || attribute > ATTR_RESERVED_HIGH)
		return fake_leave(INVALID_VALUE);
	at = &fake_devices[device];
	*(uint64_t *)value = attribute == ATTR_USED        ? at->graph_used_bytes
			     : attribute == ATTR_USED_HIGH ? at->graph_used_high
			     : attribute == ATTR_RESERVED  ? reserved(at)
							   : at->graph_reserved_high;
	return fake_leave(OK);
}

int cuDeviceGraphMemTrim(int device)
{
	const int result = fake_enter(FN_cuDeviceGraphMemTrim, NULL);

	if (result != OK)
		return result;
	if (!fake_device_is(device))
		return fake_leave(INVALID_DEVICE);
	take_from_idle(device, fake_devices[device].graph_idle_bytes);
	return fake_leave(OK);
}
