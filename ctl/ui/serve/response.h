/* ctl/ui/serve/response.h -- replies: a status, a body, and the headers that all replies have. */
#ifndef MT_CTL_UI_SERVE_RESPONSE_H
#define MT_CTL_UI_SERVE_RESPONSE_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

/* The response is destroyed when it is queued, unless `kept`: then its owner destroys it. */
struct mt_response {
	unsigned status;
	struct MHD_Response *response; /* NULL: none yet, the connection waits */
	bool kept;
};

/* FREE: libmicrohttpd frees the body */
enum mt_response_body { MT_RESPONSE_STATIC, MT_RESPONSE_FREE };

struct mt_response mt_response_bytes(const char *type, const void *bytes, size_t length,
				     enum mt_response_body body);

/* {"error": "..."} */
struct mt_response mt_response_error(unsigned status, const char *text);

/* The same, and closes the connection: later bytes may belong to the refused request. */
struct mt_response mt_response_closing(unsigned status, const char *text);

/* 401 or 403 for a missing token; 401 names the kind of authentication. */
struct mt_response mt_response_unauthorized(unsigned status, const char *text);

/* 405, with the allowed methods. */
struct mt_response mt_response_method(const char *allowed);

#endif
