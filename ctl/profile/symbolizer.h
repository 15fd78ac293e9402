/* ctl/profile/symbolizer.h -- names code addresses in a child process. The files belong to another
 * process, whose owner may have put anything into them, and libdw parses them. So a child does
 * that, as user nobody where mtctl is root, with bounded time and memory. For one thread. */
#ifndef MT_CTL_PROFILE_SYMBOLIZER_H
#define MT_CTL_PROFILE_SYMBOLIZER_H

#include "ctl/profile/symbols.h"

/* Writes one text for each address, as of mt_symbols_name; the offset where the child failed or ran
 * out of time (10 s). The caller frees each. */
void mt_symbolizer_fill(struct mt_symbols *symbols, const uint64_t *addresses, size_t count,
			char **texts);

#endif
