/* core/requests.h -- carries out what mtctl asks through the control file. Worker thread only. */
#ifndef MT_CORE_REQUESTS_H
#define MT_CORE_REQUESTS_H

/* Carries out the pending request, if there is one, and publishes the answer. */
void mt_requests_answer(void);

#endif
