/* gpu/capture.h -- the capture gate. While a stream of the process captures into a graph, no call
 * of ours that could invalidate the capture is made: no event is recorded, nothing is synchronised.
 * What is queried or given back for a program that is out of memory is so in relaxed capture mode,
 * past the gate. Recording an event of a context during a capture *invalidates* the capture, hence
 * the gate's two sides: who begins a capture raises it and waits for the recorders in flight; a
 * recorder holds it over its call. The one lock of ours that is held over driver calls: recorders
 * wait for nobody while inside. Readers are counted in cells of their own, so that threads do not
 * share a line. */
#ifndef MT_GPU_CAPTURE_H
#define MT_GPU_CAPTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/driver.h"

/* ---- recorders ---- */

/* False while a capture is open: then make no such call. True: mt_capture_gate_leave must follow, on the
 * same thread. */
bool mt_capture_gate_enter(void);
void mt_capture_gate_leave(void);

/* Around the end of a context: no recorder is in the driver, and none begins. The thread is not
 * cancelled meanwhile. Not counted among recorders is a cuMemFree of ours: in relaxed capture mode
 * no capture minds it, and it may wait for the device for as long as the program's work takes,
 * which may itself wait for what comes after a capture. The end of its own context alone waits for
 * it (mt_context_destroy_begin, mt_context_pause). */
void mt_capture_gate_close(void);
void mt_capture_gate_open(void);
bool mt_capture_is_ending(void); /* a snapshot */

/* A capture is open, or a context ends (a snapshot). */
bool mt_capture_is_open(void);

/* Puts the calling thread into the relaxed capture mode, in which no capture minds its calls, but
 * for recording. Answers the mode it had, for mt_capture_restore; MT_CAPTURE_NOT_RELAXED: the
 * driver refused. */
#define MT_CAPTURE_NOT_RELAXED (-1)
int mt_capture_relax(const struct mt_driver *driver);
void mt_capture_restore(const struct mt_driver *driver, int mode);

/* ---- who begins and ends captures: gpu/entries_capture.c ---- */

/* Before the driver's begin: raises the gate and waits for recorders in flight, whose calls do not
 * wait for the device (but without cuCtxRecordEvent). In between the thread is not cancelled. After
 * it: keeps the stream as capturing on success, else lowers the gate again. `is_ptsz` names the
 * per-thread default stream for a NULL stream. */
void mt_capture_before_begin(void);
void mt_capture_after_begin(const struct mt_driver *driver, struct CUstream_st *stream,
			    bool is_ptsz, int result);

/* After the driver's end: forgets the stream unless the driver still calls it capturing. */
void mt_capture_after_end(const struct mt_driver *driver, struct CUstream_st *stream, bool is_ptsz,
			  int result);

/* Around the driver's cuStreamDestroy, which ends the stream's capture if it succeeds. Between the
 * two another thread may have got the same handle for a new stream: a capture of that one is not
 * concerned. */
void mt_capture_stream_destroy_begin(struct CUstream_st *stream);
void mt_capture_stream_destroy_end(struct CUstream_st *stream, int result);

/* The context is gone, and its captures with it. */
void mt_capture_forget_context(struct CUctx_st *context);

/* A capture is open or about to begin, whatever ends meanwhile: the driver may refuse calls that it
 * would not refuse else. */
bool mt_capture_is_any(void);

/* Captures are open, and every thread that began one has ended. Those of per-thread default
 * streams, which end with their thread, are forgotten. The rest may be ended by another thread, or
 * never: so no fence is made, but what is idle may decay. Asks the kernel about each thread: for
 * the worker thread. */
bool mt_capture_is_abandoned(void);

void mt_capture_fork_child(void);

#endif
