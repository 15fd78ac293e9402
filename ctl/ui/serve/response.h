/* ctl/ui/serve/response.h -- answers: a status, a body, and the headers that all of them have. */
#ifndef MT_CTL_SERVE_ANSWER_H
#define MT_CTL_SERVE_ANSWER_H

#include <jansson.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

/* The response is dropped once it is queued, unless somebody keeps it for the next who asks. */
struct mt_answer {
	unsigned status;
	struct MHD_Response *response; /* NULL: none yet, the connection waits; or out of memory */
	bool kept;
};

enum mt_answer_body { MT_ANSWER_STATIC, MT_ANSWER_FREE }; /* FREE: libmicrohttpd frees it */

struct mt_answer mt_answer_bytes(const char *type, const void *bytes, size_t length,
				 enum mt_answer_body body);

/* Takes the value over. */
struct mt_answer mt_answer_json(unsigned status, json_t *value);

/* {"error": "..."} */
struct mt_answer mt_answer_error(unsigned status, const char *text);

/* The same, and the connection ends with it: what follows on it may be part of what was refused. */
struct mt_answer mt_answer_last(unsigned status, const char *text);

/* 401 or 403 for the want of a token; 401 says which kind is wanted. */
struct mt_answer mt_answer_locked(unsigned status, const char *text);

/* 405, with what is allowed. */
struct mt_answer mt_answer_method(const char *allowed);

#endif
