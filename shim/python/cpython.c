#include "python/cpython.h"

#include <string.h>

#include "sys/atomic.h"
#include "sys/loader.h"
#include "sys/lock.h"
#include "sys/os.h"

struct mt_cpython mt_cpython;

static struct mt_lock lock = MT_LOCK(python); /* writes of the table */
static _Atomic bool is_found;                 /* release after them; readers acquire */

static void *find(const char *name)
{
	return mt_loader_symbol_beside("Py_IsInitialized", name);
}

static void *either(const char *name, const char *other)
{
	void *found = find(name);

	return found ? found : find(other);
}

static bool find_core(struct mt_cpython *out)
{
#define X(type, name, parameters)                                                                  \
	if (!(*(void **)(void *)&out->name = find(#name)))                                         \
		return false;
	MT_CPYTHON_CORE(X)
#undef X
	return true;
}

static void find_rest(struct mt_cpython *out)
{
	bool is_whole = true;

#define X(type, name, parameters) *(void **)(void *)&out->name = find(#name);
	MT_CPYTHON_SOME(X)
#undef X
#define X(type, name, parameters)                                                                  \
	is_whole = (*(void **)(void *)&out->name = find(#name)) && is_whole;
	MT_CPYTHON_REST(X)
#undef X
#define X(type, name) is_whole = (out->name = find(#name)) && is_whole;
	MT_CPYTHON_OBJECTS(X)
#undef X
	*(void **)(void *)&out->Py_IsFinalizing = either("Py_IsFinalizing", "_Py_IsFinalizing");
	*(void **)(void *)&out->Py_GetAllocatedBlocks =
		either("_Py_GetAllocatedBlocks", "_Py_GetGlobalAllocatedBlocks");
	out->Py_Version = find("Py_Version");
	out->is_whole = is_whole;
}

bool mt_cpython_is_found(void)
{
	return mt_load_acquire(&is_found);
}

/* The search runs under no lock: it calls the loader. */
bool mt_cpython_find(void)
{
	struct mt_cpython fresh;

	if (mt_cpython_is_found())
		return true;
	if (!find_core(&fresh))
		return false;
	find_rest(&fresh);
	mt_lock_lock(&lock);
	if (!mt_load_relaxed(&is_found))
		mt_cpython = fresh;
	mt_store_release(&is_found, true);
	mt_lock_unlock(&lock);
	return true;
}

/* Py_GetVersion() of 3.11 and later is empty while another thread calls it for the first time. */
unsigned mt_cpython_minor(void)
{
	const char *text;

	if (mt_cpython.Py_Version)
		return *mt_cpython.Py_Version >> 24 == 3 ? *mt_cpython.Py_Version >> 16 & 0xff : 0;
	text = mt_cpython.is_whole ? mt_cpython.Py_GetVersion() : "";
	return strncmp(text, "3.", 2) == 0 ? (unsigned)mt_os_parse_number(text + 2) : 0;
}

/* ---- helpers ---- */

void mt_cpython_clear_error(void)
{
	bool interrupted;

	if (!mt_cpython.PyErr_Occurred())
		return;
	interrupted = mt_cpython.PyErr_ExceptionMatches(*mt_cpython.PyExc_KeyboardInterrupt);
	mt_cpython.PyErr_Clear();
	/* The user pressed Ctrl-C during the call: the program must get it. */
	if (interrupted)
		mt_cpython.PyErr_SetInterrupt();
}

void *mt_cpython_checked(void *object)
{
	if (!object)
		mt_cpython_clear_error();
	return object;
}

void mt_cpython_release(void *object)
{
	if (object)
		mt_cpython.Py_DecRef(object);
}

void *mt_cpython_attribute(void *object, const char *name)
{
	return object ? mt_cpython_checked(mt_cpython.PyObject_GetAttrString(object, name)) : NULL;
}

void mt_cpython_fork_child(void)
{
	mt_lock_reset(&lock);
}
