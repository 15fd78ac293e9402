/* core/api.h -- what core/init.c asks of core/api.c; the functions themselves are in mtshim.h. */
#ifndef MT_CORE_API_H
#define MT_CORE_API_H

#include <stdbool.h>

/* Whether another copy of this library (another path, preloaded by the system and by the user)
 * stands before us in line. */
bool mt_api_is_second(void);

#endif
