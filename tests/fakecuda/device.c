/* device.c -- devices: all alike, an invented model of compute capability 8.0. */
#include <stdio.h>
#include <string.h>

#include "internal.h"

int cuDeviceGetCount(int *count)
{
	const int result = fake_enter(FN_cuDeviceGetCount, NULL);

	if (result != OK)
		return result;
	if (count == NULL)
		return fake_leave(INVALID_VALUE);
	*count = fake_settings.devices;
	return fake_leave(OK);
}

int cuDeviceGet(int *device, int ordinal)
{
	const int result = fake_enter(FN_cuDeviceGet, NULL);

	if (result != OK)
		return result;
	if (device == NULL)
		return fake_leave(INVALID_VALUE);
	if (!fake_device_is(ordinal))
		return fake_leave(INVALID_DEVICE);
	*device = ordinal;
	return fake_leave(OK);
}

/* Enters, and checks what all of the questions about a device have in common. */
static int ask(enum fake_fn fn, const void *out, int device)
{
	const int result = fake_enter(fn, NULL);

	if (result != OK)
		return result;
	if (out != NULL && fake_device_is(device))
		return OK;
	return fake_leave(out == NULL ? INVALID_VALUE : INVALID_DEVICE);
}

int cuDeviceGetName(char *name, int bytes, int device)
{
	const int result = ask(FN_cuDeviceGetName, name, device);

	if (result != OK)
		return result;
	if (bytes <= 0)
		return fake_leave(INVALID_VALUE);
	snprintf(name, (size_t)bytes, "Fake GPU %d", device);
	return fake_leave(OK);
}

static int get_uuid(enum fake_fn fn, struct fake_uuid *uuid, int device)
{
	const int result = ask(fn, uuid, device);

	if (result != OK)
		return result;
	memcpy(uuid->bytes, "fakecuda-device", sizeof(uuid->bytes));
	uuid->bytes[15] = (char)device;
	return fake_leave(OK);
}

int cuDeviceGetUuid(struct fake_uuid *uuid, int device)
{
	return get_uuid(FN_cuDeviceGetUuid, uuid, device);
}

int cuDeviceGetUuid_v2(struct fake_uuid *uuid, int device)
{
	return get_uuid(FN_cuDeviceGetUuid_v2, uuid, device);
}

int cuDeviceTotalMem(unsigned int *bytes, int device)
{
	const int result = ask(FN_cuDeviceTotalMem, bytes, device);

	if (result != OK)
		return result;
	*bytes = fake_settings.memory_bytes > UINT32_MAX ? UINT32_MAX
							 : (unsigned int)fake_settings.memory_bytes;
	return fake_leave(OK);
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
	const int result = ask(FN_cuDeviceTotalMem_v2, bytes, device);

	if (result != OK)
		return result;
	*bytes = fake_settings.memory_bytes;
	return fake_leave(OK);
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	/* Number of the attribute, what every device answers. */
	static const int answers[][2] = {
		{1, 1024},        {2, 1024},   {3, 1024},     {4, 64},       {5, 2147483647},
		{6, 65535},       {7, 65535},  {8, 49152},    {9, 65536},    {10, 32},
		{11, 2147483647}, {12, 65536}, {13, 1410000}, {14, 512},     {15, 1},
		{16, 108},        {17, 0},     {18, 0},       {19, 1},       {20, 0},
		{31, 1},          {34, 0},     {35, 0},       {36, 1215000}, {37, 5120},
		{38, 41943040},   {39, 2048},  {40, 3},       {41, 1},       {50, 0},
		{75, 8},          {76, 0},     {78, 1},       {81, 167936},  {82, 65536},
		{83, 1},          {84, 0},     {89, 1},       {95, 1},       {97, 166912},
		{102, 1},         {103, 1},    {115, 1},      {116, 1},      {119, 1},
		{132, 0},
	};
	const int result = ask(FN_cuDeviceGetAttribute, value, device);
	size_t i;

	if (result != OK)
		return result;
	if (attribute <= 0 || attribute > 200)
		return fake_leave(INVALID_VALUE);
	/* its PCI bus; what is not listed it does not have */
	*value = attribute == 33 ? device + 1 : 0;
	for (i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
		if (answers[i][0] == attribute)
			*value = answers[i][1];
	return fake_leave(OK);
}

int cuDeviceComputeCapability(int *major, int *minor, int device)
{
	const int result = ask(FN_cuDeviceComputeCapability, major && minor ? major : NULL, device);

	if (result != OK)
		return result;
	*major = 8;
	*minor = 0;
	return fake_leave(OK);
}

int cuDeviceGetPCIBusId(char *text, int bytes, int device)
{
	const int result = ask(FN_cuDeviceGetPCIBusId, text, device);

	if (result != OK)
		return result;
	if (bytes < 13)
		return fake_leave(INVALID_VALUE);
	snprintf(text, (size_t)bytes, "0000:%02x:00.0", device + 1);
	return fake_leave(OK);
}

int cuDeviceGetByPCIBusId(int *device, const char *text)
{
	const int result = fake_enter(FN_cuDeviceGetByPCIBusId, NULL);
	unsigned int domain, bus, slot;

	if (result != OK)
		return result;
	if (device == NULL || text == NULL || sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3)
		return fake_leave(INVALID_VALUE);
	if (domain != 0 || slot != 0 || !fake_device_is((int)bus - 1))
		return fake_leave(INVALID_DEVICE);
	*device = (int)bus - 1;
	return fake_leave(OK);
}
