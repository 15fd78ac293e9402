#include "gpu/driver.h"

#include <dlfcn.h>
#include <limits.h>

#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/loader.h"
#include "sys/format.h"

#define LIBRARY "libcuda.so.1"

#define X(name, parameters, ...) +1
enum {
	INDEX_COUNT = 0 MT_DRIVER_WRAPPED(X) MT_DRIVER_QUERIES(X),
	ALL_COUNT = INDEX_COUNT MT_DRIVER_CALLED(X)
};
#undef X

/* The members of struct mt_driver, all of one size, as an array. No pointers: those would be
 * relocated at the start of every process. */
#define X(name, parameters, ...) #name,
const char mt_driver_names[ALL_COUNT][MT_DRIVER_NAME_BYTES] = {
	MT_DRIVER_WRAPPED(X) MT_DRIVER_QUERIES(X) MT_DRIVER_CALLED(X)};
#undef X
_Static_assert(sizeof(struct mt_driver) == ALL_COUNT * sizeof(void *),
	       "the table is an array of pointers");

/* Two threads may bind at once. They have the same library, since an open handle keeps it loaded,
 * and store the same pointers. */
static union {
	struct mt_driver table;
	_Atomic(void *) functions[ALL_COUNT];
} binding;
/* release by a thread that has filled the table, acquire by readers */
static _Atomic bool is_bound;
/* mt_loader_load_count() when no libcuda was found; a hint, no ordering */
static _Atomic unsigned long long nothing_at_loads;
static _Atomic bool used, forked; /* flags that only rise, no ordering */
/* this thread is in bind_now(): the loader or the driver has called back */
static MT_TLS bool binds;

/* ---- binding ---- */

/* Opens an object only if it is loaded, under its own name or the path by which it was opened. The
 * handle is never closed, so that the functions stay. The loader is asked only when there is
 * something to find: else it would search the disk. */
static void *open_loaded(void)
{
	char path[PATH_MAX];
	void *handle;

	if (!mt_loader_path(LIBRARY, path, sizeof(path)))
		return NULL;
	handle = dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
	return handle ? handle : dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
}

static bool fill(void *handle)
{
	mt_dlsym_fn find = mt_loader_dlsym();

	for (int i = 0; find && i < ALL_COUNT; i++)
		mt_store_relaxed(&binding.functions[i], find(handle, mt_driver_names[i]));
	return find != NULL;
}

static MT_COLD bool bind_now(void)
{
	unsigned long long loads;
	void *handle;
	bool is_filled;

	if (binds)
		return false;
	loads = mt_loader_load_count();
	if (loads == mt_load_relaxed(&nothing_at_loads))
		return false;
	binds = true;
	handle = open_loaded();
	is_filled = handle && fill(handle);
	if (is_filled)
		mt_store_release(&is_bound, true);
	if (!handle)
		mt_store_relaxed(&nothing_at_loads, loads);
	/* A name that this driver lacks has left a message with the loader; the program may ask for
	 * messages next. */
	(void)dlerror();
	binds = false;
	return is_filled;
}

static bool can_call(void)
{
	mt_lock_check_foreign_call("a driver call");
	return mt_likely(mt_load_acquire(&is_bound)) || bind_now();
}

static void *function(int index)
{
	mt_assert(index >= 0 && index < INDEX_COUNT);
	return mt_load_relaxed(&binding.functions[index]);
}

/* ---- replies ---- */

const struct mt_driver *mt_driver(void)
{
	return can_call() ? &binding.table : NULL;
}

const struct mt_driver *mt_driver_usable(void)
{
	const struct mt_driver *driver;

	if (mt_load_relaxed(&forked))
		return NULL;
	driver = mt_driver();
	/* Read first: every thread comes here, and a cache line that is only read stays shared. */
	if (driver && !mt_load_relaxed(&used))
		mt_store_relaxed(&used, true);
	return driver;
}

int mt_driver_version(void)
{
	const struct mt_driver *driver = mt_load_relaxed(&forked) ? NULL : mt_driver();
	int version = 0;

	return driver && driver->cuDriverGetVersion &&
			       driver->cuDriverGetVersion(&version) == MT_CU_SUCCESS
		       ? version
		       : 0;
}

int mt_driver_wrapped_index(const void *real)
{
	for (int i = 0; real && can_call() && i < INDEX_COUNT; i++)
		if (function(i) == real)
			return i;
	return -1;
}

void *mt_driver_wrapped_real(int index)
{
	return can_call() && index >= 0 && index < INDEX_COUNT ? function(index) : NULL;
}

void mt_driver_read_pci(int device, char out[MT_PCI_BYTES])
{
	static const char hex[] = "0123456789abcdef";
	const struct mt_driver *driver = mt_driver_usable();
	int domain = 0, bus = 0, slot = 0;

	out[0] = '\0';
	if (!driver || !driver->cuDeviceGetAttribute ||
	    driver->cuDeviceGetAttribute(&domain, MT_CU_DEVICE_PCI_DOMAIN_ID, device) !=
		    MT_CU_SUCCESS ||
	    driver->cuDeviceGetAttribute(&bus, MT_CU_DEVICE_PCI_BUS_ID, device) != MT_CU_SUCCESS ||
	    driver->cuDeviceGetAttribute(&slot, MT_CU_DEVICE_PCI_DEVICE_ID, device) !=
		    MT_CU_SUCCESS)
		return;
	(void)mt_format(out, MT_PCI_BYTES, "%c%c%c%c:%c%c:%c%c.0", hex[domain >> 12 & 15],
			hex[domain >> 8 & 15], hex[domain >> 4 & 15], hex[domain & 15],
			hex[bus >> 4 & 15], hex[bus & 15], hex[slot >> 4 & 15], hex[slot & 15]);
}

/* A parent that only loaded the library leaves a child that may use it. */
void mt_driver_fork_child(void)
{
	if (mt_load_relaxed(&used))
		mt_store_relaxed(&forked, true);
	binds = false;
}
