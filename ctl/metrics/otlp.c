#include "ctl/metrics/openmetrics.h"

#include <ctype.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl/output/json.h"
#include "ctl/output/text.h"

#define ENDPOINT_DEFAULT   "http://localhost:4318"
#define TIMEOUT_DEFAULT_MS 10000u
#define REPLY_MAX          4096u

/* ---- variables ---- */

/* The variable of metrics alone, else that of all signals. NULL: neither is set. */
static const char *exporter_variable(const char *name)
{
	char full[64];
	const char *value;

	snprintf(full, sizeof(full), "OTEL_EXPORTER_OTLP_METRICS_%s", name);
	value = getenv(full);
	if (value && *value)
		return value;
	snprintf(full, sizeof(full), "OTEL_EXPORTER_OTLP_%s", name);
	value = getenv(full);
	return value && *value ? value : NULL;
}

static int hex_digit(char c)
{
	return isdigit((unsigned char)c)           ? c - '0'
	       : strchr("abcdef", tolower(c)) && c ? tolower(c) - 'a' + 10
						   : -1;
}

/* Decodes %41 in place. */
static void decode(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (*text == '%' && hex_digit(text[1]) >= 0 && hex_digit(text[2]) >= 0) {
			*to++ = (char)(hex_digit(text[1]) * 16 + hex_digit(text[2]));
			text += 2;
		} else {
			*to++ = *text;
		}
	}
	*to = '\0';
}

static char *trimmed(char *text)
{
	char *end;

	text += strspn(text, " \t");
	for (end = text + strlen(text); end > text && strchr(" \t", end[-1]);)
		*--end = '\0';
	return text;
}

/* Calls `take` for each pair of "name=value,name=value", the format of W3C baggage. Returns false
 * for a text that is none; a control character would begin another header. */
static bool each_pair(const char *list, void (*take)(void *to, const char *name, const char *value),
		      void *to)
{
	char *copy = mt_error_check_memory(strdup(list ? list : "")), *rest = copy, *pair;
	bool valid = true;

	while (valid && (pair = strsep(&rest, ","))) {
		char *value = strchr(pair, '=');
		json_t *text;

		if (!*trimmed(pair))
			continue;
		valid = value != NULL;
		if (!valid)
			break;
		*value++ = '\0';
		pair = trimmed(pair);
		value = trimmed(value);
		decode(pair);
		decode(value);
		for (const char *at = value; *at; at++)
			valid = valid && !iscntrl((unsigned char)*at);
		text = json_string(value); /* NULL: it is no UTF-8 */
		valid = valid && *pair && text;
		if (valid)
			take(to, pair, value);
		json_decref(text);
	}
	free(copy);
	return valid;
}

/* ---- the body ---- */

/* Figures that the semantic conventions have a name for (units are those of UCUM). All of these
 * are sums there: process.memory.usage is an UpDownCounter. */
static const struct convention {
	const char *ours, *name, *unit, *attribute, *value;
} conventions[] = {
	{"mtshim_rss_bytes", "process.memory.usage", "By", NULL, NULL},
	{"mtshim_cpu_seconds", "process.cpu.time", "s", NULL, NULL},
	{"mtshim_minor_faults", "process.paging.faults", "{fault}", "system.paging.fault.type",
	 "minor"},
};

struct family {
	const struct mt_metric *metric;
	char name[96];
	const char *unit;
	const struct convention *convention;
};

struct body {
	json_t *resources; /* by pid; "" for what is of no process */
	uint64_t time_ns;
};

/* Sets an attribute of the type. Later ones replace those of the same name. Numbers of 64 bits are
 * texts in protobuf's JSON. */
static void set_value(json_t *attributes, const char *name, const char *type, const char *value)
{
	json_t *object = json_object();

	mt_json_set_text(object, type, value);
	mt_json_set(attributes, name, object);
}

static void set_text(void *attributes, const char *name, const char *value)
{
	set_value(attributes, name, "stringValue", value);
}

/* Makes the list of the protocol. Takes the attributes over. */
static json_t *list_of(json_t *attributes)
{
	json_t *list = json_array(), *value;
	const char *name;

	json_object_foreach(attributes, name, value)
	{
		json_t *object = mt_json_append_object(list);

		mt_json_set_text(object, "key", name);
		mt_json_set(object, "value", json_incref(value));
	}
	json_decref(attributes);
	return list;
}

