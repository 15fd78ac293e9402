/* ctl/profile/symbols.h -- code addresses of a process as names: its maps, as the kernel tells
 * them, and the symbols and line tables of the files behind them, read by elfutils' libdwfl. A file
 * that is stripped, replaced or out of reach leaves the offset in the module, and so does a machine
 * without libdw.so.1. Nothing is fetched from the network (debuginfod). */
#ifndef MT_CTL_PROFILE_SYMBOLS_H
#define MT_CTL_PROFILE_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/process/process.h"

struct mt_symbols;

#define MT_SYMBOLS_NAME_BYTES 400 /* of a name, its end counted */

/* FOREIGN: its maps may not be read. The caller frees with mt_symbols_free. */
enum mt_err mt_symbols_new(const struct mt_process *process, struct mt_symbols **out,
			   struct mt_why *why);
void mt_symbols_free(struct mt_symbols *symbols);

/* Of a return address: "leak at leak.c:12", "PyList_Append in python3.11", "0x1a2b in libx.so",
 * "0x7f12". Printable; C++ names as they are in the file, for c++filt. The caller frees. */
char *mt_symbols_name(struct mt_symbols *symbols, uint64_t return_address);

/* The same without a look into any file: "0x1a2b in libx.so", "0x7f12". */
char *mt_symbols_offset(const struct mt_symbols *symbols, uint64_t return_address);

/* Loads libdw and opens the files of these addresses now, for who will not be allowed to later. */
void mt_symbols_open(struct mt_symbols *symbols, const uint64_t *return_addresses, size_t count);

/* Whether both return addresses lie in mappings of one file. */
bool mt_symbols_same_file(const struct mt_symbols *symbols, uint64_t one, uint64_t other);

/* Whether the address lies in libmtshim.so. */
bool mt_symbols_is_shim(const struct mt_symbols *symbols, uint64_t return_address);

#endif
