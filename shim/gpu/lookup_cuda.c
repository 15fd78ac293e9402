/* gpu/lookup_cuda.c -- the driver's own resolver, cuGetProcAddress, in its two ABIs. The driver
 * answers first, to the caller's very arguments; only a pointer of a function that we wrap is then
 * replaced. Its status is left as it is. */
#include "gpu/driver.h"
#include "gpu/entries.h"
#include "gpu/lookup.h"

/* By the address; where the driver hands out another one than its symbol has, by what was asked
 * for. */
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
