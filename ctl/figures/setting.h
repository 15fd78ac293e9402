/* ctl/figures/setting.h -- the table of settings (core/options.def) at run time, and a check of
 * values, so that mtctl reports a wrong value before it starts a program. The parser is the one of
 * the shim (core/config.c). Any thread may call after the first call. */
#ifndef MT_CTL_FIGURES_SETTING_H
#define MT_CTL_FIGURES_SETTING_H

#include <stdbool.h>

#include "ctl/output/error.h"

/* As enum mt_kind of core/config.h. */
enum mt_setting_kind {
	MT_SETTING_bool,
	MT_SETTING_u64,
	MT_SETTING_count,
	MT_SETTING_choice,
	MT_SETTING_text,
	MT_SETTING_signal,
	MT_SETTING_round
};

struct mt_setting {
	const char *name;        /* gc_rounds */
	const char *option;      /* gc-rounds */
	const char *environment; /* MT_GC_ROUNDS */
	const char *kind_word, *initial, *words, *help;
	enum mt_setting_kind kind;
	uint64_t min, max;
	bool live;
};

struct mt_setting_alias {
	const char *environment, *name;
};

struct mt_setting_preset {
	const char *preset, *name, *value;
};

struct mt_setting_role {
	const char *preset, *role; /* one row for each preset, in the order of the settings */
};

const struct mt_setting *mt_setting_all(size_t *count);
const struct mt_setting_alias *mt_setting_aliases(size_t *count);
const struct mt_setting_preset *mt_setting_presets(size_t *count);
const struct mt_setting_role *mt_setting_roles(size_t *count);

/* Finds a setting by gc_rounds, gc-rounds or MT_GC_ROUNDS, in upper or lower case. Returns NULL
 * if there is none. */
const struct mt_setting *mt_setting_find(const char *name);

/* Returns the name of the setting that is nearest to a mistyped one (mt_text_nearest), or NULL. */
const char *mt_setting_nearest(const char *name);

/* Checks a value. Returns MT_ERR_INVALID, with the values that are allowed. */
enum mt_err mt_setting_check(const struct mt_setting *setting, const char *value,
			     struct mt_error_reason *why);

/* Writes the values that are allowed as text: "0..1000000", "auto|jemalloc|system". */
void mt_setting_allowed(const struct mt_setting *setting, char *out, size_t out_bytes);

#endif
