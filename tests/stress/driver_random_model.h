/* driver_random_model.h -- what the drawn calls have made so far: the same in every run whose
 * answers are the same. Under no lock: one thread at a time makes calls, and a storm reads it only.
 */
#ifndef DRIVER_RANDOM_MODEL_H
#define DRIVER_RANDOM_MODEL_H

#include "driver_random.h"

enum { BLOCKS = 32, STREAMS = 6, CONTEXTS = 5, MB = 1 << 20, NON_BLOCKING = 1, MEMORY_MB = 1000 };
enum kind { DEVICE, PITCH, MANAGED, ASYNC, PINNED, HANDLE, MAPPED };

struct block {
	uint64_t dptr; /* 0: none */
	unsigned long long handle;
	size_t bytes;
	enum kind kind;
	int context; /* its slot, -1: none was current */
};
struct stream {
	struct CUstream_st *stream; /* NULL: none, and the legacy stream where a call needs one */
	struct CUgraphExec_st *exec;
	int context;
	unsigned int flags;
	bool captures;
};
/* The first DEVICES are the primary ones, the last is of device 1. */
struct context {
	struct CUctx_st *context;
	unsigned int retained;
	size_t freed_bytes; /* of its cuMemAlloc memory, or more, since it began */
};
extern struct block blocks[BLOCKS];
extern struct stream streams[STREAMS];
extern struct context contexts[CONTEXTS];
extern struct CUfunc_st *kernel_delay, *kernel_illegal;
extern int driver_version;
extern bool has_green;

size_t drawn_size(uint32_t what, uint32_t how);
/* What the driver charges a device for what is live, or a little more. */
size_t live_bytes(int device);

/* driver_random_streams.c: host functions, gates among them (they wait for open_gates, or 400 ms),
 * streams and captures. */
extern bool is_gate_closed, is_gate_blocking;
void open_gates(void);
void change_stream(const struct draw *draw);
void launch(const struct draw *draw);
void change_capture(const struct draw *draw);
void green_context(const struct draw *draw);
/* False: a capture forbids it; it holds the primary context of device 0. */
bool end_green(void);
void end_streams(void);
void note_host_calls(void);

#endif
