/* ctl/profile/symbolizer.h -- names of code addresses, found by a child process of ours. The files
 * behind them belong to the process that is looked at, whose owner may have put anything into them,
 * and libdw reads what it finds: so a child does that, which is nobody where we are root, and has
 * bounded time and memory. */
#ifndef MT_CTL_PROFILE_SYMBOLIZER_H
#define MT_CTL_PROFILE_SYMBOLIZER_H

#include "ctl/profile/symbols.h"

/* Texts as of mt_symbols_name; the offset, where the child did not get that far. The caller frees
 * each. */
void mt_symbolizer_fill(struct mt_symbols *symbols, const uint64_t *addresses, size_t count,
			char **texts);

#endif