static json_t *resource_attributes(const struct mt_labels *labels)
{
	const char *service = getenv("OTEL_SERVICE_NAME");
	json_t *attributes = json_object();
	char host[256] = "", instance[300];

	(void)gethostname(host, sizeof(host) - 1);
	mt_text_clean(host, sizeof(host));
	set_text(attributes, "service.name", "unknown_service:mtctl");
	set_text(attributes, "host.name", host);
	for (size_t i = 0; labels && i < labels->count; i++) {
		const char *name = labels->list[i].name, *value = labels->list[i].value;

		if (strcmp(name, "pid") == 0) {
			snprintf(instance, sizeof(instance), "%s:%s", host, value);
			set_text(attributes, "service.instance.id", instance);
			set_value(attributes, "process.pid", "intValue", value);
		} else if (strcmp(name, "comm") == 0) {
			set_text(attributes, "process.executable.name", value);
		} else if (strcmp(name, "rank") == 0) {
			set_text(attributes, "mtshim.rank", value);
		}
	}
	(void)each_pair(getenv("OTEL_RESOURCE_ATTRIBUTES"), set_text, attributes);
	if (service && *service)
		set_text(attributes, "service.name", service);
	return list_of(attributes);
}

static json_t *new_resource(const struct mt_labels *labels)
{
	json_t *object = json_object(), *resource = json_object(), *scope = json_object(),
	       *scoped = json_object(), *list = json_array();

	mt_json_set(resource, "attributes", resource_attributes(labels));
	mt_json_set_text(scope, "name", "mtctl");
	mt_json_set_text(scope, "version", MT_VERSION);
	mt_json_set(scoped, "scope", scope);
	mt_json_set(scoped, "metrics", json_array());
	mt_json_append(list, scoped);
	mt_json_set(object, "resource", resource);
	mt_json_set(object, "scopeMetrics", list);
	return object;
}

/* mtshim_heap_live_bytes is mtshim.heap_live_bytes: Prometheus, which takes OTLP too, makes the
 * same name of it. */
static struct family family_of(const struct mt_metric *metric)
{
	static const char *const units[][2] = {{"bytes", "By"}, {"seconds", "s"}, {"ratio", "1"}};
	struct family family = {.metric = metric, .unit = ""};

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(metric->unit, units[i][0]) == 0)
			family.unit = units[i][1];
	snprintf(family.name, sizeof(family.name), "mtshim.%s%s", metric->name + strlen("mtshim_"),
		 metric->type == MT_METRIC_INFO ? "_info" : "");
	for (size_t i = 0; i < sizeof(conventions) / sizeof(conventions[0]); i++) {
		if (strcmp(conventions[i].ours, metric->name) != 0)
			continue;
		family.convention = &conventions[i];
		family.unit = conventions[i].unit;
		snprintf(family.name, sizeof(family.name), "%s", conventions[i].name);
	}
	return family;
}

static json_t *new_metric(const struct family *family)
{
	bool is_counter = family->metric->type == MT_METRIC_COUNTER,
	     is_sum = is_counter || family->convention;
	json_t *metric = json_object(), *kind = json_object();

	mt_json_set_text(metric, "name", family->name);
	mt_json_set_text(metric, "description", family->metric->help);
	mt_json_set_text(metric, "unit", family->unit);
	mt_json_set(kind, "dataPoints", json_array());
	if (is_sum) {
		mt_json_set_u64(kind, "aggregationTemporality", 2); /* cumulative */
		mt_json_set_bool(kind, "isMonotonic", is_counter);
	}
	mt_json_set(metric, is_sum ? "sum" : "gauge", kind);
	return metric;
}

/* The list of points of this family in a resource. */
static json_t *points_of(json_t *resource, const struct family *family)
{
	json_t *scoped = json_array_get(json_object_get(resource, "scopeMetrics"), 0),
	       *metrics = json_object_get(scoped, "metrics"),
	       *metric = json_array_get(metrics, json_array_size(metrics) - 1), *kind;

	if (!metric ||
	    strcmp(json_string_value(json_object_get(metric, "name")), family->name) != 0) {
		metric = new_metric(family);
		mt_json_append(metrics, metric);
	}
	kind = json_object_get(metric, "sum");
	return json_object_get(kind ? kind : json_object_get(metric, "gauge"), "dataPoints");
}

static void take_sample(void *data, const struct mt_metric *metric, const struct mt_labels *labels,
			uint64_t value)
{
	struct body *body = data;
	const struct family family = family_of(metric);
	bool is_of_process = labels && labels->count && strcmp(labels->list[0].name, "pid") == 0;
	const char *pid = is_of_process ? labels->list[0].value : "";
	json_t *resource = json_object_get(body->resources, pid), *attributes = json_object(),
	       *point = json_object();
	char text[24];

	if (!resource) {
		resource = new_resource(labels);
		mt_json_set(body->resources, pid, resource);
	}
	for (size_t i = 0; labels && i < labels->count; i++) {
		const char *name = labels->list[i].name;

		/* these are attributes of the resource */
		if (strcmp(name, "pid") != 0 && strcmp(name, "comm") != 0 &&
		    strcmp(name, "rank") != 0)
			set_text(attributes, name, labels->list[i].value);
	}
	if (family.convention && family.convention->attribute)
		set_text(attributes, family.convention->attribute, family.convention->value);
	snprintf(text, sizeof(text), "%" PRIu64, body->time_ns);
	mt_json_set(point, "attributes", list_of(attributes));
	mt_json_set_text(point, "timeUnixNano", text);
	snprintf(text, sizeof(text), "%" PRIu64, value);
	if (metric->decimals)
		mt_json_set(point, "asDouble",
			    json_real((double)value / pow(10, metric->decimals)));
	else
		mt_json_set_text(point, "asInt", text);
	mt_json_append(points_of(resource, &family), point);
}

