/* vmm.c -- addresses and memory apart: memory is a memfd, so that it can be mapped in several
 * places; it goes when neither a handle nor a mapping is left. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

static struct physical {
	struct physical *next;
	unsigned long long handle;
	size_t bytes;
	int device, fd;
	unsigned int handles, mappings;
} * physicals;

static struct mapping {
	struct mapping *next;
	uint64_t start;
	size_t bytes;
	struct physical *physical;
	unsigned int devices; /* which may access it, a bit each */
} * mappings;

static struct physical *find(unsigned long long handle)
{
	struct physical *physical;

	for (physical = physicals; physical && physical->handle != handle;
	     physical = physical->next)
		;
	return physical && physical->handles > 0 ? physical : NULL;
}

static struct mapping *mapping_at(uint64_t address)
{
	struct mapping *mapping;

	for (mapping = mappings; mapping && address - mapping->start >= mapping->bytes;
	     mapping = mapping->next)
		;
	return mapping;
}

/* context NULL: any device that may. */
bool fake_vmm_may_touch(uint64_t address, size_t bytes, const struct CUctx_st *context)
{
	const uint64_t end = address + bytes;
	const struct mapping *mapping;

	while (address < end) {
		mapping = mapping_at(address);
		if (mapping == NULL || (context ? (mapping->devices >> context->device & 1) == 0
						: mapping->devices == 0))
			return false;
		address = mapping->start + mapping->bytes;
	}
	return true;
}

static void drop(struct physical *physical)
{
	struct physical **link;

	if (physical->handles > 0 || physical->mappings > 0)
		return;
	for (link = &physicals; *link != physical; link = &(*link)->next)
		;
	*link = physical->next;
	fake_uncharge(physical->device, physical->bytes);
	fake_ledger.live_bytes[FAKECUDA_VMM] -= physical->bytes;
	fake_ledger.live_count[FAKECUDA_VMM]--;
	close(physical->fd);
	free(physical);
}

static bool is_prop(const struct fake_allocation_prop *prop)
{
	return prop != NULL && prop->type == 1 && prop->location.type == 1 &&
	       fake_device_is(prop->location.id);
}

int cuMemGetAllocationGranularity(size_t *bytes, const struct fake_allocation_prop *prop,
				  int option)
{
	const int result = fake_enter(FN_cuMemGetAllocationGranularity, NULL);

	if (result != OK)
		return result;
	if (bytes == NULL || !is_prop(prop) || option < 0 || option > 1)
		return fake_leave(INVALID_VALUE);
	*bytes = fake_settings.granularity;
	return fake_leave(OK);
}

int cuMemCreate(unsigned long long *handle, size_t bytes, const struct fake_allocation_prop *prop,
		unsigned long long flags)
{
	struct physical *physical;
	const int result = fake_enter(FN_cuMemCreate, NULL);
	int fd;

	if (result != OK)
		return result;
	if (handle == NULL || bytes == 0 || bytes % fake_settings.granularity != 0 ||
	    !is_prop(prop) || flags != 0)
		return fake_leave(INVALID_VALUE);
	if (!fake_charge(prop->location.id, bytes))
		return fake_leave(OUT_OF_MEMORY);
	fd = memfd_create("fakecuda", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
		if (fd >= 0)
			close(fd);
		fake_uncharge(prop->location.id, bytes);
		return fake_leave(OUT_OF_MEMORY);
	}
	physical = fake_alloc(sizeof(*physical));
	physical->handle = 0x70000000 + fake_next_id();
	physical->bytes = bytes;
	physical->device = prop->location.id;
	physical->fd = fd;
	physical->handles = 1;
	physical->next = physicals;
	physicals = physical;
	fake_ledger.live_bytes[FAKECUDA_VMM] += bytes;
	fake_ledger.live_count[FAKECUDA_VMM]++;
	*handle = physical->handle;
	return fake_leave(OK);
}

int cuMemRelease(unsigned long long handle)
{
	struct physical *physical;
	const int result = fake_enter(FN_cuMemRelease, NULL);

	if (result != OK)
		return result;
	physical = find(handle);
	if (physical == NULL) {
		fake_ledger.refused_frees++;
		return fake_leave(INVALID_VALUE);
	}
	physical->handles--;
	drop(physical);
	return fake_leave(OK);
}

int cuMemRetainAllocationHandle(unsigned long long *handle, void *address)
{
	struct mapping *mapping;
	const int result = fake_enter(FN_cuMemRetainAllocationHandle, NULL);

	if (result != OK)
		return result;
	mapping = mapping_at((uint64_t)(uintptr_t)address);
	if (handle == NULL || mapping == NULL)
		return fake_leave(INVALID_VALUE);
	mapping->physical->handles++;
	*handle = mapping->physical->handle;
	return fake_leave(OK);
}

