/* core/dump_layout.h -- the formats of three dumps: NAME.last, NAME.lines and NAME.blocks, the last
 * two below. The last look, NAME.last: what a process was when its limit came near, for `mtctl
 * last` after the kernel has killed it. In MT_LAST_DIR, mode 0600, named PID-STARTTIME-PIDNS.last
 * as the stats file is (core/stats_layout.h). The process writes it under another name and renames
 * it when it is complete. All integers are native-endian; every text ends with NUL. A reader trusts
 * nothing in it: it checks magic, versions, size and checksum, bounds every count, and prints text
 * only after replacing what is not printable. */
#ifndef MT_CORE_DUMP_LAYOUT_H
#define MT_CORE_DUMP_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "core/stats_layout.h"

#define MT_LAST_MAGIC   0x317473616c746dull /* "mtlast1" */
#define MT_LAST_VERSION 1u
/* room for sites and for processes; the counts of the head are filled */
#define MT_LAST_SITES_COUNT     64u
#define MT_LAST_PROCESSES_COUNT 16u
/* so many processes of the cgroup are looked at: processes_total ends there */
#define MT_LAST_PROCESSES_MAX 256u
/* A folder keeps so many files; a process that adds one removes the oldest of the dead. */
#define MT_LAST_FILES_MAX 20u

/* Why the file was written: a critical level, or growth that meets the limit within seconds. */
#define MT_LAST_CAUSES(X)                                                                          \
	X(CRITICAL, "critical")                                                                    \
	X(GROWTH, "growth")

enum mt_last_cause {
#define X(name, text) MT_LAST_##name,
	MT_LAST_CAUSES(X) MT_LAST_CAUSE_COUNT
#undef X
};

/* A place in the program that made the heap grow. */
struct mt_last_site {
	uint64_t bytes;         /* by which the heap grew here since it was last smaller */
	uint64_t largest_bytes; /* largest single growth: about the size of a large block */
	uint64_t count;         /* how many times it grew here */
	/* Lines of Python, innermost first, one to a line: "FILE:LINE". In a program without Python
	 * the caller of malloc: "PATH+0x1a2b", counted from the first byte of the file's first
	 * mapping. */
	char text[488];
};

/* Another process of the limit's cgroup. */
struct mt_last_process {
	uint64_t pid;
	uint64_t rss_bytes;
	char comm[16];
};

struct mt_last_head {
	uint64_t magic;
	uint32_t version; /* MT_LAST_VERSION */
	uint32_t cause;   /* enum mt_last_cause */
	uint64_t file_bytes;
	uint64_t stats_bytes;
	uint64_t time_ns; /* CLOCK_REALTIME */
	/* of the nearest limit */
	uint64_t used_bytes;
	uint64_t limit_bytes;
	uint64_t growth_bytes; /* of the usage, in the second before */
	/* oom_kill of the limit's cgroup, so far; UINT64_MAX: unknown */
	uint64_t oom_kills_count;
	/* of the limit's cgroup, by its memory.stat; 0: unknown */
	uint64_t group_anon_bytes;
	uint64_t group_file_bytes; /* page cache, with shmem */
	uint64_t group_shmem_bytes;
	uint64_t group_kernel_bytes;
	/* of the process */
	uint64_t rss_bytes;
	uint64_t anon_bytes;
	uint64_t file_rss_bytes;
	uint64_t shmem_bytes;
	uint64_t swap_bytes;
	uint64_t compose_ns;   /* time that the last write of this file took; 0: none before */
	uint64_t writes_count; /* of this process */
	/* growth of the heap whose site is not known */
	uint64_t unknown_bytes;
	uint32_t sites_count;
	uint32_t processes_count;
	/* in the cgroup, this one included; MT_LAST_PROCESSES_MAX: so many or more */
	uint64_t processes_total;
	char limit_path[512]; /* file of the limit: its folder has the cgroup's other files */
	char command[512];    /* arguments, separated by blanks, cut */
	char status[2048];    /* /proc/self/status, cut */
};

struct mt_last_file {
	struct mt_last_head head;
	struct mt_last_site sites[MT_LAST_SITES_COUNT]; /* largest first */
	struct mt_last_process processes[MT_LAST_PROCESSES_COUNT];
	struct mt_stats_file stats;
	uint64_t checksum; /* core/stats_layout.h, of all before it */
};

_Static_assert(sizeof(struct mt_last_file) <= 256 * 1024, "the documented size of a file");
_Static_assert(offsetof(struct mt_last_file, checksum) % 8 == 0, "the checksum goes by words");

/* ---- lines layout ---- */

