/* config_facts.c -- what other programs' variables tell us. See config.h. */
#include "base/config.h"

#include <string.h>

#include "base/os.h"

/* The value of an entry that begins with name and an equals sign; NULL for any other. */
static const char *value_of(const char *entry, const char *name)
{
	size_t length = strlen(name);

	return strncmp(entry, name, length) == 0 && entry[length] == '=' ? entry + length + 1 : NULL;
}

/* Set, and to another word than this one, under which the framework does what it does unasked. */
static bool is_other(const char *value, const char *usual)
{
	return *value != '\0' && strcmp(value, usual) != 0;
}

/* Whole or not at all: a name that is cut is another one. */
static void keep_text(const char *value, mt_text out)
{
	size_t length = strlen(value);

	if (length < MT_TEXT_MAX)
		memcpy(out, value, length + 1);
}

static void note_entry(const char *entry, struct mt_config_facts *out)
{
	const char *value;

	if ((value = value_of(entry, "WORLD_SIZE")))
		out->world_size = mt_os_number(value);
	else if ((value = value_of(entry, "PYTORCH_NO_CUDA_MEMORY_CACHING")))
		out->torch_without_cache = is_other(value, "0");
	else if ((value = value_of(entry, "XLA_PYTHON_CLIENT_ALLOCATOR")))
		out->jax_without_bfc = is_other(value, "default") && is_other(value, "bfc");
	else if ((value = value_of(entry, "TF_GPU_ALLOCATOR")))
		out->tensorflow_without_bfc = strcmp(value, "cuda_malloc_async") == 0;
	else if ((value = value_of(entry, "MEMORY_PRESSURE_WATCH")))
		keep_text(value, out->pressure_watch);
	else if ((value = value_of(entry, "MEMORY_PRESSURE_WRITE")))
		keep_text(value, out->pressure_write);
}

void mt_config_facts_parse(const char *const *environ_list, struct mt_config_facts *out)
{
	memset(out, 0, sizeof(*out));
	for (; environ_list != NULL && *environ_list != NULL; environ_list++)
		if (strchr("WPXTM", **environ_list) && **environ_list)
			note_entry(*environ_list, out);
}
