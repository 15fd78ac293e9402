/* ctl/process/obstacle.h -- why the shim does nothing in a program: from the head of its file, and
 * for a process from its ids as well. Every command that cannot reach a process says this. Reads 64
 * kB of the file; starts nothing, changes nothing. Any thread may call. */
#ifndef MT_CTL_PROCESS_OBSTACLE_H
#define MT_CTL_PROCESS_OBSTACLE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* as the end of a sentence about the program */
#define MT_OBSTACLES(X)                                                                            \
	X(NONE, "")                                                                                \
	X(STATIC, "it is linked statically: no library can be preloaded")                          \
	X(CLASS, "it is a program of 32 bits: the loader does not take the shim in")               \
	X(MACHINE, "it is a program for another processor")                                        \
	X(MUSL, "its libc is musl: the shim does nothing there")                                   \
	X(PRIVILEGED, "it runs with another user's or group's rights (setuid, setgid, file "       \
		      "capabilities): the loader ignores LD_PRELOAD")                              \
	X(GO, "it is written in Go, whose heap is its own: the shim reaches only what its C code " \
	      "allocates")

enum mt_obstacle {
#define X(name, text) MT_OBSTACLE_##name,
	MT_OBSTACLES(X)
#undef X
};

/* Returns what stands in the way of a program that user `uid` of group `gid` starts from this file.
 * Of a script its interpreter counts. Returns MT_OBSTACLE_NONE for a file that cannot be read. May
 * wait for the file system. */
enum mt_obstacle mt_obstacle_of_file(const char *path, uid_t uid, gid_t gid);

/* Writes the file that execvp(3) starts for a word of a command line to *out. Returns false if
 * there is none, or mtctl may not run it. */
bool mt_obstacle_find_command(const char *word, char *out, size_t out_bytes);

/* mt_obstacle_of_file for a running process. Does not wait for a file system: a child process
 * reads, which is ended after two seconds. */
enum mt_obstacle mt_obstacle_of_process(pid_t pid, uid_t uid);

const char *mt_obstacle_text(enum mt_obstacle obstacle);

#endif
