/* gpu/capture.h -- the capture gate: while a stream of the process captures into a graph, the shim
 * makes no call that could invalidate the capture.
 *
 * Recording an event of a context during a capture invalidates the capture, even in relaxed capture
 * mode. So the gate has two sides. A thread of the shim enters the gate around such a call. A
 * thread that begins a capture closes the gate and waits for the calls in flight. Frees for a
 * program that is out of memory, and queries while the gate is closed, are made in relaxed capture
 * mode.
 *
 * Owns the list of open captures (lock `captures`) and the gate (rank `gate`, the only one that is
 * held over calls to the driver). Threads inside the gate wait for no other thread. */
#ifndef MT_GPU_CAPTURE_H
#define MT_GPU_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/driver.h"

/* ---- calls that must not meet a capture ---- */

/* Returns false while a capture is open: then make no such call. After true mt_capture_gate_leave
 * must follow, on the same thread. */
bool mt_capture_gate_enter(void);
void mt_capture_gate_leave(void);

/* Close the gate before a capture begins, and around the end of a context: no such call is in the
 * driver, and none begins. Waits for the calls in flight, which do not wait for the device. The
 * thread is not cancelled from before the close until gate_open or mt_capture_after_begin
 * (mt_driver_forbid_cancel). A cuMemFree of the shim does not count as such a call: in relaxed
 * capture mode no capture is affected, and it may wait for the program's work, which may wait for
 * what comes after a capture. Only the end of its own context waits for it (mt_context_pause). */
void mt_capture_gate_close(void);
void mt_capture_gate_open(void);

/* Returns whether the gate is closed: a capture is open, or a context ends (a snapshot). */
bool mt_capture_is_open(void);

/* ---- captures begin and end: gpu/entries.c ---- */

/* After the driver's begin, before which the gate was closed. Keeps the stream as capturing on
 * success, else opens the gate again. is_ptsz: a NULL stream means the per-thread default
 * stream. */
void mt_capture_after_begin(const struct mt_driver *driver, struct CUstream_st *stream,
			    bool is_ptsz, int result);

/* After the driver's end: forgets the stream unless it still captures. */
void mt_capture_after_end(const struct mt_driver *driver, struct CUstream_st *stream, bool is_ptsz,
			  int result);

/* Returns the driver's word for a stream, enum mt_cu_capture_status or more. A query has no effect
 * on a capture. */
#define MT_CAPTURE_UNKNOWN (-1)
int mt_capture_status(const struct mt_driver *driver, struct CUstream_st *stream, bool is_ptsz);

/* Around the driver's cuStreamDestroy, whose success ends the capture. begin takes the stream's
 * capture out, so that a capture of a new stream with the same handle is not mistaken for it; the
 * gate stays closed. Returns it for end, which puts it back if the driver has refused; NULL:
 * none. */
struct mt_capture;
struct mt_capture *mt_capture_stream_destroy_begin(struct CUstream_st *stream);
void mt_capture_stream_destroy_end(struct mt_capture *taken, int result);

/* The context is gone, and its captures with it. */
void mt_capture_forget_context(struct CUctx_st *context);

#endif