/* The format of the dump of Python's allocating lines, NAME.lines, mode 0600, that MT_REQUEST_LINES
 * makes beside the stats file: bytes and blocks by Python stack, as tracemalloc counts them. The
 * file also comes if the look failed; `outcome` then says why. The process writes it under another
 * name and renames it when it is complete; the requester unlinks it. When tracing has begun there
 * is one with the outcome BEGUN, for is_own. All integers are native-endian. A reader trusts
 * nothing in the file.
 *
 * The request's value is "MS DEPTH": how long to look, and how many frames of a stack to keep. MS 0
 * ends the look that runs.
 *
 * The order: head, stacks, frames, names. A name ends with NUL. */

/* In a heap profile the same lines stand behind jemalloc's text, after a line that says so: "0x7f12
 * 14 /app/train.py", an address that stands at the beginning of stacks, a line, and a file. */
#define MT_LINES_IN_PROFILE "PYTHON_LINES:"
/* The name, of line 0, of all files and lines beyond the tables. */
#define MT_LINES_REST "<further files and lines>"

#define MT_LINES_MAGIC   0x31736e696c746dull /* "mtlins1" */
#define MT_LINES_VERSION 2u
/* Further stacks are only counted. */
#define MT_LINES_STACKS_MAX 32768u
#define MT_LINES_FRAMES_MAX 262144u /* of all stacks */
#define MT_LINES_NAMES_MAX  (2u << 20)
/* of one stack */
#define MT_LINES_DEPTH_MAX 32u
/* A look ends early when about so many new blocks are live: to read more would stop the program for
 * too long. */
#define MT_LINES_BLOCKS_MAX 300000u
/* The program's own tracemalloc is not read if it holds more. */
#define MT_LINES_OWN_BLOCKS_MAX 1000000u
/* What tracemalloc uses for each block, and what reading it takes for a moment. Source: `make
 * bench-lines`. */
#define MT_LINES_TABLE_BYTES 60u
#define MT_LINES_READ_BYTES  210u
#define MT_LINES_MS_MAX      3600000u
/* Readings of one look, at equal distances; the last one is at its end. If a reading takes long
 * those between are left out. What comes and goes has the least chance to look like growth in all
 * of them. */
#define MT_LINES_READINGS 6u

/* What became of a look. The text completes "process 12 (python3): ". */
#define MT_LINES_OUTCOMES(X)                                                                       \
	X(DONE, "done")                                                                            \
	X(NO_PYTHON, "no Python interpreter runs in it")                                           \
	X(FREE_THREADED,                                                                           \
	  "not supported: a free-threaded build of Python, whose threads allocate without a lock") \
	X(NO_TRACEMALLOC, "its interpreter has no tracemalloc that can be used from outside")      \
	X(SUBINTERPRETERS,                                                                         \
	  "not supported: it has subinterpreters, with which tracemalloc can hang or crash")       \
	X(START_BLOCKED,                                                                           \
	  "not started: the main thread has waited in a system call for 2 s, and tracemalloc can " \
	  "only be started when it is back in Python")                                             \
	X(START_LATE,                                                                              \
	  "not started: the main thread has run C code for 2 s without a return to Python's "      \
	  "bytecode")                                                                              \
	X(END_BLOCKED,                                                                             \
	  "no result: since the end of the look the main thread has waited in a system call for "  \
	  "10 s. Nothing is traced any more; tracemalloc's tables are freed when it is back in "   \
	  "Python")                                                                                \
	X(END_LATE,                                                                                \
	  "no result: since the end of the look the main thread has run C code for 10 s. Nothing " \
	  "is traced any more; tracemalloc's tables are freed when it is back in Python")          \
	X(ENDED, "the interpreter has ended during the look")                                      \
	X(CLEARED, "the program has stopped or cleared tracemalloc during the look")               \
	X(HOOKED, "another profiler has hooks on Python's allocators since the last look")         \
	X(NO_MEMORY, "too little memory for the look")                                             \
	X(TOO_MANY, "the program's own tracemalloc holds so many blocks that reading them would "  \
		    "stop the program for long")                                                   \
	X(NEAR_LIMIT, "not read: it is too near its memory limit")                                 \
	X(FAILED, "a call of Python's has failed")                                                 \
	X(BEGUN, "the look goes on") /* a head alone; the result replaces it */

enum mt_lines_outcome {
#define X(name, text) MT_LINES_##name,
	MT_LINES_OUTCOMES(X) MT_LINES_OUTCOME_COUNT
#undef X
};

/* Why a look ended before its time. */
#define MT_LINES_CUTS(X)                                                                           \
	X(NONE, "")                                                                                \
	X(BLOCKS, "it holds as many new blocks as one look may follow")                            \
	X(LIMIT, "it came near its memory limit")                                                  \
	X(SUBINTERPRETER, "it has made a subinterpreter")                                          \
	X(REQUEST, "on request")

enum mt_lines_cut {
#define X(name, text) MT_LINES_CUT_##name,
	MT_LINES_CUTS(X) MT_LINES_CUT_COUNT
#undef X
};

