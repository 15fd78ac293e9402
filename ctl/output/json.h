/* ctl/output/json.h -- jansson in a few words: objects whose members are set without a check at
 * every line (out of memory ends mtctl), and printing. Text must be clean (mt_text_clean): JSON is
 * UTF-8, what processes say need not be. */
#ifndef MT_CTL_OUTPUT_JSON_H
#define MT_CTL_OUTPUT_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Takes the value over, as json_object_set_new does. */
void mt_json_set(json_t *object, const char *name, json_t *value);
void mt_json_set_text(json_t *object, const char *name, const char *text);

/* JSON integers are signed here: what is above INT64_MAX is cut to it. */
json_t *mt_json_u64(uint64_t value);
void mt_json_set_u64(json_t *object, const char *name, uint64_t value);
/* null where the value is not known; null for an empty text. */
void mt_json_set_u64_if(json_t *object, const char *name, bool is_known, uint64_t value);
void mt_json_set_text_or_null(json_t *object, const char *name, const char *text);
void mt_json_set_bool(json_t *object, const char *name, bool value);
void mt_json_append(json_t *array, json_t *value);

/* Prints one line to stdout, or indented over many, and frees. Reals have 15 digits: 106.31 is no
 * 106.31000000000000227. */
void mt_json_print(json_t *value, bool indented);

#endif
