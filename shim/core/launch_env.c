/* config_facts.c -- what other programs' variables tell us. See config.h. */
#include "core/config.h"

#include <string.h>

#include "core/log.h"
#include "sys/os.h"
#include "sys/format.h"

static const char *const rank_variables[] = {
#define X(name) #name,
	MT_RANK_VARIABLES(X)
#undef X
};

#define RANKS_COUNT (sizeof(rank_variables) / sizeof(rank_variables[0]))

/* The value of an entry that begins with name and an equals sign; NULL for any other. */
static const char *value_of(const char *entry, const char *name)
{
	size_t length = strlen(name);

	return strncmp(entry, name, length) == 0 && entry[length] == '=' ? entry + length + 1
									 : NULL;
}

/* Set, and to another word than this one, under which the framework does what it does unasked. */
static bool is_not(const char *value, const char *usual)
{
	return *value != '\0' && strcmp(value, usual) != 0;
}

/* Whole or not at all: a name that is cut is another one. */
static void copy_text(const char *value, mt_text out)
{
	size_t length = strlen(value);

	if (length < MT_TEXT_MAX)
		memcpy(out, value, length + 1);
}

/* Decimal digits alone, and few enough that `out_bytes` hold them all. */
static bool is_rank(const char *value, size_t out_bytes)
{
	size_t digits = strspn(value, "0123456789");

	return digits > 0 && digits < out_bytes && value[digits] == '\0';
}

/* The place of this entry's name in the list of variables, the count of them for any other entry.
 */
static size_t rank_index(const char *entry, const char **value)
{
	size_t index = 0;

	for (; index < RANKS_COUNT; index++)
		if ((*value = value_of(entry, rank_variables[index])))
			break;
	return index;
}

/* Of two variables the one that stands first in the list counts; of one that is there twice, the
 * first entry, as for getenv. */
static void note_rank(const char *entry, size_t *best, struct mt_launch_env *out)
{
	const char *value;
	size_t index = rank_index(entry, &value);

	if (index >= *best || !is_rank(value, sizeof(out->rank)))
		return;
	*best = index;
	(void)mt_format(out->rank, sizeof(out->rank), "%s", value);
	(void)mt_format(out->rank_source, sizeof(out->rank_source), "%s", rank_variables[index]);
}

static void note_entry(const char *entry, struct mt_launch_env *out)
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
	else if ((value = value_of(entry, "MEMORY_PRESSURE_WATCH")))
		copy_text(value, out->pressure_watch);
	else if ((value = value_of(entry, "MEMORY_PRESSURE_WRITE")))
		copy_text(value, out->pressure_write);
}

void mt_launch_env_parse(const char *const *environ_list, struct mt_launch_env *out)
{
	size_t best = RANKS_COUNT;

	memset(out, 0, sizeof(*out));
	for (; environ_list != NULL && *environ_list != NULL; environ_list++) {
		if (**environ_list && strchr("WPXTM", **environ_list))
			note_entry(*environ_list, out);
		if (**environ_list && strchr("RSOP", **environ_list))
			note_rank(*environ_list, &best, out);
	}
}
