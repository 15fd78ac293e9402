#include "python/python_internal.h"

#include <string.h>

#include "core/services.h"
#include "core/stats_layout.h"
#include "python/cpython.h"

bool mt_python_gpu_find(void)
{
	return mt_cpython_find() && mt_cpython.is_whole;
}

/* As mt_python_gpu_find, without a search. */
static bool is_usable(void)
{
	return mt_cpython_is_found() && mt_cpython.is_whole;
}

/* ---- helpers: each accepts NULL, and returns with no Python error set ---- */

static void *call_method(void *object, const char *name)
{
	void *method = mt_cpython_attribute(object, name);
	void *result =
		method ? mt_cpython_checked(mt_cpython.PyObject_CallObject(method, NULL)) : NULL;

	mt_cpython_release(method);
	return result;
}

static bool call_succeeds(void *object, const char *name)
{
	void *result = call_method(object, name);

	mt_cpython_release(result);
	return result != NULL;
}

/* Returns whether the object is true; false if it has no truth value. Releases the reference. */
static bool is_true(void *object)
{
	int result = object ? mt_cpython.PyObject_IsTrue(object) : 0;

	if (result < 0)
		mt_cpython_clear_error();
	mt_cpython_release(object);
	return result > 0;
}

static bool is_text(void *object, const char *text)
{
	const char *seen = object ? mt_cpython.PyUnicode_AsUTF8(object) : NULL;
	bool result = seen && strcmp(seen, text) == 0;

	if (!seen)
		mt_cpython_clear_error();
	mt_cpython_release(object);
	return result;
}

/* Returns whether the method returns a false value; false if it fails or is missing. */
static bool returns_false(void *object, const char *name)
{
	void *result = call_method(object, name);

	return result && !is_true(result);
}

/* Returns whether the object is a loaded module. The placeholder of a lazy loader has another type;
 * reading an attribute of it would import the module. */
static bool is_plain_module(void *object)
{
	void *type = mt_cpython_checked(mt_cpython.PyObject_Type(object));
	bool result = type == mt_cpython.PyModule_Type;

	mt_cpython_release(type);
	return result;
}

/* Returns whether the module is being imported: then it is incomplete, and its locks may be held.
 */
static bool is_initializing(void *module)
{
	void *dict = mt_cpython_checked(mt_cpython.PyModule_GetDict(module));
	void *spec =
		dict ? mt_cpython_checked(mt_cpython.PyDict_GetItemString(dict, "__spec__")) : NULL;

	return is_true(mt_cpython_attribute(spec, "_initializing"));
}

/* Returns a new reference to a complete module in sys.modules, or NULL. */
static void *find_module(const char *name)
{
	void *modules = mt_cpython.PyImport_GetModuleDict();
	void *module = modules ? mt_cpython.PyDict_GetItemString(modules, name) : NULL;

	if (!module) {
		mt_cpython_clear_error();
		return NULL;
	}
	mt_cpython.Py_IncRef(module);
	/* The entry is None for a module that must not be imported. */
	if (is_plain_module(module) && !is_initializing(module))
		return module;
	mt_cpython_release(module);
	return NULL;
}

/* ---- PyTorch ---- */

/* Returns torch.cuda if CUDA is initialised and no capture is open on the thread's stream, else
 * NULL. */
static void *find_torch(void)
{
	void *torch = find_module("torch");
	void *cuda = torch ? find_module("torch.cuda") : NULL;

	mt_cpython_release(torch);
	if (cuda && is_true(call_method(cuda, "is_initialized")) &&
	    returns_false(cuda, "is_current_stream_capturing"))
		return cuda;
	mt_cpython_release(cuda);
	return NULL;
}

static bool empty_torch(void)
{
	void *cuda = find_torch();
	bool done = cuda && call_succeeds(cuda, "empty_cache");

	mt_cpython_release(cuda);
	return done;
}

static bool has(void *object, const char *name)
{
	void *value = mt_cpython_attribute(object, name);

	mt_cpython_release(value);
	return value != NULL;
}

/* Returns whether PyTorch's accelerator is CUDA. For another one empty_host_cache may crash (MPS in
 * PyTorch 2.13, pytorch#197561). */
static bool is_cuda_the_accelerator(void *accelerator)
{
	void *device = call_method(accelerator, "current_accelerator");
	bool result = is_text(mt_cpython_attribute(device, "type"), "cuda");

	mt_cpython_release(device);
	return result;
}

