
#include "gpu/lookup.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "sys/attr.h"
#include "core/config.h"
#include "gpu/driver.h"
#include "gpu/entries.h"
#include "sys/elf.h"
#include "gpu/lookup_versions.def"

#pragma GCC visibility push(hidden)
#include "core/init.h"
#pragma GCC visibility pop

#define NAME_BYTES 40

/* No pointers: those would be relocated at the start of every process. */
#define X(name, parameters, ...) {sizeof(#name) - 1, #name},
static const struct {
	unsigned char length;
	char text[NAME_BYTES];
} symbols[] = {MT_DRIVER_WRAPPED(X) MT_DRIVER_QUERIES(X)};
#undef X
#define SYMBOL_COUNT ((int)(sizeof(symbols) / sizeof(symbols[0])))

/* lookup_stubs.S: a jump of this size for each index, in order. */
#define STUB_BYTES 16
extern const char mt_lookup_stubs[] __attribute__((visibility("hidden")));

bool mt_lookup_is_on(void)
{
	/* A caller before our start gets a wrapper, which then finds out whether it has anything to
	 * do. So it comes where another malloc is bound before ours and a library's constructor
	 * looks up the driver. */
	return !mt_state_has_started() || (mt_state_is_on() && mt_config()->cuda != MT_CUDA_OFF);
}

/* No function of libc is called here: dlsym may come this early. */
static bool is_same(const char *one, const char *other, size_t length)
{
	while (length && *one == *other) {
		one++;
		other++;
		length--;
	}
	return length == 0;
}

int mt_lookup_index(const char *symbol)
{
	size_t length = 0;

	while (length < NAME_BYTES && symbol[length])
		length++;
	for (int i = 0; i < SYMBOL_COUNT; i++)
		if (symbols[i].length == length && is_same(symbols[i].text, symbol, length))
			return i;
	return -1;
}

void *mt_lookup_entry(int index)
{
	return (void *)(uintptr_t)(mt_lookup_stubs + (size_t)index * STUB_BYTES);
}

void *mt_lookup_wrapper(const void *real, int index)
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

int mt_lookup_index_of_version(const char *name, int version, unsigned long long flags)
{
	static const struct {
		char symbol[NAME_BYTES];
		char name[NAME_BYTES];
		bool per_thread;
		int version;
	} rows[] = {
#define X(symbol, name, per_thread, version) {#symbol, name, per_thread, version},
		MT_LOOKUP_VERSIONS(X)
#undef X
	};
	const bool per_thread = flags & 2; /* CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM */
	const size_t count = sizeof(rows) / sizeof(rows[0]);
	size_t best = count;

	for (size_t i = 0; version <= MT_LOOKUP_NEWEST_VERSION && i < count; i++) {
		if (strcmp(rows[i].name, name) != 0 || rows[i].version > version ||
		    (rows[i].per_thread && !per_thread))
			continue;
		/* Most names have no twin for the per-thread stream; where there is one, it
		 * precedes the version. */
		if (best == count || rows[i].per_thread > rows[best].per_thread ||
		    (rows[i].per_thread == rows[best].per_thread &&
		     rows[i].version > rows[best].version))
			best = i;
	}
	return best < count ? mt_lookup_index(rows[best].symbol) : -1;
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
	found = mt_elf_look_up(handle, name, version);
	(void)dlclose(handle);
	return found;
}

/* Where there is nothing to replace, the real dlsym replies to its caller: so the message of a
 * failure names the caller. */
static MT_COLD void *find_wrapper(void *handle, const char *name, const char *version,
				  const void *caller, int index)
{
	void *real = mt_elf_look_up(handle, name, version);

	if (!real && handle == RTLD_DEFAULT)
		real = look_up_in_scope_of(caller, name, version);
	return real ? mt_lookup_wrapper(real, index) : NULL;
}

void *mt_dlsym_replace_driver(void *handle, const char *name, const char *version,
			      const void *caller)
{
	int index = mt_lookup_index(name);
	void *result;
	int kept_errno;

	if (index < 0 || !mt_lookup_is_on())
		return NULL;
	kept_errno = errno;
	result = find_wrapper(handle, name, version, caller, index);
	errno = kept_errno;
	return result;
}

/* ---- cuGetProcAddress: the driver's own resolver, in two ABIs. The driver replies first, to the
 * caller's own arguments; only the pointer of a function that we wrap is then replaced. Its status
 * stays. ---- */

/* By the address; where the driver gives another address than that of its symbol, by name and
 * version. */
static void replace(const char *symbol, void **out, int version, uint64_t flags)
{
	void *wrapper;
	int index;

	if (!mt_lookup_is_on() || !symbol || !out || !*out)
		return;
	index = mt_lookup_index_of_version(symbol, version, flags);
	wrapper = mt_lookup_wrapper(*out, index);
	if (!wrapper && index >= 0 && mt_driver_wrapped_real(index))
		wrapper = mt_lookup_entry(index);
	if (wrapper)
		*out = wrapper;
}

int cuGetProcAddress(const char *symbol, void **out, int version, uint64_t flags)
{
	const struct mt_driver *driver = mt_driver();
	int result;

	if (!driver || !driver->cuGetProcAddress)
		return MT_CU_NOT_INITIALIZED;
	result = driver->cuGetProcAddress(symbol, out, version, flags);
	if (result == MT_CU_SUCCESS)
		replace(symbol, out, version, flags);
	return result;
}

int cuGetProcAddress_v2(const char *symbol, void **out, int version, uint64_t flags, int *status)
{
	const struct mt_driver *driver = mt_driver();
	int result;

	if (!driver || !driver->cuGetProcAddress_v2)
		return MT_CU_NOT_INITIALIZED;
	result = driver->cuGetProcAddress_v2(symbol, out, version, flags, status);
	if (result == MT_CU_SUCCESS)
		replace(symbol, out, version, flags);
	return result;
}