/* A driver need not follow a hint for the address. */
int cuMemAddressReserve(uint64_t *dptr, size_t bytes, size_t alignment, uint64_t wanted,
			unsigned long long flags)
{
	struct fake_block *block;
	int result = fake_enter(FN_cuMemAddressReserve, NULL);

	(void)wanted;
	if (result != OK)
		return result;
	if (dptr == NULL || bytes == 0 || bytes % fake_settings.granularity != 0 ||
	    (alignment & (alignment - 1)) != 0 || flags != 0)
		return fake_leave(INVALID_VALUE);
	block = fake_block_reserve(
		bytes,
		alignment > fake_settings.granularity ? alignment : fake_settings.granularity,
		&result);
	if (block != NULL)
		*dptr = block->base;
	return fake_leave(result);
}

static bool is_mapped(uint64_t start, size_t bytes)
{
	const struct mapping *mapping;

	for (mapping = mappings; mapping; mapping = mapping->next)
		if (start < mapping->start + mapping->bytes && mapping->start < start + bytes)
			return true;
	return false;
}

int cuMemAddressFree(uint64_t dptr, size_t bytes)
{
	struct fake_block *block;
	const int result = fake_enter(FN_cuMemAddressFree, NULL);

	if (result != OK)
		return result;
	block = fake_block_at(dptr);
	if (block == NULL || !block->is_reserved || block->base != dptr || block->bytes != bytes ||
	    is_mapped(dptr, bytes))
		return fake_leave(INVALID_VALUE);
	fake_block_free(block);
	return fake_leave(OK);
}

int cuMemMap(uint64_t dptr, size_t bytes, size_t offset, unsigned long long handle,
	     unsigned long long flags)
{
	const struct fake_block *block;
	struct physical *physical;
	struct mapping *mapping;
	const int result = fake_enter(FN_cuMemMap, NULL);

	if (result != OK)
		return result;
	block = fake_block_at(dptr);
	physical = find(handle);
	if (physical == NULL || block == NULL || !block->is_reserved || bytes == 0 || flags != 0 ||
	    offset != 0 || bytes > physical->bytes || dptr + bytes > block->base + block->bytes ||
	    dptr % fake_settings.granularity != 0 || is_mapped(dptr, bytes))
		return fake_leave(INVALID_VALUE);
	if (mmap((void *)(uintptr_t)dptr, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, physical->fd,
		 0) == MAP_FAILED)
		return fake_leave(OUT_OF_MEMORY);
	mapping = fake_alloc(sizeof(*mapping));
	mapping->start = dptr;
	mapping->bytes = bytes;
	mapping->physical = physical;
	mapping->next = mappings;
	mappings = mapping;
	physical->mappings++;
	return fake_leave(OK);
}

static void unmap(struct mapping **link)
{
	struct mapping *mapping = *link;
	struct physical *physical = mapping->physical;

	*link = mapping->next;
	if (mmap((void *)(uintptr_t)mapping->start, mapping->bytes, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		abort();
	free(mapping);
	physical->mappings--;
	drop(physical);
}

/* A range may hold several mappings, each wholly in it. */
int cuMemUnmap(uint64_t dptr, size_t bytes)
{
	struct mapping **link = &mappings;
	const struct mapping *mapping;
	bool any = false;
	const int result = fake_enter(FN_cuMemUnmap, NULL);

	if (result != OK)
		return result;
	for (mapping = mappings; mapping; mapping = mapping->next)
		if (dptr < mapping->start + mapping->bytes && mapping->start < dptr + bytes) {
			any = true;
			if (mapping->start < dptr || mapping->start + mapping->bytes > dptr + bytes)
				return fake_leave(INVALID_VALUE);
		}
	while (*link)
		if ((*link)->start - dptr < bytes)
			unmap(link);
		else
			link = &(*link)->next;
	return fake_leave(any ? OK : INVALID_VALUE);
}

static int set_access(uint64_t dptr, size_t bytes, const struct fake_access *access)
{
	struct mapping *mapping;
	uint64_t at;

	if (access->location.type != 1 || !fake_device_is(access->location.id))
		return INVALID_DEVICE;
	for (at = dptr; at < dptr + bytes; at = mapping->start + mapping->bytes) {
		mapping = mapping_at(at);
		if (mapping == NULL)
			return INVALID_VALUE;
		mapping->devices &= ~(1u << access->location.id);
		if (access->flags == 3)
			mapping->devices |= 1u << access->location.id;
		if (mprotect((void *)(uintptr_t)mapping->start, mapping->bytes,
			     mapping->devices ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
			return OUT_OF_MEMORY;
	}
	return OK;
}

int cuMemSetAccess(uint64_t dptr, size_t bytes, const struct fake_access *access, size_t count)
{
	int result = fake_enter(FN_cuMemSetAccess, NULL);
	size_t i;

	if (result != OK)
		return result;
	if (access == NULL || count == 0 || bytes == 0)
		return fake_leave(INVALID_VALUE);
	for (i = 0; i < count && result == OK; i++)
		result = set_access(dptr, bytes, &access[i]);
	return fake_leave(result);
}
