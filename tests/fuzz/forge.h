/* forge.h -- a stats file and a file of blocks as an input wants them, by the names of the layouts:
 * what is not named is as a process would have it, and the checksums are right, so that an input
 * gets behind them. */
#ifndef MT_FUZZ_FORGE_H
#define MT_FUZZ_FORGE_H

#include <stddef.h>

#include "ctl/channel/pool_snapshot.h"
#include "core/stats_layout.h"

/* Lines of the text: "comm sh", "heap_live_bytes 12", "record 3 number 4", "setting 0 value on",
 * ...; "fields 12" has so many figures in the head; "unsealed": the checksum is wrong; "cut 100"
 * ends the file there. *out is the caller's to free. */
size_t fuzz_forge_stats(char *text, unsigned char **out);

/* Lines: "base held asked age context device state" of a block, seven numbers; or a member of the
 * head, "unsealed", "cut 100". */
size_t fuzz_forge_blocks(char *text, unsigned char **out);

/* The same as fuzz_forge_stats without the ways to spoil a whole file: what a reader that has
 * checked it has at hand. */
void fuzz_forge_read(char *text, struct mt_stats_file *out);

/* Makes a file of Python lines of any bytes: what lies where the head has magic, version, sizes and
 * checksums is made right, and the content ends with NUL. Returns how many bytes; the caller frees.
 */
size_t fuzz_forge_lines(const char *text, size_t bytes, unsigned char **out);

#endif
