/* core/lines_layout.h -- the format of the dump of Python's allocating lines, NAME.lines, mode
 * 0600, that MT_REQUEST_LINES makes beside the stats file: bytes and blocks by Python stack, as
 * tracemalloc counts them. The file also comes if the look failed; `outcome` then says why. The
 * process writes it under another name and renames it when it is complete; the requester unlinks
 * it. When tracing has begun there is one with the outcome BEGUN, for is_own. All integers are
 * native-endian. A reader trusts nothing in the file.
 *
 * The request's value is "MS DEPTH": how long to look, and how many frames of a stack to keep. MS 0
 * ends the look that runs.
 *
 * The order: head, stacks, frames, names. A name ends with NUL. */
#ifndef MT_CORE_LINES_LAYOUT_H
#define MT_CORE_LINES_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

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
	uint64_t content_sum; /* core/checksum.h, of all that follows the head */
	uint64_t checksum;    /* the same of the head before this field */
};

_Static_assert(sizeof(struct mt_lines_stack) == 72, "no padding, and whole words for the sum");
_Static_assert(sizeof(struct mt_lines_frame) == 8, "whole words for the sum");
_Static_assert(sizeof(struct mt_lines_head) % 8 == 0, "the checksum goes by 8-byte words");

#endif
