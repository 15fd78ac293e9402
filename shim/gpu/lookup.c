#include "gpu/lookup.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "sys/attr.h"
#include "core/config.h"
#include "gpu/driver.h"
#include "sys/loader.h"

#pragma GCC visibility push(hidden)
#include "core/init.h"
#pragma GCC visibility pop

/* The newest version whose names we know. */
#define NEWEST_VERSION 13050

#define X(name, parameters, version, ...) version,
static const unsigned short versions[] = {MT_DRIVER_WRAPPED(X) MT_DRIVER_QUERIES(X)};
#undef X
#define SYMBOL_COUNT ((int)(sizeof(versions) / sizeof(versions[0])))

/* lookup_stubs.S: a jump of this size for each index, in order. */
#define STUB_BYTES 16
extern const char mt_lookup_stubs[] __attribute__((visibility("hidden")));

/* Returns false with MT_CUDA=off, and where the shim does nothing in this process: every reply
 * stays the driver's own. */
static bool is_on(void)
{
	/* A caller before our start gets a wrapper, which then finds out whether it has anything to
	 * do. So it comes if another malloc is bound before ours and a library's constructor
	 * looks up the driver. */
	return !mt_state_has_started() || (mt_state_is_on() && mt_config()->cuda != MT_CUDA_OFF);
}

/* No function of libc is called here: dlsym may come this early. */
int mt_lookup_index(const char *symbol)
{
	for (int i = 0; i < SYMBOL_COUNT; i++)
		if (mt_loader_is_same(mt_driver_names[i], symbol))
			return i;
	return -1;
}

void *mt_lookup_entry(int index)
{
	mt_assert(index >= 0 && index < SYMBOL_COUNT);
	return (void *)(uintptr_t)(mt_lookup_stubs + (size_t)index * STUB_BYTES);
}

/* Returns the exported wrapper for a pointer of the driver that was asked for as the symbol at
 * index (-1: another name); NULL: the pointer is no function that we wrap. */
static void *wrapper_of(const void *real, int index)
{
	int found = mt_driver_wrapped_index(real);

	if (found < 0)
		/* not of the libcuda that we know: another copy, an interposer, a name that it
		 * lacks */
		return NULL;
	/* Two names may share an address: the one that was asked for is right. */
	if (index >= 0 && mt_driver_wrapped_real(index) == real)
		found = index;
	return mt_lookup_entry(found);
}

/* Returns whether the symbol is NAME, NAME_vN, or the twin of one for the per-thread default
 * stream. */
static bool means(const char *symbol, const char *name, bool *out_per_thread)
{
	size_t length = strlen(name);
	const char *suffix = symbol + length;

	if (strcmp(symbol, "cuGraphInstantiateWithFlags") == 0) /* from 12.0 on */
		return !(*out_per_thread = false) && strcmp(name, "cuGraphInstantiate") == 0;
	if (strncmp(symbol, name, length) != 0)
		return false;
	if (suffix[0] == '_' && suffix[1] == 'v' && suffix[2] >= '2' && suffix[2] <= '9')
		suffix += 3;
	*out_per_thread = strcmp(suffix, "_ptsz") == 0 || strcmp(suffix, "_ptds") == 0;
	return !*suffix || *out_per_thread;
}

/* Returns the index of the symbol that cuGetProcAddress means by a name without suffix, a version
 * and flags; -1: none, or a version newer than the table. */
static int index_of_version(const char *name, int version, unsigned long long flags)
{
	const bool per_thread = flags & 2; /* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */
	bool is_best_twin = false, is_one;
	int best = -1;

	for (int i = 0; version <= NEWEST_VERSION && i < SYMBOL_COUNT; i++) {
		if (versions[i] > version || !means(mt_driver_names[i], name, &is_one) ||
		    (is_one && !per_thread))
			continue;
		/* Most names have no twin; if there is one, it precedes the version. */
		if (best >= 0 && (is_one < is_best_twin ||
				  (is_one == is_best_twin && versions[i] <= versions[best])))
			continue;
		best = i;
		is_best_twin = is_one;
	}
	return best;
}

/* ---- dlsym ---- */

/* RTLD_DEFAULT is the global scope and then that of the caller: a library opened with RTLD_LOCAL
 * sees the libcuda among its own dependencies. The second part would be ours if asked from here; a
 * handle to the caller gives it. */
static void *look_up_in_scope_of(const void *caller, const char *name, const char *version)
{
	Dl_info info;
	void *handle;
	void *found;

	if (!mt_driver() || !dladdr(caller, &info) || !info.dli_fname)
		return NULL;
	handle = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (!handle)
		return NULL;
	found = mt_loader_look_up(handle, name, version);
	(void)dlclose(handle);
	return found;
}

/* If there is nothing to replace, the real dlsym replies to its caller: so the message of a
 * failure names the caller. */
void *mt_dlsym_replace_driver(void *handle, const char *name, const char *version,
			      const void *caller)
{
	int index = mt_lookup_index(name);
	void *real, *wrapper;
	int kept_errno;

	if (index < 0 || !is_on())
		return NULL;
	kept_errno = errno;
	real = mt_loader_look_up(handle, name, version);
	if (!real && handle == RTLD_DEFAULT)
		real = look_up_in_scope_of(caller, name, version);
	wrapper = wrapper_of(real, index);
	errno = kept_errno;
	return wrapper;
}

/* ---- cuGetProcAddress: the driver's own resolver, in two ABIs. The driver replies first, to the
 * caller's own arguments; only the pointer of a function that we wrap is then replaced. Its status
 * stays. ---- */

/* By the address; if the driver gives another address than that of its symbol, by name and
 * version. */
static void replace(const char *symbol, void **out, int version, uint64_t flags)
{
	void *wrapper;
	int index;

	if (!is_on() || !symbol || !out || !*out)
		return;
	index = index_of_version(symbol, version, flags);
	wrapper = wrapper_of(*out, index);
	if (!wrapper && index >= 0 && mt_driver_wrapped_real(index))
		wrapper = mt_lookup_entry(index);
	if (wrapper)
		*out = wrapper;
}

#define X(name, parameters, since, ...)                                                            \
	int name parameters                                                                        \
	{                                                                                          \
		const struct mt_driver *driver = mt_driver();                                      \
		int result;                                                                        \
                                                                                                   \
		if (!driver || !driver->name)                                                      \
			return MT_CU_NOT_INITIALIZED;                                              \
		result = driver->name(__VA_ARGS__);                                                \
		if (result == MT_CU_SUCCESS)                                                       \
			replace(symbol, out, version, flags);                                      \
		return result;                                                                     \
	}
MT_DRIVER_QUERIES(X)
#undef X
