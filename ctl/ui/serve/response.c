#include "ctl/ui/serve/serve.h"

#include <string.h>

#include "ctl/output/json.h"

/* No foreign content in the page, no content of ours in other pages, no reading by other origins.
 */
static const char *const headers[][2] = {
	{"Content-Security-Policy",
	 "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
	 "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
	{"X-Content-Type-Options", "nosniff"},
	{"Referrer-Policy", "no-referrer"},
	{"X-Frame-Options", "DENY"},
	{"Cross-Origin-Resource-Policy", "same-origin"},
	{"Cross-Origin-Opener-Policy", "same-origin"},
	{"Cache-Control", "no-store"},
};

struct mt_response mt_response_bytes(const char *type, const void *bytes, size_t length,
				     enum mt_response_body body)
{
	enum MHD_ResponseMemoryMode mode =
		body == MT_RESPONSE_FREE ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_PERSISTENT;
	struct mt_response reply = {.status = MHD_HTTP_OK};

	/* the interface takes a writable pointer, but does not write */
	reply.response = MHD_create_response_from_buffer(length, (void *)(uintptr_t)bytes, mode);
	mt_error_check_memory(reply.response);
	MHD_add_response_header(reply.response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++)
		MHD_add_response_header(reply.response, headers[i][0], headers[i][1]);
	return reply;
}

struct mt_response mt_response_error(unsigned status, const char *text)
{
	json_t *object = json_object();
	struct mt_response reply;
	char *body;

	mt_json_set_text(object, "error", text);
	body = mt_json_take_text(object);
	reply = mt_response_bytes("application/json", body, strlen(body), MT_RESPONSE_FREE);
	reply.status = status;
	return reply;
}

struct mt_response mt_response_closing(unsigned status, const char *text)
{
	struct mt_response reply = mt_response_error(status, text);

	MHD_add_response_header(reply.response, MHD_HTTP_HEADER_CONNECTION, "close");
	return reply;
}

struct mt_response mt_response_unauthorized(unsigned status, const char *text)
{
	struct mt_response reply = mt_response_error(status, text);

	if (status == MHD_HTTP_UNAUTHORIZED)
		MHD_add_response_header(reply.response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
					"Bearer realm=\"mtctl serve\"");
	return reply;
}

struct mt_response mt_response_method(const char *allowed)
{
	struct mt_response reply =
		mt_response_error(MHD_HTTP_METHOD_NOT_ALLOWED, "not by this method");

	MHD_add_response_header(reply.response, MHD_HTTP_HEADER_ALLOW, allowed);
	return reply;
}
