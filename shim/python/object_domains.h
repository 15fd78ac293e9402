/* python/object_domains.h -- puts the heap for small objects (python/objects.h) before CPython's
 * own allocators, for the domains MEM and OBJ. Called while Python starts, before it has a second
 * thread. */
#ifndef MT_PYTHON_OBJECT_DOMAINS_H
#define MT_PYTHON_OBJECT_DOMAINS_H

#include <stdbool.h>

#include "python/objects.h"

enum { MT_PYTHON_DOMAIN_RAW, MT_PYTHON_DOMAIN_MEM, MT_PYTHON_DOMAIN_OBJ };

/* Puts the heap before both domains; the second call changes nothing. Returns NULL, or why the heap
 * cannot serve this Python: a text that stays. */
const char *mt_object_domains_take(void);

/* Returns whether the heap serves the domain OBJ. */
bool mt_object_domains_are_taken(void);

#endif
