/* ctl/process/look_internal.h -- the pure parts of look.c, for its tests. */
#ifndef MT_CTL_PROCESS_LOOK_INTERNAL_H
#define MT_CTL_PROCESS_LOOK_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

struct mt_look;
struct mt_look_rlimits;
struct mt_smaps;

/* Sorts mappings into the parts. A heap of an arena of glibc begins at a multiple of 64 MB, above
 * 4 GB, where Java's may lie, and ends, with the part that is not writable yet, at the next one
 * (malloc/arena.c, HEAP_MAX_SIZE). A stack of a thread lies above a mapping that is neither
 * readable nor writable, and not at such an address (pthread_attr_setguardsize(3)). Pure. */
void mt_look_sort(const struct mt_smaps *smaps, struct mt_look *out);

/* Reads the text of /proc/PID/limits. Pure. */
void mt_look_parse_rlimits(const char *text, struct mt_look_rlimits *out);

/* Reads the text of /proc/PID/cgroup: the systemd service and the kind of container. Pure. */
void mt_look_parse_cgroup(const char *text, struct mt_look *out);

/* Finds glibc's version in the bytes of its file. Pure. */
bool mt_runtime_libc(const char *bytes, size_t length, char *out, size_t out_bytes);

/* Returns whether a file of this name, without its folder, is Python or its library. Writes its
 * version to *version if that is longer than what is there: "python3.11" after "python3". Pure.
 */
bool mt_runtime_python(const char *base, char *version, size_t version_bytes);

#endif