/* Empties PyTorch's cache of page-locked host memory: by the public function if there is one,
 * else by the binding, which builds with CUDA have since 2.5. CUDA is initialised. */
static void empty_torch_host(void)
{
	void *accelerator = find_module("torch.accelerator");
	void *binding = find_module("torch._C");

	if (has(accelerator, "empty_host_cache")) {
		if (is_cuda_the_accelerator(accelerator))
			(void)call_succeeds(accelerator, "empty_host_cache");
	} else if (has(binding, "_host_emptyCache")) {
		(void)call_succeeds(binding, "_host_emptyCache");
	}
	mt_cpython_release(binding);
	mt_cpython_release(accelerator);
}

/* Empties the caches of device memory and (host_too) of page-locked host memory. Returns whether
 * the first was emptied. */
static bool empty_torch_both(bool host_too)
{
	bool done = empty_torch();

	/* cuMemFreeHost would break a capture that another thread has begun meanwhile. */
	if (done && host_too && !mt_devices_are_capturing())
		empty_torch_host();
	return done;
}

static uint64_t read_number(void *object, const char *method_name, int device)
{
	void *method = mt_cpython_attribute(object, method_name);
	void *number =
		method ? mt_cpython_checked(mt_cpython.PyObject_CallFunction(method, "i", device))
		       : NULL;
	unsigned long long value = number ? mt_cpython.PyLong_AsUnsignedLongLong(number) : 0;

	if (mt_cpython.PyErr_Occurred()) {
		mt_cpython_clear_error();
		value = 0;
	}
	mt_cpython_release(number);
	mt_cpython_release(method);
	return value;
}

static void read_torch(struct mt_python_gpu_figures *out)
{
	void *cuda = find_torch();
	void *count = call_method(cuda, "device_count");
	unsigned long long devices = count ? mt_cpython.PyLong_AsUnsignedLongLong(count) : 0;

	if (mt_cpython.PyErr_Occurred()) {
		mt_cpython_clear_error();
		devices = 0;
	}
	out->count = devices < MT_PYTHON_GPU_DEVICES ? (int)devices : MT_PYTHON_GPU_DEVICES;
	for (int i = 0; i < out->count; i++) {
		out->devices[i].reserved_bytes = read_number(cuda, "memory_reserved", i);
		out->devices[i].allocated_bytes = read_number(cuda, "memory_allocated", i);
	}
	mt_cpython_release(count);
	mt_cpython_release(cuda);
}

/* ---- CuPy, pyarrow ---- */

static bool empty_pool(void *module, const char *getter, const char *method)
{
	void *pool = call_method(module, getter);
	bool done = pool && call_succeeds(pool, method);

	mt_cpython_release(pool);
	return done;
}

/* The pools ask the runtime for the current device, which initialises CUDA. */
static bool empty_cupy(bool host_too)
{
	void *cupy = find_module("cupy");
	bool done = cupy && empty_pool(cupy, "get_default_memory_pool", "free_all_blocks");

	if (cupy && host_too)
		(void)empty_pool(cupy, "get_default_pinned_memory_pool", "free_all_blocks");
	mt_cpython_release(cupy);
	return done;
}

/* Memory of the host, from the jemalloc or mimalloc in libarrow. */
static void empty_arrow(void)
{
	void *arrow = find_module("pyarrow");

	if (arrow)
		(void)empty_pool(arrow, "default_memory_pool", "release_unused");
	mt_cpython_release(arrow);
}

/* ---- Numba ---- */

#define NUMBA_DRIVER "numba.cuda.cudadrv.driver"

static bool clear_deallocations(void *owner)
{
	void *pending = mt_cpython_attribute(owner, "deallocations");
	bool done = pending && call_succeeds(pending, "clear");

	mt_cpython_release(pending);
	return done;
}

/* Empties the queues of pending deallocations in all existing contexts; current_context() would
 * make one. Arrays are queued in the memory manager, streams and events in the context. Numba drops
 * an entry whose free fails, and so leaks its memory. So this needs a context on this thread,
 * without which the driver refuses every free. */