char *mt_otlp_body(const struct mt_process_list *processes, uint64_t time_ns)
{
	struct body body = {.resources = json_object(), .time_ns = time_ns};
	struct mt_exposition page = {.take = take_sample, .data = &body};
	json_t *root = json_object(), *list = json_array(), *resource;
	const char *pid;
	char *text;

	mt_openmetrics_each(processes, &page);
	json_object_foreach(body.resources, pid, resource)
		mt_json_append(list, json_incref(resource));
	mt_json_set(root, "resourceMetrics", list);
	text = mt_error_check_memory(json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(15)));
	json_decref(body.resources);
	json_decref(root);
	return text;
}

/* ---- libcurl ---- */

struct curl;
struct curl_slist;

/* Values of curl/curl.h, which its ABI keeps. */
enum {
	CURL_TIMEOUT_MS = 155,
	CURL_NO_SIGNAL = 99,
	CURL_POST_SIZE = 60,
	CURL_PROTOCOLS = 181, /* bits: http 1, https 2 */
	CURL_URL = 10002,
	CURL_WRITE_DATA = 10001,
	CURL_POST_FIELDS = 10015,
	CURL_USER_AGENT = 10018,
	CURL_HEADERS = 10023,
	CURL_CA_FILE = 10065,
	CURL_WRITE_FUNCTION = 20011,
	CURL_INFO_STATUS = 0x200002
};

static struct curl_api {
	struct curl *(*easy_init)(void);
	int (*easy_setopt)(struct curl *, int, ...);
	int (*easy_perform)(struct curl *);
	int (*easy_getinfo)(struct curl *, int, ...);
	const char *(*easy_strerror)(int);
	void (*easy_cleanup)(struct curl *);
	struct curl_slist *(*slist_append)(struct curl_slist *, const char *);
	void (*slist_free_all)(struct curl_slist *);
} curl;

static bool load_curl(void)
{
	static const struct {
		const char *name;
		void *function;
	} functions[] = {
#define F(name) {"curl_" #name, &curl.name}
		F(easy_init),     F(easy_setopt),  F(easy_perform), F(easy_getinfo),
		F(easy_strerror), F(easy_cleanup), F(slist_append), F(slist_free_all),
#undef F
	};
	void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);

	library = library ? library : dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; library && i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = dlsym(library, functions[i].name);

		if (!function)
			return false;
		memcpy(functions[i].function, &function, sizeof(function));
	}
	return library != NULL;
}

/* ---- sending ---- */

struct reply {
	char text[REPLY_MAX];
	size_t used;
};

static size_t take_reply(const char *from, size_t size, size_t count, void *to)
{
	struct reply *reply = to;
	size_t bytes = size * count, room = sizeof(reply->text) - 1 - reply->used;

	memcpy(reply->text + reply->used, from, bytes < room ? bytes : room);
	reply->used += bytes < room ? bytes : room;
	reply->text[reply->used] = '\0';
	return bytes;
}

static void add_header(void *to, const char *name, const char *value)
{
	struct curl_slist **headers = to;
	size_t bytes = strlen(name) + strlen(value) + sizeof(": ");
	char *line = mt_error_check_memory(malloc(bytes));

	snprintf(line, bytes, "%s: %s", name, value);
	*headers = mt_error_check_memory(curl.slist_append(*headers, line));
	free(line);
}

/* The variable of metrics is the whole address; to that of all signals the path is added. */
static void endpoint(char *out, size_t out_bytes)
{
	const char *whole = getenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"),
		   *base = getenv("OTEL_EXPORTER_OTLP_ENDPOINT");
	size_t length;

	if (whole && *whole) {
		snprintf(out, out_bytes, "%s", whole);
		return;
	}
	base = base && *base ? base : ENDPOINT_DEFAULT;
	for (length = strlen(base); length && base[length - 1] == '/';)
		length--;
	snprintf(out, out_bytes, "%.*s/v1/metrics", (int)length, base);
}

