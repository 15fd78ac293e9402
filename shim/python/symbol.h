/* python/symbol.h -- CPython's functions and objects. Any thread may call if it may allocate; it
 * never waits for a library's constructor. Owns nothing. */
#ifndef MT_PYTHON_SYMBOL_H
#define MT_PYTHON_SYMBOL_H

#include <stdint.h>
#include <string.h>

#include "sys/os.h"
#include "sys/symbol.h"

/* Returns a symbol of the interpreter in this process; NULL if there is none, or it has no such
 * symbol. */
static inline void *mt_python_symbol(const char *name)
{
	return mt_symbol_beside("Py_IsInitialized", name);
}

/* Returns the 11 of Py_GetVersion()'s "3.11.2 (main, ..."; 0: it is not Python 3. */
static inline uint64_t mt_python_minor(const char *version)
{
	return strncmp(version, "3.", 2) == 0 ? mt_os_parse_number(version + 2) : 0;
}

#endif
