/* fakecuda.h -- what the stand-in for libcuda.so.1 offers to tests beyond the CUDA Driver API: a
 * ledger, injected errors, the names of its kernels. Every function here is exported by each of the
 * libraries in build/tests/fakecuda (and 11.0/, 12.2/, 12.8/, 13.0/ below it) and may be called at
 * any time from any thread, also before cuInit and after fakecuda_deinitialize. A program that must
 * also run without it looks them up with dlsym.
 *
 * Settings, read once from the environment:
 *   FAKECUDA_DEVICES=1         devices, 1 to 8
 *   FAKECUDA_MEMORY_MB=1024    capacity of each
 *   FAKECUDA_OTHER_MB=0        of it, what another process (4242) is said to hold on device 0
 *   FAKECUDA_GRANULARITY=2097152  what memory is charged in; small allocations share such pieces
 *   FAKECUDA_VERSION=13000     answered and looked up by cuGetProcAddress: lowers what the library
 *     was built for
 *   FAKECUDA_REUSE=0           1: a freed address is handed out again at once; 0: only after 4,096
 *     others of its size
 *   FAKECUDA_FREE_WAITS=1      cuMemFree waits for 0: nothing, 1: the context's blocking streams,
 *     2: all of its streams
 *   FAKECUDA_GREEN_SEEN=1      a primary context's event sees the work of its green contexts, as
 *     cuda.h 13.0 says; 0: it does not
 *   FAKECUDA_LATENCY_US=cuMemAlloc_v2=100,cuMemFree_v2=50  sleep at the entry of these, before any
 *     effect
 *   FAKECUDA_FAIL=cuMemAlloc_v2:3=2,...  the third call answers 2 without doing anything; name:0=2:
 *     every call
 *   FAKECUDA_ABORT=0           1: misuse (below) aborts with a line on stderr
 *   FAKECUDA_LOG=file          a line for each call: thread, name
 *   FAKECUDA_SHARED=file       processes that name the same file see each other's memory on the
 *     devices; a new file is made
 *   FAKECUDA_LEDGER=file       at the end of the process, what is still live as one JSON line */
#ifndef FAKECUDA_H
#define FAKECUDA_H

#include <stddef.h>
#include <stdint.h>

/* What memory was asked for with; the order is that of the ledger. */
enum fakecuda_kind {
	FAKECUDA_DEVICE,  /* cuMemAlloc */
	FAKECUDA_PITCH,   /* cuMemAllocPitch */
	FAKECUDA_MANAGED, /* cuMemAllocManaged */
	/* cuMemAllocAsync, cuMemAllocFromPoolAsync: handed out, without what a pool keeps */
	FAKECUDA_ASYNC,
	FAKECUDA_GRAPH,      /* allocated by a graph */
	FAKECUDA_VMM,        /* cuMemCreate */
	FAKECUDA_ARRAY,      /* arrays and mipmapped arrays */
	FAKECUDA_PINNED,     /* cuMemHostAlloc, cuMemAllocHost */
	FAKECUDA_REGISTERED, /* cuMemHostRegister */
	FAKECUDA_IPC,        /* opened from another process */
	FAKECUDA_KIND_COUNT
};

struct fakecuda_ledger {
	uint64_t live_bytes[FAKECUDA_KIND_COUNT]; /* as asked for */
	uint64_t live_count[FAKECUDA_KIND_COUNT];
	uint64_t charged_bytes; /* of all devices' capacity, with what async pools keep */
	uint64_t peak_charged_bytes;
	uint64_t contexts; /* primary ones count while they are active */
	uint64_t streams;  /* without default streams */
	uint64_t events;
	uint64_t graphs; /* and executable ones */
	uint64_t modules;
	uint64_t calls;
	/* freed memory was touched on the device; a free that was refused counts in refused_frees
	 */
	uint64_t misuses;
	uint64_t refused_frees;
};

void fakecuda_ledger(struct fakecuda_ledger *out);

/* Bytes charged to a device now; 0 for a device that is none. */
uint64_t fakecuda_used_bytes(int device);

/* Contexts of a device that are alive now. */
unsigned int fakecuda_contexts(int device);

/* How often the function of this symbol was entered, refused calls included; 0 for a name that is
 * none. */
uint64_t fakecuda_calls(const char *symbol);

/* From now on the nth call (1 is the next one; 0: every one) of this symbol answers code and does
 * nothing. Replaces an earlier order for the symbol; code 0 takes it back. Answers 0, or -1 for a
 * name that is none. */
int fakecuda_fail(const char *symbol, unsigned int nth, int code);

/* Sleep this long at each entry of the symbol; 0 or -1 like fakecuda_fail. */
int fakecuda_latency(const char *symbol, unsigned int us);

/* From now on every call answers CUDA_ERROR_DEINITIALIZED, as at the end of a process. */
void fakecuda_deinitialize(void);

/* Misuse (work of a stream touches memory that is not there or not its context's) makes a sticky
 * error 700 of the context, as on a GPU; with 1, it aborts with one line on stderr instead. */
void fakecuda_abort_on_misuse(int on);

/* The kernels that every module has, whatever was loaded; each sleeps delay_us, then acts. One
 * thread of the grid is enough, the launch's dimensions are ignored. Parameters in the order of
 * kernelParams:
 *   fake_fill    uint64_t dptr, uint64_t bytes, uint32_t byte, uint32_t delay_us
 *   fake_check   uint64_t dptr, uint64_t bytes, uint32_t byte, uint64_t result, uint32_t delay_us
 *                (*(uint64_t *)result = how many bytes differ)
 *   fake_delay   uint32_t delay_us
 *   fake_illegal uint32_t delay_us  (touches an address that is not there) */
#define FAKECUDA_KERNEL_FILL    "fake_fill"
#define FAKECUDA_KERNEL_CHECK   "fake_check"
#define FAKECUDA_KERNEL_DELAY   "fake_delay"
#define FAKECUDA_KERNEL_ILLEGAL "fake_illegal"

#endif