static enum mt_err check_variables(long *out_timeout_ms, struct mt_error_reason *why)
{
	const char *protocol = exporter_variable("PROTOCOL"),
		   *timeout = exporter_variable("TIMEOUT");
	uint64_t ms = TIMEOUT_DEFAULT_MS;
	json_t *unused = json_object();
	bool valid = each_pair(getenv("OTEL_RESOURCE_ATTRIBUTES"), set_text, unused);

	json_decref(unused);
	if (!valid)
		return mt_error_because(why, MT_ERR_INVALID,
					"OTEL_RESOURCE_ATTRIBUTES is not name=value,name=value");
	if (protocol && strncmp(protocol, "http/", 5) != 0)
		return mt_error_because(why, MT_ERR_INVALID,
					"OTEL_EXPORTER_OTLP_PROTOCOL is '%.40s'; mtctl "
					"speaks http/json alone, to port 4318",
					protocol);
	if (timeout && (!mt_text_parse_u64(timeout, &ms) || ms > 3600000))
		return mt_error_because(why, MT_ERR_INVALID,
					"OTEL_EXPORTER_OTLP_TIMEOUT is '%.40s', and not ms",
					timeout);
	*out_timeout_ms = (long)ms;
	return MT_ERR_OK;
}

/* The collector took the body, and may have left out a part of it. */
static void say_left_out(const struct reply *reply)
{
	json_t *root = json_loads(reply->text, 0, NULL),
	       *partial = json_object_get(root, "partialSuccess");
	const char *message = json_string_value(json_object_get(partial, "errorMessage"));
	char text[256];

	snprintf(text, sizeof(text), "%s", message ? message : "");
	mt_text_clean(text, sizeof(text));
	if (*text)
		mt_error_say("the collector says: %s", text);
	json_decref(root);
}

static enum mt_err explain(int failed, long status, const char *url, const struct reply *reply,
			   struct mt_error_reason *why)
{
	/* codes for which the specification wants a later try */
	bool later = status == 429 || status == 502 || status == 503 || status == 504;

	if (failed)
		return mt_error_because(why, MT_ERR_TIMEOUT, "%.120s: %s", url,
					curl.easy_strerror(failed));
	if (status >= 200 && status < 300) {
		say_left_out(reply);
		return MT_ERR_OK;
	}
	return mt_error_because(why, later ? MT_ERR_TIMEOUT : MT_ERR_INVALID,
				"%.120s: HTTP status %ld: %.120s", url, status, reply->text);
}

static enum mt_err post(const char *body, const char *url, struct curl_slist *headers,
			long timeout_ms, struct mt_error_reason *why)
{
	const char *authority = exporter_variable("CERTIFICATE");
	struct curl *handle = mt_error_check_memory(curl.easy_init());
	struct reply reply = {.used = 0};
	enum mt_err error;
	long status = 0;
	int failed;

	curl.easy_setopt(handle, CURL_URL, url);
	curl.easy_setopt(handle, CURL_PROTOCOLS, 3L);
	curl.easy_setopt(handle, CURL_NO_SIGNAL, 1L);
	curl.easy_setopt(handle, CURL_TIMEOUT_MS, timeout_ms);
	curl.easy_setopt(handle, CURL_HEADERS, headers);
	curl.easy_setopt(handle, CURL_USER_AGENT, "mtctl/" MT_VERSION);
	curl.easy_setopt(handle, CURL_POST_SIZE, (long)strlen(body));
	curl.easy_setopt(handle, CURL_POST_FIELDS, body);
	curl.easy_setopt(handle, CURL_WRITE_FUNCTION, take_reply);
	curl.easy_setopt(handle, CURL_WRITE_DATA, &reply);
	if (authority)
		curl.easy_setopt(handle, CURL_CA_FILE, authority);
	failed = curl.easy_perform(handle);
	(void)curl.easy_getinfo(handle, CURL_INFO_STATUS, &status);
	error = explain(failed, status, url, &reply, why);
	curl.easy_cleanup(handle);
	return error;
}

enum mt_err mt_otlp_send(const char *body, struct mt_error_reason *why)
{
	struct curl_slist *headers = NULL;
	char url[1024];
	long timeout_ms = 0;
	enum mt_err error = check_variables(&timeout_ms, why);

	if (error)
		return error;
	if (!curl.easy_init && !load_curl())
		return mt_error_because(
			why, MT_ERR_NOT_AVAILABLE,
			"libcurl.so.4 is not there: apt install libcurl4 (Debian 13 "
			"and later: libcurl4t64)");
	endpoint(url, sizeof(url));
	add_header(&headers, "Content-Type", "application/json");
	if (each_pair(exporter_variable("HEADERS"), add_header, &headers))
		error = post(body, url, headers, timeout_ms, why);
	else
		error = mt_error_because(why, MT_ERR_INVALID,
					 "OTEL_EXPORTER_OTLP_HEADERS is not name=value,name=value");
	curl.slist_free_all(headers);
	return error;
}
