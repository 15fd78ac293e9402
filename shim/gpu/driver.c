
#include "gpu/driver.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "sys/attr.h"
#include "sys/elf.h"
#include "sys/format.h"
#include "sys/lock.h"

#define LIBRARY "libcuda.so.1"

#define X(name, parameters, ...) +1
enum {
	WRAPPED_COUNT = 0 MT_DRIVER_WRAPPED(X),
	FUNCTION_COUNT = 0 MT_DRIVER_FUNCTIONS(X),
	QUERY_COUNT = 0 MT_DRIVER_QUERIES(X),
	ALL_COUNT = FUNCTION_COUNT + QUERY_COUNT,
	INDEX_COUNT = WRAPPED_COUNT + QUERY_COUNT
};
#undef X

/* The members of struct mt_driver, all of one size, as an array. No pointers: those would be
 * relocated at the start of every process. */
#define X(name, parameters, ...) #name,
static const char names[ALL_COUNT][56] = {MT_DRIVER_FUNCTIONS(X) MT_DRIVER_QUERIES(X)};
#undef X
_Static_assert(sizeof(struct mt_driver) == ALL_COUNT * sizeof(void *),
	       "the table is an array of pointers");

/* One binding: complete before it is published, never changed and never freed after. */
union binding {
	struct mt_driver table;
	void *functions[ALL_COUNT];
};

/* release by the thread that publishes, acquire by readers */
static _Atomic(union binding *) bound;
/* mt_elf_load_count() when no libcuda was found; a hint, no ordering */
static _Atomic unsigned long long nothing_at_loads;
static _Atomic int version;
static _Atomic bool used, forked, deinitialized; /* flags that only rise, no ordering */
/* this thread is in bind_now(): the loader or the driver has called back */
static MT_TLS bool binds;

/* ---- binding ---- */

static int place_of(int index)
{
	mt_assert(index >= 0 && index < INDEX_COUNT);
	return index < WRAPPED_COUNT ? index : FUNCTION_COUNT + index - WRAPPED_COUNT;
}

/* Opens an object only if it is loaded, under its own name or the path by which it was opened. The
 * handle is never closed, so that the functions stay. The loader is asked only when there is
 * something to find: else it would search the disk. */
static void *open_loaded(void)
{
	char path[PATH_MAX];
	void *handle;

	if (!mt_elf_path(LIBRARY, path, sizeof(path)))
		return NULL;
	handle = dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
	return handle ? handle : dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
}

/* If the kernel has no more pages the program must still reach its driver: the first thread gets
 * this one. */
static union binding spare;
static atomic_flag is_spare_taken = ATOMIC_FLAG_INIT;

static union binding *room_for_binding(void)
{
	void *area = mmap(NULL, sizeof(union binding), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area != MAP_FAILED)
		return area;
	return atomic_flag_test_and_set(&is_spare_taken) ? NULL : &spare;
}

static union binding *make_binding(void *handle)
{
	mt_dlsym_fn find = mt_elf_dlsym();
	union binding *made = find ? room_for_binding() : NULL;

	if (!made)
		return NULL;
	for (int i = 0; i < ALL_COUNT; i++)
		made->functions[i] = find(handle, names[i]);
	return made;
}

/* Two threads may both come here: their bindings are equal, and the second thread unmaps its own.
 */
static union binding *publish(union binding *made)
{
	union binding *other = NULL;

	if (atomic_compare_exchange_strong_explicit(&bound, &other, made, memory_order_acq_rel,
						    memory_order_acquire))
		return made;
	if (made != &spare)
		(void)munmap(made, sizeof(*made));
	return other;
}

static MT_COLD union binding *bind_now(void)
{
	unsigned long long loads;
	union binding *made;
	void *handle;

	if (binds)
		return NULL;
	loads = mt_elf_load_count();
	if (loads == atomic_load_explicit(&nothing_at_loads, memory_order_relaxed))
		return NULL;
	binds = true;
	handle = open_loaded();
	made = handle ? make_binding(handle) : NULL;
	if (!handle)
		atomic_store_explicit(&nothing_at_loads, loads, memory_order_relaxed);
	/* A name that this driver lacks has left a message with the loader; the program may ask for
	 * messages next. */
	(void)dlerror();
	binds = false;
	return made ? publish(made) : NULL;
}

static union binding *binding(void)
{
	union binding *now = atomic_load_explicit(&bound, memory_order_acquire);

	mt_lock_check_foreign_call("a driver call");
	return mt_likely(now) ? now : bind_now();
}

/* ---- replies ---- */

const struct mt_driver *mt_driver(void)
{
	const union binding *now = binding();

	return now ? &now->table : NULL;
}

const struct mt_driver *mt_driver_usable(void)
{
	const struct mt_driver *driver;

	if (atomic_load_explicit(&forked, memory_order_relaxed) ||
	    atomic_load_explicit(&deinitialized, memory_order_relaxed))
		return NULL;
	driver = mt_driver();
	/* Read first: every thread comes here, and a cache line that is only read stays shared. */
	if (driver && !atomic_load_explicit(&used, memory_order_relaxed))
		atomic_store_explicit(&used, true, memory_order_relaxed);
	return driver;
}

int mt_driver_version(void)
{
	int known = atomic_load_explicit(&version, memory_order_relaxed);
	const struct mt_driver *driver;

	if (known)
		return known;
	driver = atomic_load_explicit(&forked, memory_order_relaxed) ? NULL : mt_driver();
	if (!driver || !driver->cuDriverGetVersion ||
	    driver->cuDriverGetVersion(&known) != MT_CU_SUCCESS)
		return 0;
	atomic_store_explicit(&version, known, memory_order_relaxed);
	return known;
}

int mt_driver_wrapped_index(const void *real)
{
	const union binding *now = real ? binding() : NULL;

	if (!now)
		return -1;
	for (int i = 0; i < INDEX_COUNT; i++)
		if (now->functions[place_of(i)] == real)
			return i;
	return -1;
}

void *mt_driver_wrapped_real(int index)
{
	const union binding *now = binding();

	return now && index >= 0 && index < INDEX_COUNT ? now->functions[place_of(index)] : NULL;
}

void mt_driver_note(int result)
{
	if (mt_unlikely(result == MT_CU_DEINITIALIZED))
		atomic_store_explicit(&deinitialized, true, memory_order_relaxed);
}

/* A parent that only loaded the library leaves a child that may use it. */
void mt_driver_fork_child(void)
{
	if (atomic_load_explicit(&used, memory_order_relaxed))
		atomic_store_explicit(&forked, true, memory_order_relaxed);
	binds = false;
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
