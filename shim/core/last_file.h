/* core/last_file.h -- the file of the last look on disk (core/dump_layout.h): its folder, its name,
 * the write and the removal. Owns both names. Worker thread only, unless a comment says otherwise.
 * These take no lock, keep errno and never allocate. A slow disk delays the worker, and nobody
 * else.
 *
 * The folder is MT_LAST_DIR, or else $XDG_STATE_HOME/mtshim, or else $HOME/.local/state/mtshim. The
 * default is used only if it lasts: not on an overlay, as the root of a container is, nor in
 * memory. No folder on a network is used, since its server may be away. The folder must belong to
 * this user, and only this user may write to it. */
#ifndef MT_CORE_LAST_FILE_H
#define MT_CORE_LAST_FILE_H

#include <stdbool.h>

#include "core/dump_layout.h"

/* Returns whether this process may write a file, as far as it can be told before; asks the file
 * system once. */
bool mt_last_file_is_wanted(void);

/* Writes the file, over the last one of this process. Makes the folder; the first write removes the
 * oldest files of dead processes beyond MT_LAST_FILES_MAX. Fills magic, versions, sizes and
 * checksum. Returns false if it could not; the last one then stays. */
bool mt_last_file_write(struct mt_last_file *file);

/* Removes the file, if this process has written one. Any thread; async-signal-safe. */
void mt_last_file_remove(void);

/* A forked child has no file. */
void mt_last_file_fork_child(void);

#endif
