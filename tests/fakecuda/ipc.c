/* ipc.c -- memory of another process on this machine. Who exports a block puts a memfd behind it;
 * the handle names process and descriptor, which the other opens through /proc. No name is left
 * behind anywhere. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

struct content {
	char magic[8];
	int pid, fd, device;
	uint64_t bytes, map_bytes;
};
static const char magic[8] = "fakeipc";

static void *start_of(const struct fake_block *block)
{
	return (void *)(uintptr_t)block->map_start;
}

/* The same bytes at the same addresses, from now on in a file that another process can map. Work of
 * the context is done. */
static bool export(struct fake_block *block)
{
	const int fd = memfd_create("fakecuda-ipc", MFD_CLOEXEC);

	if (fd < 0)
		return false;
	if (ftruncate(fd, (off_t)block->map_bytes) != 0 ||
	    pwrite(fd, start_of(block), block->map_bytes, 0) != (ssize_t)block->map_bytes ||
	    mmap(start_of(block), block->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
		 fd, 0) == MAP_FAILED) {
		close(fd);
		return false;
	}
	block->fd = fd;
	block->is_exported = true;
	return true;
}

int cuIpcGetMemHandle(struct fake_ipc_handle *handle, uint64_t dptr)
{
	struct content content = {.pid = getpid()};
	struct fake_deps deps = {0};
	struct CUctx_st *context;
	struct fake_block *block;
	const int result = fake_enter(FN_cuIpcGetMemHandle, &context);

	if (result != OK)
		return result;
	fake_context_deps(context->root, false, &deps);
	fake_wait(&deps);
	block = fake_block_at(dptr);
	if (handle == NULL || block == NULL || block->is_reserved || block->is_freeing ||
	    (block->kind != FAKECUDA_DEVICE && block->kind != FAKECUDA_PITCH))
		return fake_leave(INVALID_VALUE);
	if (!block->is_exported && !export(block))
		return fake_leave(OUT_OF_MEMORY);
	memcpy(content.magic, magic, sizeof(magic));
	content.fd = block->fd;
	content.device = block->device;
	content.bytes = block->bytes;
	content.map_bytes = block->map_bytes;
	memset(handle, 0, sizeof(*handle));
	memcpy(handle, &content, sizeof(content));
	return fake_leave(OK);
}

static int open_content(const struct content *content, struct CUctx_st *context, uint64_t *dptr)
{
	struct fake_block *block;
	char path[64];
	int fd, result;

	if (memcmp(content->magic, magic, sizeof(magic)) != 0)
		return INVALID_VALUE;
	if (content->pid == getpid())
		return INVALID_CONTEXT; /* as a real driver: a process has no use for its own */
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", content->pid, content->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return INVALID_VALUE;
	block = fake_block_new(FAKECUDA_IPC, context, content->bytes, false, &result);
	if (block != NULL && (block->map_bytes != content->map_bytes ||
			      mmap(start_of(block), block->map_bytes, PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED)) {
		fake_block_free(block);
		block = NULL;
		result = INVALID_VALUE;
	}
	close(fd);
	if (block != NULL)
		*dptr = block->base;
	return result;
}

static int open_handle(enum fake_fn fn, uint64_t *dptr, const struct fake_ipc_handle *handle,
		       unsigned int flags)
{
	struct CUctx_st *context;
	struct content content;
	const int result = fake_enter(fn, &context);

	if (result != OK)
		return result;
	if (dptr == NULL || flags != 1)
		return fake_leave(INVALID_VALUE);
	memcpy(&content, handle, sizeof(content));
	return fake_leave(open_content(&content, context, dptr));
}

int cuIpcOpenMemHandle(uint64_t *dptr, struct fake_ipc_handle handle, unsigned int flags)
{
	return open_handle(FN_cuIpcOpenMemHandle, dptr, &handle, flags);
}

int cuIpcOpenMemHandle_v2(uint64_t *dptr, struct fake_ipc_handle handle, unsigned int flags)
{
	return open_handle(FN_cuIpcOpenMemHandle_v2, dptr, &handle, flags);
}

int cuIpcCloseMemHandle(uint64_t dptr)
{
	struct fake_deps deps = {0};
	struct CUctx_st *context;
	struct fake_block *block;
	uint64_t id;
	const int result = fake_enter(FN_cuIpcCloseMemHandle, &context);

	if (result != OK)
		return result;
	block = fake_block_at(dptr);
	if (block == NULL || block->kind != FAKECUDA_IPC || block->is_reserved ||
	    block->is_freeing || block->base != dptr)
		return fake_leave(INVALID_VALUE);
	block->is_freeing = true;
	id = block->id;
	fake_context_deps(context->root, false, &deps);
	fake_wait(&deps);
	if (block->id == id)
		fake_block_free(block);
	return fake_leave(OK);
}
