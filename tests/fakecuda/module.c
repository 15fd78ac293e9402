/* module.c -- modules and launches. Whatever is loaded, a module has the kernels of fakecuda.h and
 * no others. */
#include <string.h>
#include <unistd.h>

#include "internal.h"

struct CUfunc_st {
	const char *name;
	enum fake_work_kind kind;
};
struct CUmod_st {
	struct fake_object object;
	struct CUctx_st *context;
};

static struct CUfunc_st functions[] = {
	{FAKECUDA_KERNEL_FILL, WORK_KERNEL_FILL},
	{FAKECUDA_KERNEL_CHECK, WORK_KERNEL_CHECK},
	{FAKECUDA_KERNEL_DELAY, WORK_KERNEL_DELAY},
	{FAKECUDA_KERNEL_ILLEGAL, WORK_KERNEL_ILLEGAL},
};
enum { FUNCTION_COUNT = sizeof(functions) / sizeof(functions[0]) };

static bool is_function(const struct CUfunc_st *function)
{
	return function >= functions && function < functions + FUNCTION_COUNT;
}

static int load(enum fake_fn fn, struct CUmod_st **out, const void *image)
{
	struct CUctx_st *context;
	struct CUmod_st *module;
	const int result = fake_enter(fn, &context);

	if (result != OK)
		return result;
	if (out == NULL || image == NULL)
		return fake_leave(INVALID_VALUE);
	module = fake_object_new(FAKE_MODULE, sizeof(*module));
	if (module == NULL)
		return fake_leave(OUT_OF_MEMORY);
	module->context = context;
	fake_ledger.modules++;
	*out = module;
	return fake_leave(OK);
}

int cuModuleLoad(struct CUmod_st **module, const char *path)
{
	if (path != NULL && access(path, R_OK) != 0) {
		const int result = fake_enter(FN_cuModuleLoad, NULL);

		return result != OK ? result : fake_leave(FILE_NOT_FOUND);
	}
	return load(FN_cuModuleLoad, module, path);
}

int cuModuleLoadData(struct CUmod_st **module, const void *image)
{
	return load(FN_cuModuleLoadData, module, image);
}

int cuModuleLoadDataEx(struct CUmod_st **module, const void *image, unsigned int count,
		       int *options, void **values)
{
	(void)count;
	(void)options;
	(void)values;
	return load(FN_cuModuleLoadDataEx, module, image);
}

int cuModuleLoadFatBinary(struct CUmod_st **module, const void *image)
{
	return load(FN_cuModuleLoadFatBinary, module, image);
}

int cuModuleUnload(struct CUmod_st *module)
{
	const int result = fake_enter(FN_cuModuleUnload, NULL);

	if (result != OK)
		return result;
	if (!fake_object_is(FAKE_MODULE, module))
		return fake_leave(INVALID_HANDLE);
	fake_ledger.modules--;
	fake_object_free(FAKE_MODULE, module);
	return fake_leave(OK);
}

int cuModuleGetFunction(struct CUfunc_st **function, struct CUmod_st *module, const char *name)
{
	const int result = fake_enter(FN_cuModuleGetFunction, NULL);
	int i;

	if (result != OK)
		return result;
	if (function == NULL || name == NULL)
		return fake_leave(INVALID_VALUE);
	if (!fake_object_is(FAKE_MODULE, module))
		return fake_leave(INVALID_HANDLE);
	for (i = 0; i < FUNCTION_COUNT; i++)
		if (strcmp(functions[i].name, name) == 0) {
			*function = &functions[i];
			return fake_leave(OK);
		}
	return fake_leave(NOT_FOUND);
}

int cuModuleGetGlobal_v2(uint64_t *dptr, size_t *bytes, struct CUmod_st *module, const char *name)
{
	const int result = fake_enter(FN_cuModuleGetGlobal_v2, NULL);

	(void)dptr;
	(void)bytes;
	if (result != OK)
		return result;
	if (name == NULL)
		return fake_leave(INVALID_VALUE);
	return fake_leave(fake_object_is(FAKE_MODULE, module) ? NOT_FOUND : INVALID_HANDLE);
}

int cuModuleGetLoadingMode(int *mode)
{
	const int result = fake_enter(FN_cuModuleGetLoadingMode, NULL);

	if (result != OK)
		return result;
	if (mode == NULL)
		return fake_leave(INVALID_VALUE);
	*mode = 1; /* eager */
	return fake_leave(OK);
}

int cuFuncGetAttribute(int *value, int attribute, struct CUfunc_st *function)
{
	const int result = fake_enter(FN_cuFuncGetAttribute, NULL);

	if (result != OK)
		return result;
	if (value == NULL || attribute < 0 || attribute > 15)
		return fake_leave(INVALID_VALUE);
	if (!is_function(function))
		return fake_leave(INVALID_HANDLE);
	*value = attribute == 0 ? 1024 : 0; /* threads of a block at most */
	return fake_leave(OK);
}

/* kernelParams points to one pointer for each parameter; it is read now, as a driver does. */
static void read_params(struct fake_work *work, void **params)
{
	uint64_t bytes = 0;

	if (work->kind == WORK_KERNEL_DELAY || work->kind == WORK_KERNEL_ILLEGAL) {
		memcpy(&work->delay_us, params[0], 4);
		return;
	}
	memcpy(&work->dst, params[0], 8);
	memcpy(&bytes, params[1], 8);
	work->bytes = bytes;
	memcpy(&work->value, params[2], 4);
	if (work->kind == WORK_KERNEL_FILL) {
		memcpy(&work->delay_us, params[3], 4);
		return;
	}
	memcpy(&work->result, params[3], 8);
	memcpy(&work->delay_us, params[4], 4);
}

static int launch(enum fake_fn fn, const struct CUfunc_st *function, bool has_size,
		  struct CUstream_st *handle, void **params)
{
	struct fake_work work = {.rows = 1};
	struct CUctx_st *context;
	struct CUstream_st *stream;
	int result = fake_enter(fn, &context);

	if (result != OK)
		return result;
	if (!is_function(function))
		return fake_leave(INVALID_HANDLE);
	if (params == NULL || !has_size)
		return fake_leave(INVALID_VALUE);
	result = fake_stream_of(context, handle, fn, &stream);
	if (result == OK && stream->context->root != context->root)
		result = INVALID_HANDLE;
	if (result != OK)
		return fake_leave(result);
	work.kind = function->kind;
	read_params(&work, params);
	return fake_leave(fake_submit(stream, &work));
}

static int on_cuLaunchKernel(enum fake_fn fn, struct CUfunc_st *function, bool has_size,
			     struct CUstream_st *stream, void **params)
{
	return launch(fn, function, has_size, stream, params);
}
FAKE_TWINS(cuLaunchKernel, _ptsz,
	   (struct CUfunc_st * function, unsigned int grid_x, unsigned int grid_y,
	    unsigned int grid_z, unsigned int block_x, unsigned int block_y, unsigned int block_z,
	    unsigned int shared, struct CUstream_st *stream, void **params, void **extra),
	   function,
	   grid_x &&grid_y &&grid_z &&block_x &&block_y &&block_z &&extra == NULL &&
		   shared <= (1 << 20),
	   stream, params)