struct mt_lines_stack {
	uint64_t bytes[MT_LINES_READINGS]; /* live at each reading */
	uint64_t first_count, last_count;  /* blocks at the first reading and at the last */
	uint32_t first_frame;              /* index; innermost frame first */
	uint32_t frames_count;
};

struct mt_lines_frame {
	uint32_t name; /* byte offset in the names */
	uint32_t line;
};

struct mt_lines_head {
	uint64_t magic;
	uint32_t version; /* MT_LINES_VERSION */
	uint32_t head_bytes;
	uint32_t stack_bytes;
	uint32_t stacks_count;
	uint32_t frames_count;
	uint32_t names_bytes; /* a multiple of 8, filled with NUL */
	uint64_t request_seq; /* the request that this file is for */
	uint32_t outcome;     /* enum mt_lines_outcome */
	uint32_t cut;         /* enum mt_lines_cut */
	/* 1: the program traces by itself, and the look only reads; the first reading is at the
	 * beginning. 0: the look traces, and nothing was traced at its beginning. */
	uint32_t is_own;
	uint32_t depth; /* frames that tracemalloc keeps of a stack */
	uint32_t readings_count;
	uint32_t readings_zero;
	uint64_t readings_ns[MT_LINES_READINGS]; /* since the beginning */
	uint64_t look_ns;                        /* from the beginning to the end of tracing */
	/* How long the main thread and the GIL were held: all calls together, and the longest. */
	uint64_t stopped_ns;
	uint64_t longest_stop_ns;
	uint64_t blocks_count;   /* that tracemalloc knew at the end */
	uint64_t tables_bytes;   /* of tracemalloc itself at the end */
	uint64_t left_out_bytes; /* live at the end, of stacks that did not fit */
	uint64_t left_out_count;
	uint64_t content_sum; /* core/stats_layout.h, of all that follows the head */
	uint64_t checksum;    /* the same of the head before this field */
};

_Static_assert(sizeof(struct mt_lines_stack) == 72, "no padding, and whole words for the sum");
_Static_assert(sizeof(struct mt_lines_frame) == 8, "whole words for the sum");
_Static_assert(sizeof(struct mt_lines_head) % 8 == 0, "the checksum goes by 8-byte words");

/* ---- blocks layout ---- */

/* The format of the device block dump, NAME.blocks, mode 0600, that MT_REQUEST_SNAPSHOT writes
 * beside the stats file: one entry for each block of the GPU pool. A block that is freed and
 * allocated again meanwhile may have two entries with one base: the later one is right. The process
 * writes the dump under another name and renames it when it is complete; the requester unlinks it.
 * All integers are native-endian. A reader trusts nothing in the file. */

#define MT_BLOCKS_MAGIC   0x31736b6c62746dull /* "mtblks1" */
#define MT_BLOCKS_VERSION 2u
/* 32 MB of file; further blocks are only counted */
#define MT_BLOCKS_MAX 1000000u
/* larger ordinals are stored as the last one */
#define MT_BLOCKS_DEVICES 256u

enum mt_blocks_state {
	MT_BLOCKS_LIVE, /* the program holds it */
	/* live, and other processes know its address: its free goes straight to the driver */
	MT_BLOCKS_EXPORTED,
	MT_BLOCKS_PENDING, /* freed; device work that may use it still runs */
	MT_BLOCKS_IDLE,    /* freed and ready */
	MT_BLOCKS_STATES
};

struct mt_blocks_entry {
	uint64_t base;        /* device address */
	uint64_t held_bytes;  /* requested from the driver */
	uint64_t asked_bytes; /* requested by the program, the last time for an idle block */
	/* since its allocation, or its free; UINT32_MAX: that or more */
	uint32_t age_ms;
	uint16_t context; /* numbered within the process */
	uint8_t device;   /* ordinal */
	uint8_t state;    /* enum mt_blocks_state */
};

struct mt_blocks_head {
	uint64_t magic;
	uint32_t version;        /* MT_BLOCKS_VERSION */
	uint32_t head_bytes;     /* sizeof(struct mt_blocks_head) */
	uint32_t entry_bytes;    /* sizeof(struct mt_blocks_entry) */
	uint32_t entries_count;  /* they follow the head */
	uint64_t left_out_count; /* blocks beyond MT_BLOCKS_MAX */
	uint64_t time_ns;        /* CLOCK_REALTIME at the beginning */
	uint64_t duration_ns;    /* from the first block to the last */
	uint64_t decay_ms;       /* MT_CUDA_DECAY_MS */
	uint64_t entries_sum;    /* core/stats_layout.h, of all entries */
	uint64_t checksum;       /* the same of the head before this field */
};

_Static_assert(sizeof(struct mt_blocks_entry) == 32, "no padding, and whole words for the sum");
_Static_assert(sizeof(struct mt_blocks_head) % 8 == 0, "the checksum goes by 8-byte words");

#endif
