/* core/config_option.h -- the table of settings as data, and the parser and formatter of one value.
 * config.c owns the table; config_option.c knows the kinds. Only config*.c include it, and
 * mtctl for its parser; other files read struct mt_config. Any thread may call. Takes no lock,
 * never allocates, never reads the locale. */
#ifndef MT_CORE_CONFIG_OPTION_H
#define MT_CORE_CONFIG_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/options.def"
#include "sys/attr.h"

/* ---- option ---- */

/* The settings and their choices as enums, from core/options.def. Plain values: any thread may use
 * them; no lock, no state. */

#define MT_TEXT_MAX 256 /* bytes of a text setting, with its NUL */

enum mt_option {
#define X(name, kind, dflt, min, max, words, when, help) MT_OPTION_##name,
	MT_OPTIONS(X) MT_OPTION_COUNT
#undef X
};

enum mt_round_mode { MT_ROUND_TIMER, MT_ROUND_MARK, MT_ROUND_SIGNAL, MT_ROUND_AUTO };
enum mt_allocator_choice { MT_ALLOCATOR_AUTO, MT_ALLOCATOR_JEMALLOC, MT_ALLOCATOR_SYSTEM };
enum mt_python_malloc_choice {
	MT_PYTHON_MALLOC_AUTO,
	MT_PYTHON_MALLOC_ON,
	MT_PYTHON_MALLOC_OFF,
	MT_PYTHON_MALLOC_OBJECT,
	MT_PYTHON_MALLOC_MALLOC
};
enum mt_cuda_choice { MT_CUDA_AUTO, MT_CUDA_POOL, MT_CUDA_ACCOUNT, MT_CUDA_OFF };
enum mt_cuda_free_choice { MT_CUDA_FREE_AUTO, MT_CUDA_FREE_WAIT, MT_CUDA_FREE_ASYNC };
enum mt_prof_choice { MT_PROF_NONE, MT_PROF_READY, MT_PROF_OFF, MT_PROF_ON };

/* Where a value came from. */
enum mt_origin {
	MT_ORIGIN_DEFAULT,
	MT_ORIGIN_PRESET,
	MT_ORIGIN_ALIAS,
	MT_ORIGIN_ENVIRONMENT,
	MT_ORIGIN_SET
};

#define MT_COUNT_AUTO UINT64_MAX /* the value "auto" of a count */

#define mt_round_mode_of(round)    ((enum mt_round_mode)((round)&0xff))
#define mt_round_seconds_of(round) ((uint64_t)(round) >> 8)

/* Receives each warning of the parser: one line without a newline, for instance
 * "MT_GC_ROUNDS=-3: not a whole number from 0 to 1000000; 0 is taken". */
typedef void (*mt_config_report)(const char *line);

/* ---- config option ---- */

enum mt_kind {
	MT_KIND_bool,
	MT_KIND_u64,
	MT_KIND_count,
	MT_KIND_choice,
	MT_KIND_text,
	MT_KIND_signal,
	MT_KIND_round
};

struct mt_option_row {
	const char *name;
	const char *dflt;  /* as a user would write it */
	const char *words; /* of a choice, separated by | */
	uint64_t min;
	uint64_t max;
	uint16_t offset; /* of the field in struct mt_config */
	uint8_t kind;    /* enum mt_kind */
	bool is_live;
};

/* Parses a value. Returns MT_ERR_INVALID for a malformed value, and MT_ERR_RANGE for one outside
 * min..max or a text that is too long. *out: written only on success, and not for a text. */
enum mt_err mt_config_value_parse(const struct mt_option_row *row, const char *text, uint64_t *out);

/* Formats a value as a user would write it, cut to out_bytes with a NUL. Not for a text. */
void mt_config_value_format(const struct mt_option_row *row, uint64_t value, char *out,
			    size_t out_bytes);

/* Describes the valid values in one line, such as "0..100 %" or "auto|on|off". */
void mt_config_value_allowed(const struct mt_option_row *row, char *out, size_t out_bytes);

#endif
