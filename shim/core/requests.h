/* core/requests.h -- answers what mtctl asks through the control file. Worker thread only. */
#ifndef MT_CORE_REQUESTS_H
#define MT_CORE_REQUESTS_H

#include <stdint.h>

/* Deals with the pending request, if there is one; *cleaned_ns is set to the time after a cleanup.
 */
void mt_requests_answer(uint64_t *cleaned_ns);

#endif
