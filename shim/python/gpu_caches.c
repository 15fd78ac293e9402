#include "python/gpu_caches.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "sys/symbol.h"
#include "sys/lazy_symbols.h"
#include "core/devices.h"
#include "core/stats_layout.h"

/* All there from 3.8 to 3.13. Objects are void *: we know nothing of their insides. */
#define FUNCTIONS(X)                                                                               \
	X(void *, PyImport_GetModuleDict, (void))                                                  \
	X(void *, PyDict_GetItemString, (void *dict, const char *key))                             \
	X(void *, PyDict_Values, (void *dict))                                                     \
	X(void *, PyModule_GetDict, (void *module))                                                \
	X(void *, PyObject_Type, (void *object))                                                   \
	X(intptr_t, PyList_Size, (void *list))                                                     \
	X(void *, PyList_GetItem, (void *list, intptr_t index))                                    \
	X(void *, PyTuple_GetItem, (void *tuple, intptr_t index))                                  \
	X(void *, PyObject_GetAttrString, (void *object, const char *name))                        \
	X(void *, PyObject_CallObject, (void *callable, void *arguments))                          \
	X(void *, PyObject_CallFunction, (void *callable, const char *format, ...))                \
	X(int, PyObject_IsTrue, (void *object))                                                    \
	X(unsigned long long, PyLong_AsUnsignedLongLong, (void *number))                           \
	X(const char *, PyUnicode_AsUTF8, (void *text))                                            \
	X(void, Py_IncRef, (void *object))                                                         \
	X(void, Py_DecRef, (void *object))                                                         \
	X(void *, PyErr_Occurred, (void))                                                          \
	X(int, PyErr_ExceptionMatches, (void *exception))                                          \
	X(void, PyErr_Clear, (void))                                                               \
	X(void, PyErr_SetInterrupt, (void))                                                        \
	X(void, PyErr_Fetch, (void **type, void **value, void **trace))                            \
	X(void, PyErr_Restore, (void *type, void *value, void *trace))

struct gpu_api {
#define X(type, name, parameters) type(*name) parameters;
	FUNCTIONS(X)
#undef X
	void **PyExc_KeyboardInterrupt;
	void *PyModule_Type; /* its address is the type */
};
static struct gpu_api api;
static struct mt_lazy_symbols found_api = MT_LAZY_SYMBOLS(python); /* api */

