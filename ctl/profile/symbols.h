/* ctl/profile/symbols.h -- names code addresses of a process, by its maps and the symbols and line
 * tables of the mapped files, read by elfutils' libdwfl. If a file is stripped, replaced or not
 * readable, or libdw.so.1 is missing, the name is the offset in the module. Nothing is fetched from
 * the network (debuginfod). For one thread. */
#ifndef MT_CTL_PROFILE_SYMBOLS_H
#define MT_CTL_PROFILE_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "ctl/process/process.h"

struct mt_symbols;

#define MT_SYMBOLS_NAME_BYTES 400 /* of a name, with its NUL */

/* Reads the maps of a process. FOREIGN: they may not be read. The caller frees with
 * mt_symbols_free. */
enum mt_err mt_symbols_new(const struct mt_process *process, struct mt_symbols **out,
			   struct mt_error_reason *why);
void mt_symbols_free(struct mt_symbols *symbols);

/* Returns the name of a return address: "leak at leak.c:12", "PyList_Append in python3.11", "0x1a2b
 * in libx.so", "0x7f12". Printable; C++ names are mangled, for c++filt. The caller frees. */
char *mt_symbols_name(struct mt_symbols *symbols, uint64_t return_address);

/* The same without reading any file: "0x1a2b in libx.so", "0x7f12". */
char *mt_symbols_offset(const struct mt_symbols *symbols, uint64_t return_address);

/* Names code by its place in a file: "PATH+0x1a2b", counted from the first byte of the file's first
 * mapping. Replaces each text that names one (from malloc(3)), unless the file has changed after
 * `seen`, or cannot be read. In a child process, as mt_symbolizer_fill. */
void mt_symbols_name_call_sites(char **texts, size_t count, time_t seen);

/* Whether the address lies in libmtshim.so. */
bool mt_symbols_is_shim(const struct mt_symbols *symbols, uint64_t return_address);

/* ---- symbolizer ---- */

/* Names code addresses in a child process. The files belong to another
 * process, whose owner may have put anything into them, and libdw parses them. So a child does
 * that, as user nobody if mtctl is root, with bounded time and memory. For one thread. */

/* Writes one text for each address, as of mt_symbols_name; the offset if the child failed or ran
 * out of time (10 s). The caller frees each. */
void mt_symbolizer_fill(struct mt_symbols *symbols, const uint64_t *addresses, size_t count,
			char **texts);

#endif
