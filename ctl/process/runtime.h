/* ctl/process/runtime.h -- the versions of what runs a program: glibc, by the text in the file that
 * the process has mapped, and Python, by the names of its files. One thread may call. */
#ifndef MT_CTL_PROCESS_RUNTIME_H
#define MT_CTL_PROCESS_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A text is "" where it cannot be told: another libc, a file that is not there any more. */
struct mt_runtime {
	char libc[128];  /* "glibc 2.36 (Debian GLIBC 2.36-9+deb12u10)" */
	char python[16]; /* "3.11" */
};

/* Reads the maps of the process. A child reads the file of libc, since it may lie on a file system
 * that hangs. */
void mt_runtime_read(pid_t pid, struct mt_runtime *out);

/* Finds glibc's version in the bytes of its file. Pure. */
bool mt_runtime_libc(const char *bytes, size_t length, char *out, size_t out_bytes);

/* Returns whether a file of this name, without its folder, is Python or its library. Writes its
 * version to *version where that is longer than what is there: "python3.11" after "python3". Pure.
 */
bool mt_runtime_python(const char *base, char *version, size_t version_bytes);

#endif
