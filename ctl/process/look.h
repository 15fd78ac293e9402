/* ctl/process/look.h -- what /proc tells of a process that does not carry the shim: whose its
 * resident memory is, which allocator serves malloc, what limits it. No figure of the allocator
 * itself: that is in the memory of the process, which is not read, but for the headers of Python's
 * pools (ctl/process/pymalloc.h). Sends no signal, attaches to nothing. One thread may call. */
#ifndef MT_CTL_PROCESS_LOOK_H
#define MT_CTL_PROCESS_LOOK_H

#include <sys/types.h>

#include "ctl/process/limit.h"
#include "ctl/process/obstacle.h"
#include "ctl/process/process.h"
#include "ctl/process/pymalloc.h"
#include "ctl/process/smaps.h"

/* Parts of RSS, by mapping. They add up to it.
 *   brk     [heap]: glibc's main arena, or what else calls brk(2)
 *   arenas  glibc's further arenas: see mt_look_sort in look_internal.h
 *   stacks  the main stack, and mappings above a guard page
 *   mapped  other anonymous memory: large blocks of malloc, other allocators, mmap
 *   files   pages of files, those that were written to included
 *   shared  /dev/shm, memfd, System V, MAP_SHARED without a file
 *   kernel  vdso, vvar */
#define MT_LOOK_PARTS(X)                                                                           \
	X(brk, "[heap] (brk)")                                                                     \
	X(arenas, "glibc's further arenas")                                                        \
	X(mapped, "other anonymous memory")                                                        \
	X(stacks, "stacks")                                                                        \
	X(files, "files")                                                                          \
	X(shared, "shared memory")                                                                 \
	X(kernel, "the kernel's")

/* The allocator of a program is told by the first of these that holds. */
enum mt_look_how {
	MT_LOOK_UNKNOWN, /* its maps name no libc */
	MT_LOOK_ASLEEP,  /* libc's, the shim's or its own: it publishes which when awake */
	MT_LOOK_LIBRARY, /* a library of an allocator is mapped */
	MT_LOOK_IN_FILE, /* the program's own file has the texts of one */
	MT_LOOK_LIBC,    /* libc's own: glibc, musl */
	MT_LOOK_STATIC   /* no dynamic loader is mapped: libc's, or any other */
};

#define MT_LOOK_RLIMITS(X)                                                                         \
	X(address_space, "Max address space")                                                      \
	X(data, "Max data size")                                                                   \
	X(resident, "Max resident set")                                                            \
	X(stack, "Max stack size")                                                                 \
	X(locked, "Max locked memory")

/* Soft limits in bytes; UINT64_MAX: unlimited, or not known. */
struct mt_look_rlimits {
#define X(name, word) uint64_t name##_bytes;
	MT_LOOK_RLIMITS(X)
#undef X
};

struct mt_look {
	struct mt_process process;
	char user[32]; /* its name, or its number */
	uint64_t threads_count;
	uint64_t rss_peak_bytes; /* VmHWM */
	uint64_t anon_bytes;     /* RssAnon */
#define X(name, label) uint64_t name##_bytes;
	MT_LOOK_PARTS(X)
#undef X
	struct mt_smaps_sizes total;
	/* of the main heap of libc's malloc and of its further arenas: neither resident nor swapped
	 * out, so that no live block is there */
	uint64_t heaps_absent_bytes;
	/* heaps of glibc's further arenas, 64 MB of addresses each: the number of those arenas, or
	 * more. Full heaps that lie side by side look like one mapping and are not counted */
	uint64_t arena_heaps_count;
	enum mt_look_how how;
	char allocator[32]; /* "glibc", "jemalloc", ...; "" for MT_LOOK_UNKNOWN, _ASLEEP, _STATIC */
	char allocator_file[96];
	enum mt_obstacle obstacle;
	bool is_off; /* it carries the shim, which its settings keep out of its program */
	bool is_python, is_go;
	char python_version[16];   /* "3.11"; "" if it cannot be told */
	char python_malloc[32];    /* PYTHONMALLOC; "" for none */
	bool arenas_known;         /* of pymalloc */
	struct mt_pymalloc arenas; /* of pymalloc */
	bool limit_known;
	struct mt_limit limit;
	struct mt_look_rlimits rlimits;
	char command[512]; /* as a shell takes it, cut and cleaned */
	bool is_command_cut;
	char unit[96];      /* systemd's: "nginx.service"; "" for none */
	char container[32]; /* "docker", "kubernetes", ...; "" for none */
};

/* Fills *out. Returns MT_ERR_UNKNOWN if there is no such process, MT_ERR_FOREIGN if it may
 * not be read: *why has whose it is. */
enum mt_err mt_look_read(pid_t pid, struct mt_look *out, struct mt_error_reason *why);

/* Reads heaps_absent_bytes of a process. Returns false if the kernel does not tell it. */
bool mt_look_heaps_absent(const struct mt_process *process, uint64_t *out_bytes);

/* ---- versions of what runs it ---- */

/* A text is "" if it cannot be told: another libc, a file that is not there any more. */
struct mt_runtime {
	char libc[128];  /* "glibc 2.36 (Debian GLIBC 2.36-9+deb12u10)" */
	char python[16]; /* "3.11" */
};

/* Reads the maps of the process. A child reads the file of libc, since it may lie on a file system
 * that hangs. */
void mt_runtime_read(pid_t pid, struct mt_runtime *out);

#endif
