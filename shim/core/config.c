/* core/config.c -- the table of settings, the live copy, and the parser of the environment: of the
 * settings, and of the variables of other programs. */
#include "core/config.h"

#include <assert.h>
#include <signal.h>
#include <string.h>

#include "core/core_internal.h"
#include "core/log.h"
#include "sys/atomic.h"
#include "sys/attr.h"
#include "sys/format.h"
#include "sys/os.h"

enum { WHEN_start, WHEN_live };

static const struct mt_option_row rows[MT_OPTION_COUNT] = {
#define X(name, kind, dflt, min, max, words, when, help)                                           \
	{#name,                                                                                    \
	 dflt,                                                                                     \
	 words,                                                                                    \
	 min,                                                                                      \
	 max,                                                                                      \
	 offsetof(struct mt_config, name),                                                         \
	 MT_KIND_##kind,                                                                           \
	 WHEN_##when == WHEN_live},
	MT_OPTIONS(X)
#undef X
};

static const struct {
	const char *name;
	enum mt_option option;
} aliases[] = {
#define X(name, option) {name, MT_OPTION_##option},
	MT_ALIASES(X)
#undef X
};

static const struct {
	const char *preset; /* with _ for the user's - */
	enum mt_option option;
	const char *value;
} presets[] = {
#define X(preset, option, value) {#preset, MT_OPTION_##option, #value},
	MT_PRESETS(X)
#undef X
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static_assert(sizeof(struct mt_config) <= UINT16_MAX, "offsets are 16 bits wide");
static_assert(COUNT(aliases) <= UINT8_MAX, "origin_alias is a byte");

/* The environment's values for the settings: pointers into it; NULL: unset. */
struct entries_found {
	const char *own[MT_OPTION_COUNT];
	const char *alias[COUNT(aliases)];
	bool own_failed[MT_OPTION_COUNT];
	bool alias_failed[COUNT(aliases)];
};

static struct mt_config live;
static struct mt_launch_env facts;
static _Atomic bool live_filled; /* release after live is filled; acquire in mt_config */

const char *mt_config_name(enum mt_option option)
{
	return (unsigned)option < MT_OPTION_COUNT ? rows[option].name : NULL;
}

/* Parses and stores a value. On an error *config stays as it is. */
static enum mt_err store(struct mt_config *config, enum mt_option option, const char *text,
			 enum mt_origin origin)
{
	const struct mt_option_row *row = &rows[option];
	char *field = (char *)config + row->offset;
	uint64_t value = 0;
	enum mt_err err = mt_config_value_parse(row, text, &value);

	mt_assert((unsigned)option < MT_OPTION_COUNT && origin <= MT_ORIGIN_SET);
	if (err != MT_ERR_OK)
		return err;
	if (row->kind == MT_KIND_text)
		memcpy(field, text, strlen(text) + 1);
	else /* one store: readers of the live copy load it at any moment */
		__atomic_store_n((uint64_t *)(void *)field, value, __ATOMIC_RELAXED);
	config->origin[option] = (uint8_t)origin;
	return MT_ERR_OK;
}

void mt_config_defaults(struct mt_config *out)
{
	memset(out, 0, sizeof(*out));
	for (unsigned option = 0; option < MT_OPTION_COUNT; option++) {
		enum mt_err err = store(out, option, rows[option].dflt, MT_ORIGIN_DEFAULT);

		mt_assert(err == MT_ERR_OK);
		(void)err;
	}
}

/* Concurrent threads write the same bytes: the environment is not read yet. */
static MT_COLD void fill_live(void)
{
	struct mt_config defaults;

	mt_config_defaults(&defaults);
	memcpy(&live, &defaults, sizeof(live));
	mt_store_release(&live_filled, true);
}

const struct mt_config *mt_config(void)
{
	if (mt_unlikely(!mt_load_acquire(&live_filled)))
		fill_live();
	return &live;
}

/* Returns the option of a name without MT_; MT_OPTION_COUNT for none. */
static enum mt_option find_option(const char *name, size_t length, bool any_case)
{
	for (unsigned option = 0; option < MT_OPTION_COUNT; option++) {
		const char *known = rows[option].name;
		size_t same = 0;

		while (same < length && known[same] != '\0' &&
		       (any_case ? mt_format_upper(name[same]) : name[same]) ==
			       mt_format_upper(known[same]))
			same++;
		if (same == length && known[same] == '\0')
			return option;
	}
	return MT_OPTION_COUNT;
}

#define SHOWN_MAX 60 /* bytes of a name or value that are repeated to the user */

struct rejected_value {
	const char *label; /* the variable: MT_NAME or an alias */
	const char *value;
	enum mt_option option;
};

/* Copies text so that it stays on one line and cannot control a terminal. */
static void quote(const char *text, size_t length, char out[SHOWN_MAX + 4])
{
	size_t shown = length < SHOWN_MAX ? length : SHOWN_MAX;

	for (size_t i = 0; i < shown; i++)
		out[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
	mt_assert(shown <= SHOWN_MAX);
	memcpy(out + shown, length > shown ? "..." : "", length > shown ? 4 : 1);
}

static MT_COLD void report_name(const char *name, size_t length, mt_config_report report)
{
	char line[MT_CONFIG_ERROR_MAX], shown[SHOWN_MAX + 4];

	quote(name, length, shown);
	(void)mt_format(line, sizeof(line), "%s: no such setting (mtctl options)", shown);
	report(line);
}

/* Of two entries with one name the first counts, as for getenv(3). */
static void note_entry(const char *entry, struct entries_found *found, mt_config_report report)
{
	const char *equals = strchr(entry, '=');
	size_t length = equals == NULL ? 0 : (size_t)(equals - entry);
	enum mt_option option;

	if (length >= 3 && memcmp(entry, "MT_", 3) == 0) {
		option = find_option(entry + 3, length - 3, false);
		if (option == MT_OPTION_COUNT)
			report_name(entry, length, report);
		else if (found->own[option] == NULL)
			found->own[option] = equals + 1;
		return;
	}
	for (size_t i = 0; i < COUNT(aliases); i++)
		if (length > 0 && strncmp(entry, aliases[i].name, length) == 0 &&
		    aliases[i].name[length] == '\0' && found->alias[i] == NULL)
			found->alias[i] = equals + 1;
}

static void apply_preset(struct mt_config *out)
{
	char chosen[32];

	mt_config_format(out, MT_OPTION_preset, chosen, sizeof(chosen));
	for (char *c = chosen; *c != '\0'; c++)
		if (*c == '-')
			*c = '_';
	for (size_t i = 0; i < COUNT(presets); i++)
		if (strcmp(presets[i].preset, chosen) == 0)
			(void)store(out, presets[i].option, presets[i].value, MT_ORIGIN_PRESET);
}

static void apply(struct entries_found *found, struct mt_config *out)
{
	for (size_t i = 0; i < COUNT(aliases); i++) {
		if (found->alias[i] == NULL)
			continue;
		found->alias_failed[i] = store(out, aliases[i].option, found->alias[i],
					       MT_ORIGIN_ALIAS) != MT_ERR_OK;
		if (!found->alias_failed[i])
			out->origin_alias[aliases[i].option] = (uint8_t)i;
	}
	for (unsigned option = 0; option < MT_OPTION_COUNT; option++)
		if (found->own[option] != NULL)
			found->own_failed[option] = store(out, option, found->own[option],
							  MT_ORIGIN_ENVIRONMENT) != MT_ERR_OK;
}

/* Reports "NAME=VALUE: not valid (0..9); 3 is taken". */
static MT_COLD void report_value(const struct rejected_value *rejected, const struct mt_config *out,
				 mt_config_report report)
{
	char line[MT_CONFIG_ERROR_MAX], allowed[128], kept[MT_TEXT_MAX];
	char shown[SHOWN_MAX + 4], taken[SHOWN_MAX + 4];

	mt_config_format(out, rejected->option, kept, sizeof(kept));
	mt_config_value_allowed(&rows[rejected->option], allowed, sizeof(allowed));
	quote(rejected->value, strlen(rejected->value), shown);
	quote(kept, strlen(kept), taken);
	(void)mt_format(line, sizeof(line), "%s=%s: %snot valid (%s); %s is taken", rejected->label,
			shown, *rejected->value == '\0' ? "empty, " : "", allowed,
			*taken == '\0' ? "no value" : taken);
	report(line);
}

/* Runs after all values are applied: only then is the effective value known. */
static void report_values(const struct entries_found *found, const struct mt_config *out,
			  mt_config_report report)
{
	char label[48] = "MT_";

	for (size_t i = 0; i < COUNT(aliases); i++)
		if (found->alias_failed[i])
			report_value(&(struct rejected_value){aliases[i].name, found->alias[i],
							      aliases[i].option},
				     out, report);
	for (unsigned option = 0; option < MT_OPTION_COUNT; option++) {
		size_t i = 0;

		if (!found->own_failed[option])
			continue;
		for (; rows[option].name[i] != '\0' && i + 4 < sizeof(label); i++)
			label[3 + i] = mt_format_upper(rows[option].name[i]);
		label[3 + i] = '\0';
		report_value(&(struct rejected_value){label, found->own[option], option}, out,
			     report);
	}
}

void mt_config_parse(const char *const *environ_list, struct mt_config *out,
		     mt_config_report report)
{
	struct entries_found found;

	memset(&found, 0, sizeof(found));
	mt_config_defaults(out);
	/* Runs in every process before main: the first letter excludes most entries cheaply. */
	for (; environ_list != NULL && *environ_list != NULL; environ_list++)
		if (**environ_list == 'M' || **environ_list == 'N')
			note_entry(*environ_list, &found, report);
	if (found.own[MT_OPTION_preset] != NULL &&
	    store(out, MT_OPTION_preset, found.own[MT_OPTION_preset], MT_ORIGIN_ENVIRONMENT) ==
		    MT_ERR_OK)
		apply_preset(out);
	apply(&found, out);
	report_values(&found, out, report);
}

/* ---- variables of other programs ---- */

static const char *const rank_variables[] = {
#define X(name) #name,
	MT_RANK_VARIABLES(X)
#undef X
};

#define RANKS_COUNT (sizeof(rank_variables) / sizeof(rank_variables[0]))

/* Returns the value of an entry NAME=VALUE with this name; NULL for another entry. */
static const char *value_of(const char *entry, const char *name)
{
	size_t length = strlen(name);

	return *entry == *name && strncmp(entry, name, length) == 0 && entry[length] == '='
		       ? entry + length + 1
		       : NULL;
}

/* Returns whether the value is set and differs from the framework's default. */
static bool is_not(const char *value, const char *usual)
{
	return *value != '\0' && strcmp(value, usual) != 0;
}

/* Copies a text that fits; a truncated path would name another file. */
static void copy_text(const char *value, mt_text out)
{
	size_t length = strlen(value);

	if (length < MT_TEXT_MAX)
		memcpy(out, value, length + 1);
}

/* Returns whether the value is decimal digits that fit into out_bytes. */
static bool is_rank(const char *value, size_t out_bytes)
{
	size_t digits = strspn(value, "0123456789");

	return digits > 0 && digits < out_bytes && value[digits] == '\0';
}

/* Returns the index of this entry's variable; RANKS_COUNT for another entry. */
static size_t rank_index(const char *entry, const char **value)
{
	size_t index = 0;

	for (; index < RANKS_COUNT; index++)
		if ((*value = value_of(entry, rank_variables[index])))
			break;
	return index;
}

/* Of two variables the one with the lower index counts; of two entries with one name the first, as
 * for getenv(3). */
static void note_rank(const char *entry, size_t *best, struct mt_launch_env *out)
{
	const char *value;
	size_t index = rank_index(entry, &value);

	if (index >= *best || !is_rank(value, sizeof(out->rank)))
		return;
	*best = index;
	mt_assert(index < RANKS_COUNT);
	(void)mt_format(out->rank, sizeof(out->rank), "%s", value);
	(void)mt_format(out->rank_source, sizeof(out->rank_source), "%s", rank_variables[index]);
}

/* NV_...INJECTION...=VALUE, VALUE not empty. */
static bool is_injection(const char *entry)
{
	const char *found = strstr(entry, "INJECTION"), *equals = strchr(entry, '=');

	return found && equals && found < equals && equals[1];
}

static void note_launch_entry(const char *entry, struct mt_launch_env *out)
{
	const char *value;

	if ((value = value_of(entry, "WORLD_SIZE")))
		out->world_size = mt_os_parse_number(value);
	else if ((value = value_of(entry, "PYTORCH_NO_CUDA_MEMORY_CACHING")))
		out->torch_without_cache = strcmp(value, "1") == 0;
	else if ((value = value_of(entry, "XLA_PYTHON_CLIENT_ALLOCATOR")))
		out->jax_without_bfc = is_not(value, "default") && is_not(value, "bfc");
	else if ((value = value_of(entry, "TF_GPU_ALLOCATOR")))
		out->tensorflow_without_bfc = strcmp(value, "cuda_malloc_async") == 0;
	else if ((value = value_of(entry, "CUDA_INJECTION64_PATH")))
		out->cuda_injected |= *value != '\0';
	else if ((value = value_of(entry, "CUDA_MPS_PIPE_DIRECTORY")))
		out->cuda_mps = *value != '\0';
	else if (strncmp(entry, "NV_", 3) == 0)
		out->cuda_injected |= is_injection(entry);
	else if ((value = value_of(entry, "MEMORY_PRESSURE_WATCH")))
		copy_text(value, out->pressure_watch);
	else if ((value = value_of(entry, "XDG_STATE_HOME")))
		copy_text(value, out->state_home);
	else if ((value = value_of(entry, "HOME")) && !*out->state_home &&
		 strlen(value) + sizeof("/.local/state") <= MT_TEXT_MAX)
		(void)mt_format(out->state_home, MT_TEXT_MAX, "%s/.local/state", value);
}

void mt_config_parse_launch_env(const char *const *environ_list, struct mt_launch_env *out)
{
	size_t best = RANKS_COUNT;

	memset(out, 0, sizeof(*out));
	for (; environ_list != NULL && *environ_list != NULL; environ_list++) {
		if (**environ_list && strchr("WPXTMCNH", **environ_list))
			note_launch_entry(*environ_list, out);
		if (**environ_list && strchr("RSOP", **environ_list))
			note_rank(*environ_list, &best, out);
	}
}

/* ---- the live copies ---- */

static bool has_error; /* one was found by mt_config_read */

static void note_error(const char *line)
{
	(void)line;
	has_error = true;
}

static void log_error(const char *line)
{
	mt_log(MT_LOG_WARN, "%s", line);
}

const struct mt_launch_env *mt_config_launch_env(void)
{
	return &facts;
}

void mt_config_read(const char *const *environ_list)
{
	struct mt_config read;

	has_error = false;
	mt_config_parse(environ_list, &read, note_error);
	mt_config_parse_launch_env(environ_list, &facts);
	memcpy(&live, &read, sizeof(live));
	mt_store_release(&live_filled, true);
	mt_log_use(&live.log_level, live.log);
	if (has_error) /* again, now that the log has its level and its file */
		mt_config_parse(environ_list, &read, log_error);
}

enum mt_err mt_config_set(struct mt_config *config, const char *name, const char *value)
{
	bool prefixed = mt_format_upper(name[0]) == 'M' && mt_format_upper(name[1]) == 'T' &&
			name[2] == '_';
	enum mt_option option;

	name += prefixed ? 3 : 0;
	option = find_option(name, strlen(name), true);
	if (option == MT_OPTION_COUNT)
		return MT_ERR_UNKNOWN;
	if (!rows[option].is_live)
		return MT_ERR_START_ONLY;
	return store(config, option, value, MT_ORIGIN_SET);
}

enum mt_err mt_config_set_live(const char *name, const char *value)
{
	(void)mt_config(); /* else the defaults would overwrite this value later */
	return mt_config_set(&live, name, value);
}

void mt_config_format_origin(const struct mt_config *config, enum mt_option option, char *out,
			     size_t out_bytes)
{
	static const char *const words[] = {"default", "preset ", "an alias", "environment",
					    "mtctl set"};
	bool known = (unsigned)option < MT_OPTION_COUNT && config->origin[option] < COUNT(words);
	enum mt_origin origin = known ? (enum mt_origin)config->origin[option] : MT_ORIGIN_DEFAULT;
	size_t used;

	if (origin == MT_ORIGIN_ALIAS && config->origin_alias[option] < COUNT(aliases)) {
		(void)mt_format(out, out_bytes, "%s", aliases[config->origin_alias[option]].name);
		return;
	}
	used = mt_format(out, out_bytes, "%s", words[origin]);
	if (origin == MT_ORIGIN_PRESET)
		mt_config_format(config, MT_OPTION_preset, out + used, out_bytes - used);
}

/* ---- MT_ENABLE, MT_ONLY and MT_EXCLUDE: in which programs the shim works ---- */

/* Matches text with a pattern of `length` bytes that may contain * and ?. fnmatch(3) may allocate
 * and reads the locale. Backtracks to the last star only, which suffices for these two. */
static bool glob_matches(const char *pattern, size_t length, const char *text)
{
	size_t at = 0;
	size_t after_star = 0; /* 0: no star yet */
	const char *star_text = text;

	while (*text != '\0') {
		if (at < length && pattern[at] == '*') {
			after_star = ++at;
			star_text = text;
		} else if (at < length && (pattern[at] == '?' || pattern[at] == *text)) {
			at++;
			text++;
		} else if (after_star != 0) {
			at = after_star;
			text = ++star_text;
		} else {
			return false;
		}
	}
	while (at < length && pattern[at] == '*')
		at++;
	return at == length;
}

/* Returns whether a glob of the list matches. *out_count: number of globs. Ignores blanks around a
 * glob. */
static bool list_matches(const char *list, const char *program, unsigned *out_count)
{
	bool matches = false;
	unsigned count = 0;

	while (*list != '\0') {
		size_t length = strcspn(list, ",");
		const char *next = list + length;

		while (length > 0 && *list == ' ') {
			list++;
			length--;
		}
		while (length > 0 && list[length - 1] == ' ')
			length--;
		if (length > 0) {
			count++;
			matches = matches || glob_matches(list, length, program);
		}
		list = next + (*next == ',');
	}
	*out_count = count;
	return matches;
}

bool mt_config_admits(const struct mt_config *config, const char *program)
{
	const char *slash;
	unsigned count;

	if (config->enable == 0)
		return false;
	if (program == NULL)
		program = "";
	slash = strrchr(program, '/');
	if (slash != NULL)
		program = slash + 1;
	if (list_matches(config->exclude, program, &count))
		return false;
	return list_matches(config->only, program, &count) || count == 0;
}

/* ---- one value ---- */

/* words at odd positions are true */
static const char *const bool_words[] = {"0", "1", "off", "on", "no", "yes", "false", "true"};

/* Returns whether text starts with word, without regard to case; *rest is the text after it. */
static bool text_begins(const char *text, const char *word, const char **rest)
{
	for (; *word != '\0'; text++, word++)
		if (mt_format_lower(*text) != mt_format_lower(*word))
			return false;
	*rest = text;
	return true;
}

static bool text_is(const char *text, const char *word)
{
	const char *rest;

	return text_begins(text, word, &rest) && *rest == '\0';
}

/* Accepts decimal digits only: strtoul(3) accepts signs and blanks, and reads the locale. */
static enum mt_err parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	const char *at = text;
	uint64_t value = mt_os_parse_digits(&at);

	mt_assert(max < UINT64_MAX); /* what a larger number is read as */
	if (at == text || *at != '\0')
		return MT_ERR_INVALID;
	if (value < min || value > max)
		return MT_ERR_RANGE;
	*out = value;
	return MT_ERR_OK;
}

static enum mt_err parse_count(const struct mt_option_row *row, const char *text, uint64_t *out)
{
	if (!text_is(text, "auto"))
		return parse_number(text, row->min, row->max, out);
	*out = MT_COUNT_AUTO;
	return MT_ERR_OK;
}

static enum mt_err parse_bool(const char *text, uint64_t *out)
{
	for (size_t i = 0; i < sizeof(bool_words) / sizeof(bool_words[0]); i++)
		if (text_is(text, bool_words[i])) {
			*out = i & 1;
			return MT_ERR_OK;
		}
	return MT_ERR_INVALID;
}

static enum mt_err parse_choice(const char *words, const char *text, uint64_t *out)
{
	const char *word = words;

	for (uint64_t position = 0; word; position++) {
		size_t same = 0;

		while (word[same] != '|' && text[same] != '\0' &&
		       mt_format_lower(text[same]) == word[same])
			same++;
		if (text[same] == '\0' && (word[same] == '|' || word[same] == '\0')) {
			*out = position;
			return MT_ERR_OK;
		}
		word = strchr(word, '|');
		word = word ? word + 1 : NULL;
	}
	return MT_ERR_INVALID;
}

/* A signal that users send to end or stop a program, or that the kernel sends, keeps its meaning.
 * libc reserves the two below SIGRTMIN. */
static bool signal_is_supported(uint64_t number)
{
	return number == 0 || number == SIGUSR1 || number == SIGUSR2 ||
	       (number >= (uint64_t)SIGRTMIN && number <= (uint64_t)SIGRTMAX);
}

static enum mt_err parse_signal_number(const struct mt_option_row *row, const char *text,
				       uint64_t *out)
{
	uint64_t number;
	enum mt_err err = parse_number(text, row->min, row->max, &number);

	if (err != MT_ERR_OK)
		return err;
	if (!signal_is_supported(number))
		return MT_ERR_INVALID;
	*out = number;
	return MT_ERR_OK;
}

static enum mt_err parse_signal(const struct mt_option_row *row, const char *text, uint64_t *out)
{
	const char *name = text;
	const char *rest;
	uint64_t above;
	enum mt_err err;

	(void)text_begins(text, "SIG", &name);
	if (text_is(name, "USR1") || text_is(name, "USR2")) {
		*out = name[3] == '1' ? SIGUSR1 : SIGUSR2;
		return MT_ERR_OK;
	}
	if (text_is(text, "none")) {
		*out = 0;
		return MT_ERR_OK;
	}
	if (!text_begins(name, "RTMIN", &rest))
		return name == text ? parse_signal_number(row, text, out) : MT_ERR_INVALID;
	if (*rest == '\0') {
		*out = (uint64_t)SIGRTMIN;
		return MT_ERR_OK;
	}
	if (*rest != '+')
		return MT_ERR_INVALID;
	err = parse_number(rest + 1, 0, (uint64_t)(SIGRTMAX - SIGRTMIN), &above);
	if (err == MT_ERR_OK)
		*out = (uint64_t)SIGRTMIN + above;
	return err;
}

static enum mt_err parse_round(const struct mt_option_row *row, const char *text, uint64_t *out)
{
	const char *rest;
	uint64_t seconds;
	enum mt_err err;

	if (text_begins(text, "timer:", &rest)) {
		err = parse_number(rest, row->min, row->max, &seconds);
		if (err == MT_ERR_OK)
			*out = MT_ROUND_TIMER | seconds << 8;
		return err;
	}
	if (text_is(text, "mark"))
		*out = MT_ROUND_MARK;
	else if (text_is(text, "signal"))
		*out = MT_ROUND_SIGNAL;
	else if (text_is(text, "auto"))
		*out = MT_ROUND_AUTO;
	else
		return MT_ERR_INVALID;
	return MT_ERR_OK;
}

enum mt_err mt_config_value_parse(const struct mt_option_row *row, const char *text, uint64_t *out)
{
	switch ((enum mt_kind)row->kind) {
	case MT_KIND_bool:
		return parse_bool(text, out);
	case MT_KIND_u64:
		return parse_number(text, row->min, row->max, out);
	case MT_KIND_count:
		return parse_count(row, text, out);
	case MT_KIND_choice:
		return parse_choice(row->words, text, out);
	case MT_KIND_text:
		return strlen(text) < MT_TEXT_MAX ? MT_ERR_OK : MT_ERR_RANGE;
	case MT_KIND_signal:
		return parse_signal(row, text, out);
	case MT_KIND_round:
		return parse_round(row, text, out);
	}
	return MT_ERR_INVALID;
}

static void format_choice(const char *words, uint64_t position, char *out, size_t out_bytes)
{
	const char *word = words;

	for (; position > 0 && *word != '\0'; position--) {
		word += strcspn(word, "|");
		word += *word == '|';
	}
	(void)mt_format(out, out_bytes, "%.*s", (int)strcspn(word, "|"), word);
}

static void format_signal(uint64_t number, char *out, size_t out_bytes)
{
	if (number == 0)
		(void)mt_format(out, out_bytes, "none");
	else if (number == SIGUSR1 || number == SIGUSR2)
		(void)mt_format(out, out_bytes, "USR%c", number == SIGUSR1 ? '1' : '2');
	else
		(void)mt_format(out, out_bytes, "RTMIN+%lu",
				(unsigned long)number - (unsigned long)SIGRTMIN);
}

static void format_round(uint64_t round, char *out, size_t out_bytes)
{
	static const char *const words[] = {"timer", "mark", "signal", "auto"};
	enum mt_round_mode mode = mt_round_mode_of(round);

	if (mode == MT_ROUND_TIMER)
		(void)mt_format(out, out_bytes, "timer:%lu",
				(unsigned long)mt_round_seconds_of(round));
	else
		(void)mt_format(out, out_bytes, "%s", mode <= MT_ROUND_AUTO ? words[mode] : "?");
}

static void format_value(const struct mt_option_row *row, uint64_t value, char *out,
			 size_t out_bytes)
{
	switch ((enum mt_kind)row->kind) {
	case MT_KIND_bool:
		(void)mt_format(out, out_bytes, "%s", value != 0 ? "on" : "off");
		break;
	case MT_KIND_choice:
		format_choice(row->words, value, out, out_bytes);
		break;
	case MT_KIND_signal:
		format_signal(value, out, out_bytes);
		break;
	case MT_KIND_round:
		format_round(value, out, out_bytes);
		break;
	case MT_KIND_count:
		if (value == MT_COUNT_AUTO)
			(void)mt_format(out, out_bytes, "auto");
		else
			(void)mt_format(out, out_bytes, "%llu", (unsigned long long)value);
		break;
	case MT_KIND_u64:
	case MT_KIND_text:
		(void)mt_format(out, out_bytes, "%llu", (unsigned long long)value);
		break;
	}
}

void mt_config_format(const struct mt_config *config, enum mt_option option, char *out,
		      size_t out_bytes)
{
	const char *field;
	uint64_t value;

	if ((unsigned)option >= MT_OPTION_COUNT) {
		(void)mt_format(out, out_bytes, "%s", "");
		return;
	}
	field = (const char *)config + rows[option].offset;
	if (rows[option].kind == MT_KIND_text) {
		(void)mt_format(out, out_bytes, "%.*s", MT_TEXT_MAX - 1, field);
		return;
	}
	memcpy(&value, field, sizeof(value));
	format_value(&rows[option], value, out, out_bytes);
}

/* The unit of a number, which its name ends with; "" for a plain one. */
static const char *unit_of(const char *name)
{
	static const char *const units[][2] = {
		{"_ms", " ms"}, {"_mb", " MB"}, {"_gb", " GB"}, {"_pct", " %"}};
	const size_t length = strlen(name);

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		const size_t end = strlen(units[i][0]);

		if (length > end && strcmp(name + length - end, units[i][0]) == 0)
			return units[i][1];
	}
	return "";
}

void mt_config_value_allowed(const struct mt_option_row *row, char *out, size_t out_bytes)
{
	const unsigned long long min = row->min, max = row->max;

	mt_assert(min <= max);
	switch ((enum mt_kind)row->kind) {
	case MT_KIND_bool:
		(void)mt_format(out, out_bytes, "0|1|on|off|yes|no|true|false");
		break;
	case MT_KIND_u64:
		(void)mt_format(out, out_bytes, "%llu..%llu%s", min, max, unit_of(row->name));
		break;
	case MT_KIND_count:
		(void)mt_format(out, out_bytes, "%llu..%llu|auto", min, max);
		break;
	case MT_KIND_choice:
		(void)mt_format(out, out_bytes, "%s", row->words);
		break;
	case MT_KIND_text:
		(void)mt_format(out, out_bytes, "text of at most %d bytes", MT_TEXT_MAX - 1);
		break;
	case MT_KIND_signal:
		(void)mt_format(out, out_bytes, "USR1|USR2|RTMIN+n|none");
		break;
	case MT_KIND_round:
		(void)mt_format(out, out_bytes,
				"timer:SECONDS|mark|signal|auto, SECONDS %llu..%llu", min, max);
		break;
	}
}
