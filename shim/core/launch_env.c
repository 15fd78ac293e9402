/* core/launch_env.c -- reads variables of other programs. Contract: core/config.h. */
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

/* Returns the value of an entry NAME=VALUE with this name; NULL for another entry. */
static const char *value_of(const char *entry, const char *name)
{
	size_t length = strlen(name);

	return strncmp(entry, name, length) == 0 && entry[length] == '=' ? entry + length + 1
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
	(void)mt_format(out->rank, sizeof(out->rank), "%s", value);
	(void)mt_format(out->rank_source, sizeof(out->rank_source), "%s", rank_variables[index]);
}

/* NV_...INJECTION...=VALUE, VALUE not empty. */
static bool is_injection(const char *entry)
{
	const char *found = strstr(entry, "INJECTION"), *equals = strchr(entry, '=');

	return found && equals && found < equals && equals[1];
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

void mt_launch_env_parse(const char *const *environ_list, struct mt_launch_env *out)
{
	size_t best = RANKS_COUNT;

	memset(out, 0, sizeof(*out));
	for (; environ_list != NULL && *environ_list != NULL; environ_list++) {
		if (**environ_list && strchr("WPXTMCNH", **environ_list))
			note_entry(*environ_list, out);
		if (**environ_list && strchr("RSOP", **environ_list))
			note_rank(*environ_list, &best, out);
	}
}
