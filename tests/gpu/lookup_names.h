/* lookup_names.h -- the names without suffix of the driver's symbols, as programs ask for them. */
#ifndef LOOKUP_NAMES_H
#define LOOKUP_NAMES_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static inline bool is_twin(const char *symbol)
{
	const char *last = strrchr(symbol, '_');

	return last && (strcmp(last, "_ptsz") == 0 || strcmp(last, "_ptds") == 0);
}

/* In a buffer that the next call in this thread writes again. */
static inline const char *name_of(const char *symbol)
{
	static __thread char name[64];
	char *version;

	if (strcmp(symbol, "cuGraphInstantiateWithFlags") == 0)
		return "cuGraphInstantiate";
	(void)snprintf(name, sizeof(name), "%s", symbol);
	if (is_twin(name))
		*strrchr(name, '_') = '\0';
	version = strstr(name, "_v");
	if (version)
		*version = '\0';
	return name;
}

#endif
