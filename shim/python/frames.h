/* python/frames.h -- the lines of the calling thread's Python frames, for the samples of the heap
 * profiler: read from the interpreter's own structures, whose layout is known of CPython 3.11 to
 * 3.14 with a GIL. Owns a mapping of a fixed size in which each line has one address.
 *
 * A thread's own frames stay as they are while it is in a call of malloc, with the GIL or without
 * it: each holds its code, and the code its file name. Every byte is read by the kernel
 * (mt_os_read_own), and each object must have the type that is expected. So a layout that is not as
 * expected costs the lines, and never the program. No function of Python is called but
 * PyGILState_GetThisThreadState, which reads a thread-specific value. Never calls malloc. */
#ifndef MT_PYTHON_FRAMES_H
#define MT_PYTHON_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Finds the interpreter and maps the table; nothing if there is no interpreter that is known.
 * Worker thread. Calls the loader. */
void mt_frames_prepare(void);

/* Writes up to max addresses of lines to out, the innermost frame first. Returns how many: 0 for a
 * thread without Python, or if another thread adds a line now. Any thread. Addresses are even,
 * and stay valid. */
size_t mt_frames_lines(uintptr_t *out, size_t max);

/* Writes the lines to a file from offset `at` on, after the title MT_LINES_IN_PROFILE: "0x7f12 LINE
 * FILE" each. Nothing if there are none. Returns false if they could not be written in full.
 * Worker thread. */
bool mt_frames_write(int fd, uint64_t at);

/* Writes "FILE:LINE" of an address of a line. Returns false for any other address. Worker
 * thread. */
bool mt_frames_line_text(uintptr_t line, char *out, size_t out_bytes);

/* The lock of the table may be held by a thread that the child does not have. */
void mt_frames_fork_child(void);

#endif
