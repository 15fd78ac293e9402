/* ctl/ui/serve/response.h -- answers: a status, a body, and the headers that all of them have. */
#ifndef MT_CTL_UI_SERVE_RESPONSE_H
#define MT_CTL_UI_SERVE_RESPONSE_H

#include <jansson.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

/* The response is dropped once it is queued, unless somebody keeps it for the next who asks. */
struct mt_response {
	unsigned status;
	struct MHD_Response *response; /* NULL: none yet, the connection waits; or out of memory */
	bool kept;
};

enum mt_response_body { MT_RESPONSE_STATIC, MT_RESPONSE_FREE }; /* FREE: libmicrohttpd frees it */

struct mt_response mt_response_bytes(const char *type, const void *bytes, size_t length,
				     enum mt_response_body body);

/* Takes the value over. */
struct mt_response mt_response_json(unsigned status, json_t *value);

/* {"error": "..."} */
struct mt_response mt_response_error(unsigned status, const char *text);

/* The same, and the connection ends with it: what follows on it may be part of what was refused. */
struct mt_response mt_response_last(unsigned status, const char *text);

/* 401 or 403 for the want of a token; 401 says which kind is wanted. */
struct mt_response mt_response_locked(unsigned status, const char *text);

/* 405, with what is allowed. */
struct mt_response mt_response_method(const char *allowed);

#endif
