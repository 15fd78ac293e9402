/* python/symbol.h -- CPython's functions and objects. Any thread may call where it may allocate; it
 * never waits for a library's constructor. Owns nothing. */
#ifndef MT_PYTHON_SYMBOL_H
#define MT_PYTHON_SYMBOL_H

#include "sys/symbol.h"

/* Returns a symbol of the interpreter in this process; NULL where there is none, or it has no such
 * symbol. */
static inline void *mt_python_symbol(const char *name)
{
	return mt_symbol_beside("Py_IsInitialized", name);
}

#endif