static bool empty_numba(bool host_too)
{
	(void)host_too;
	if (!mt_devices_have_context())
		return false;

	void *module = find_module(NUMBA_DRIVER);
	void *driver = mt_cpython_attribute(module, "driver");
	void *devices = mt_cpython_attribute(driver, "devices");
	void *list = devices ? mt_cpython_checked(mt_cpython.PyDict_Values(devices)) : NULL;
	intptr_t count = list ? mt_cpython.PyList_Size(list) : 0;
	bool done = false;

	for (intptr_t i = 0; i < count; i++) {
		void *context =
			mt_cpython_attribute(mt_cpython.PyList_GetItem(list, i), "primary_context");
		void *manager = mt_cpython_attribute(context, "memory_manager");

		done |= clear_deallocations(manager);
		done |= clear_deallocations(context);
		mt_cpython_release(manager);
		mt_cpython_release(context);
	}
	mt_cpython_release(list);
	mt_cpython_release(devices);
	mt_cpython_release(driver);
	mt_cpython_release(module);
	return done;
}

/* ---- the collector ---- */

/* Reads gc.get_threshold(). A program that has not imported gc has not set its thresholds. */
static bool is_first_threshold_zero(void)
{
	void *gc = find_module("gc");
	void *thresholds = call_method(gc, "get_threshold");
	void *first =
		thresholds ? mt_cpython_checked(mt_cpython.PyTuple_GetItem(thresholds, 0)) : NULL;
	int is_other = first ? mt_cpython.PyObject_IsTrue(first) : 1;

	if (is_other < 0)
		mt_cpython_clear_error();
	mt_cpython_release(thresholds);
	mt_cpython_release(gc);
	return is_other == 0;
}

/* ---- public functions ---- */

static const struct framework {
	enum mt_framework_bit bit;
	const char *module;
	bool (*empty)(bool host_too);
} frameworks[] = {
	{MT_FRAMEWORK_TORCH, "torch", empty_torch_both},
	{MT_FRAMEWORK_CUPY, "cupy", empty_cupy},
	{MT_FRAMEWORK_NUMBA, NUMBA_DRIVER, empty_numba},
};

static bool is_imported(const char *name)
{
	void *module = find_module(name);

	mt_cpython_release(module);
	return module != NULL;
}

/* Tests for a capture before each framework: the pending call runs some time after it was queued,
 * and the code of one framework may run code of the program. */
static void empty_one(const struct framework *framework, bool host_too, uint32_t *done,
		      uint32_t *skipped)
{
	if (mt_devices_are_capturing())
		*skipped |= is_imported(framework->module) ? framework->bit : 0u;
	else
		*done |= framework->empty(host_too) ? framework->bit : 0u;
}

uint32_t mt_python_gpu_empty(bool cuda_used, bool host_too, uint32_t *out_skipped)
{
	void *type, *value, *trace;
	uint32_t done = 0;
	uint32_t skipped = 0;

	*out_skipped = 0;
	if (!is_usable())
		return 0;
	mt_cpython.PyErr_Fetch(&type, &value, &trace);
	for (size_t i = 0; i < sizeof(frameworks) / sizeof(frameworks[0]); i++)
		if (cuda_used || frameworks[i].bit != MT_FRAMEWORK_CUPY)
			empty_one(&frameworks[i], host_too, &done, &skipped);
	if (host_too)
		empty_arrow();
	mt_cpython.PyErr_Restore(type, value, trace);
	*out_skipped = skipped;
	return done;
}

bool mt_python_gpu_empty_torch(void)
{
	void *type, *value, *trace;
	bool done;

	if (!is_usable() || mt_devices_are_capturing())
		return false;
	mt_cpython.PyErr_Fetch(&type, &value, &trace);
	done = empty_torch();
	mt_cpython.PyErr_Restore(type, value, trace);
	return done;
}

bool mt_python_gpu_is_gc_off(void)
{
	void *type, *value, *trace;
	bool is_off;

	if (!mt_python_gpu_find())
		return false;
	mt_cpython.PyErr_Fetch(&type, &value, &trace);
	is_off = is_first_threshold_zero();
	mt_cpython.PyErr_Restore(type, value, trace);
	return is_off;
}

void mt_python_gpu_read(struct mt_python_gpu_figures *out)
{
	void *type, *value, *trace;

	memset(out, 0, sizeof(*out));
	if (!is_usable())
		return;
	mt_cpython.PyErr_Fetch(&type, &value, &trace);
	read_torch(out);
	mt_cpython.PyErr_Restore(type, value, trace);
}