static bool look_for_api(struct gpu_api *out)
{
	bool found = true;

#define X(type, name, parameters)                                                                  \
	*(void **)(void *)&out->name = mt_symbol(RTLD_DEFAULT, #name);                             \
	found = found && out->name;
	FUNCTIONS(X)
#undef X
	out->PyExc_KeyboardInterrupt = mt_symbol(RTLD_DEFAULT, "PyExc_KeyboardInterrupt");
	out->PyModule_Type = mt_symbol(RTLD_DEFAULT, "PyModule_Type");
	return found && out->PyExc_KeyboardInterrupt && out->PyModule_Type;
}

bool mt_python_gpu_find(void)
{
	struct gpu_api fresh;

	if (mt_lazy_symbols_are_ready(&found_api))
		return true;
	if (!look_for_api(&fresh))
		return false;
	mt_lazy_symbols_store(&found_api, &api, &fresh, sizeof(api));
	return true;
}

/* ---- small things; NULL goes in and comes out, and no error is left set ---- */

static void swallow(void)
{
	bool interrupted = false;

	if (!api.PyErr_Occurred())
		return;
	interrupted = api.PyErr_ExceptionMatches(*api.PyExc_KeyboardInterrupt);
	api.PyErr_Clear();
	/* The user's Ctrl-C came while we were running: it was meant for the program. */
	if (interrupted)
		api.PyErr_SetInterrupt();
}

static void *checked(void *object)
{
	if (!object)
		swallow();
	return object;
}

static void drop(void *object)
{
	if (object)
		api.Py_DecRef(object);
}

static void *attribute(void *object, const char *name)
{
	return object ? checked(api.PyObject_GetAttrString(object, name)) : NULL;
}

static void *call_method(void *object, const char *name)
{
	void *method = attribute(object, name);
	void *answer = method ? checked(api.PyObject_CallObject(method, NULL)) : NULL;

	drop(method);
	return answer;
}

static bool call_worked(void *object, const char *name)
{
	void *answer = call_method(object, name);

	drop(answer);
	return answer != NULL;
}

/* What is not a truth value is neither. */
static bool is_true(void *object)
{
	int answer = object ? api.PyObject_IsTrue(object) : 0;

	if (answer < 0)
		swallow();
	drop(object);
	return answer > 0;
}

static bool is_text(void *object, const char *text)
{
	const char *seen = object ? api.PyUnicode_AsUTF8(object) : NULL;
	bool answer = seen && strcmp(seen, text) == 0;

	if (!seen)
		swallow();
	drop(object);
	return answer;
}

/* The method answers false; one that fails or is missing does not. */
static bool answers_false(void *object, const char *name)
{
	void *answer = call_method(object, name);

	return answer && !is_true(answer);
}

/* What lazy loaders put in place of a module loads it at the first touch of an attribute; it has a
 * type of its own until then. */
static bool is_plain_module(void *object)
{
	void *type = checked(api.PyObject_Type(object));
	bool answer = type == api.PyModule_Type;

	drop(type);
	return answer;
}

/* While a module's own code runs for the first time, its parts are missing and its locks may be
 * held. */
static bool is_initializing(void *module)
{
	void *dict = checked(api.PyModule_GetDict(module));
	void *spec = dict ? checked(api.PyDict_GetItemString(dict, "__spec__")) : NULL;

	return is_true(attribute(spec, "_initializing"));
}

/* From sys.modules, complete; a new reference. */
static void *find_module(const char *name)
{
	void *modules = api.PyImport_GetModuleDict();
	void *module = modules ? api.PyDict_GetItemString(modules, name) : NULL;

	if (!module) {
		swallow();
		return NULL;
	}
	api.Py_IncRef(module);
	/* None stands there for a module that may not be imported. */
	if (is_plain_module(module) && !is_initializing(module))
		return module;
	drop(module);
	return NULL;
}

/* ---- PyTorch ---- */

/* torch.cuda, where it may be called: CUDA is initialised and no capture is open on the thread's
 * stream. */
static void *find_torch(void)
{
	void *torch = find_module("torch");
	void *cuda = torch ? find_module("torch.cuda") : NULL;

	drop(torch);
	if (cuda && is_true(call_method(cuda, "is_initialized")) &&
	    answers_false(cuda, "is_current_stream_capturing"))
		return cuda;
	drop(cuda);
	return NULL;
}

static bool empty_torch(void)
{
	void *cuda = find_torch();
	bool done = cuda && call_worked(cuda, "empty_cache");

	drop(cuda);
	return done;
}

static bool has(void *object, const char *name)
{
	void *value = attribute(object, name);

	drop(value);
	return value != NULL;
}

/* Where the accelerator is another than CUDA, the call may crash (MPS in PyTorch 2.13,
 * pytorch#197561). */
static bool is_cuda_the_accelerator(void *accelerator)
{
	void *device = call_method(accelerator, "current_accelerator");
	bool answer = is_text(attribute(device, "type"), "cuda");

	drop(device);
	return answer;
}

/* PyTorch's cache of page-locked host memory: by the public name where there is one, else by the
 * binding, which is there in builds with CUDA from 2.5 on. CUDA is initialised. */
static void empty_torch_host(void)
{
	void *accelerator = find_module("torch.accelerator");
	void *binding = find_module("torch._C");

	if (has(accelerator, "empty_host_cache")) {
		if (is_cuda_the_accelerator(accelerator))
			(void)call_worked(accelerator, "empty_host_cache");
	} else if (has(binding, "_host_emptyCache")) {
		(void)call_worked(binding, "_host_emptyCache");
	}
	drop(binding);
	drop(accelerator);
}

/* Both caches, of device memory and of page-locked host memory. True when the first was emptied. */
static bool empty_torch_both(void)
{
	bool done = empty_torch();

	/* Meanwhile another thread may have begun a capture, which the driver's cuMemFreeHost would
	 * break. */
	if (done && !mt_devices_are_capturing())
		empty_torch_host();
	return done;
}

static uint64_t read_number(void *object, const char *method_name, int device)
{
	void *method = attribute(object, method_name);
	void *number = method ? checked(api.PyObject_CallFunction(method, "i", device)) : NULL;
	unsigned long long value = number ? api.PyLong_AsUnsignedLongLong(number) : 0;

	if (api.PyErr_Occurred()) {
		swallow();
		value = 0;
	}
	drop(number);
	drop(method);
	return value;
}

static void read_torch(struct mt_python_gpu_figures *out)
{
	void *cuda = find_torch();
	void *count = call_method(cuda, "device_count");
	unsigned long long devices = count ? api.PyLong_AsUnsignedLongLong(count) : 0;

	if (api.PyErr_Occurred()) {
		swallow();
		devices = 0;
	}
	out->count = devices < MT_PYTHON_GPU_DEVICES ? (int)devices : MT_PYTHON_GPU_DEVICES;
	for (int i = 0; i < out->count; i++) {
		out->devices[i].reserved_bytes = read_number(cuda, "memory_reserved", i);
		out->devices[i].allocated_bytes = read_number(cuda, "memory_allocated", i);
	}
	drop(count);
	drop(cuda);
}

/* ---- CuPy ---- */

static bool empty_pool(void *cupy, const char *getter)
{
	void *pool = call_method(cupy, getter);
	bool done = pool && call_worked(pool, "free_all_blocks");

	drop(pool);
	return done;
}

/* Its pools ask the runtime for the current device, which initialises it. */
static bool empty_cupy(void)
{
	void *cupy = find_module("cupy");
	bool done = cupy && empty_pool(cupy, "get_default_memory_pool");

	if (cupy)
		(void)empty_pool(cupy, "get_default_pinned_memory_pool");
	drop(cupy);
	return done;
}

/* ---- Numba ---- */

#define NUMBA_DRIVER "numba.cuda.cudadrv.driver"

static bool clear_deallocations(void *owner)
{
	void *pending = attribute(owner, "deallocations");
	bool done = pending && call_worked(pending, "clear");

	drop(pending);
	return done;
}

/* Of the contexts that there are: current_context() would make one. Arrays wait with the memory
 * manager, streams and events with the context itself. An entry whose free fails is out of the
 * queue all the same, and its memory lost: hence only with a context on this thread, without which
 * the driver refuses. */
static bool empty_numba(void)
{
	if (!mt_devices_have_context())
		return false;

	void *module = find_module(NUMBA_DRIVER);
	void *driver = attribute(module, "driver");
	void *devices = attribute(driver, "devices");
	void *list = devices ? checked(api.PyDict_Values(devices)) : NULL;
	intptr_t count = list ? api.PyList_Size(list) : 0;
	bool done = false;

	for (intptr_t i = 0; i < count; i++) {
		void *context = attribute(api.PyList_GetItem(list, i), "primary_context");
		void *manager = attribute(context, "memory_manager");

		done |= clear_deallocations(manager);
		done |= clear_deallocations(context);
		drop(manager);
		drop(context);
	}
	drop(list);
	drop(devices);
	drop(driver);
	drop(module);
	return done;
}

/* ---- the collector ---- */

/* Who has not imported gc has not set its thresholds. */
static bool is_first_threshold_zero(void)
{
	void *gc = find_module("gc");
	void *thresholds = call_method(gc, "get_threshold");
	void *first = thresholds ? checked(api.PyTuple_GetItem(thresholds, 0)) : NULL;
	int is_other = first ? api.PyObject_IsTrue(first) : 1;

	if (is_other < 0)
		swallow();
	drop(thresholds);
	drop(gc);
	return is_other == 0;
}

/* ---- for the outside ---- */

static const struct framework {
	enum mt_framework_bit bit;
	const char *module;
	bool (*empty)(void);
} frameworks[] = {
	{MT_FRAMEWORK_TORCH, "torch", empty_torch_both},
	{MT_FRAMEWORK_CUPY, "cupy", empty_cupy},
	{MT_FRAMEWORK_NUMBA, NUMBA_DRIVER, empty_numba},
};

static bool is_there(const char *name)
{
	void *module = find_module(name);

	drop(module);
	return module != NULL;
}

/* A call is run some time after it was queued, and each framework's code may run others of the
 * program: whether a capture is open is asked before each. */
static void empty_one(const struct framework *framework, uint32_t *done, uint32_t *left)
{
	if (mt_devices_are_capturing())
		*left |= is_there(framework->module) ? framework->bit : 0u;
	else
		*done |= framework->empty() ? framework->bit : 0u;
}

uint32_t mt_python_gpu_empty(bool cuda_used, uint32_t *out_left)
{
	void *type, *value, *trace;
	uint32_t done = 0;
	uint32_t left = 0;

	*out_left = 0;
	if (!mt_lazy_symbols_are_ready(&found_api))
		return 0;
	api.PyErr_Fetch(&type, &value, &trace);
	for (size_t i = 0; i < sizeof(frameworks) / sizeof(frameworks[0]); i++)
		if (cuda_used || frameworks[i].bit != MT_FRAMEWORK_CUPY)
			empty_one(&frameworks[i], &done, &left);
	api.PyErr_Restore(type, value, trace);
	*out_left = left;
	return done;
}

bool mt_python_gpu_empty_torch(void)
{
	void *type, *value, *trace;
	bool done;

	if (!mt_lazy_symbols_are_ready(&found_api) || mt_devices_are_capturing())
		return false;
	api.PyErr_Fetch(&type, &value, &trace);
	done = empty_torch();
	api.PyErr_Restore(type, value, trace);
	return done;
}

bool mt_python_gpu_is_gc_off(void)
{
	void *type, *value, *trace;
	bool is_off;

	if (!mt_python_gpu_find())
		return false;
	api.PyErr_Fetch(&type, &value, &trace);
	is_off = is_first_threshold_zero();
	api.PyErr_Restore(type, value, trace);
	return is_off;
}

void mt_python_gpu_read(struct mt_python_gpu_figures *out)
{
	void *type, *value, *trace;

	memset(out, 0, sizeof(*out));
	if (!mt_lazy_symbols_are_ready(&found_api))
		return;
	api.PyErr_Fetch(&type, &value, &trace);
	read_torch(out);
	api.PyErr_Restore(type, value, trace);
}

void mt_python_gpu_fork_child(void)
{
	mt_lazy_symbols_fork_child(&found_api);
}
