/* core/requests.h -- carries out the requests that mtctl writes into the control file. Owns no
 * state. Only the worker thread may call. Takes the publish lock. */
#ifndef MT_CORE_REQUESTS_H
#define MT_CORE_REQUESTS_H

/* Carries out the pending request, if there is one, and publishes its result. */
void mt_requests_answer(void);

#endif
