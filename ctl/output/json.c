/* ctl/output/json.c -- see json.h. */
#include "ctl/output/json.h"

#include <stdio.h>

#include "ctl/output/error.h"

void mt_json_set(json_t *object, const char *name, json_t *value)
{
	/* jansson refuses NULL, which is no memory or text that is not UTF-8 */
	if (json_object_set_new(object, name, value) != 0)
		mt_error_check_memory(NULL);
}

void mt_json_set_text(json_t *object, const char *name, const char *text)
{
	mt_json_set(object, name, json_string(text));
}

json_t *mt_json_u64(uint64_t value)
{
	return json_integer(value > INT64_MAX ? INT64_MAX : (json_int_t)value);
}

void mt_json_set_u64(json_t *object, const char *name, uint64_t value)
{
	mt_json_set(object, name, mt_json_u64(value));
}

void mt_json_set_u64_if(json_t *object, const char *name, bool is_known, uint64_t value)
{
	mt_json_set(object, name, is_known ? mt_json_u64(value) : json_null());
}

void mt_json_set_text_or_null(json_t *object, const char *name, const char *text)
{
	mt_json_set(object, name, *text ? json_string(text) : json_null());
}

void mt_json_set_bool(json_t *object, const char *name, bool value)
{
	mt_json_set(object, name, json_boolean(value));
}

void mt_json_append(json_t *array, json_t *value)
{
	if (json_array_append_new(array, value) != 0)
		mt_error_check_memory(NULL);
}

void mt_json_print(json_t *value, bool indented)
{
	json_dumpf(value, stdout,
		   JSON_REAL_PRECISION(15) | (indented ? JSON_INDENT(2) : JSON_COMPACT));
	putchar('\n');
	json_decref(value);
}
