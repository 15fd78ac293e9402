/* core/stats_layout.h -- the two small files every awake process has, in MT_DIR (default
 * /dev/shm/mtshim-UID, mode 0700, on a file system in memory), mode 0600, named
 * PID-STARTTIME-PIDNS.stats and .control (the control file):
 *   PID        as the process sees itself (getpid)
 *   STARTTIME  field 22 of /proc/self/stat, clock ticks since boot: tells a reused pid from the
 *     first
 *   PIDNS      inode of /proc/self/ns/pid: containers may share one /dev/shm and all be pid 1
 *
 * Stats file: written by the process with pwrite, read by anyone of the same user. A reader trusts
 * nothing in it: it checks magic, version, sizes and the checksum of the head (a write may be in
 * flight: read again), bounds every index, and prints text only after replacing what is not
 * printable. All integers are native-endian.
 *
 * Control file: written by mtctl under flock(LOCK_EX), read by the process with pread. mtctl writes
 * the request first, then adds 1 to `word` (mapped, by FUTEX_WAKE_OP), which wakes the worker. The
 * process trusts nothing in it beyond "one of these kinds, a level, or a setting within its range".
 * Another process of the user that runs out of device memory writes `rescue`, without the lock, and
 * wakes the worker likewise; the process itself writes `is_rescuer` and `rescue_reply`.
 *
 * Versions. A library is replaced while processes run the old one, so mtctl meets shims older and
 * newer than itself. Until 1.0 there is one format: any change of it raises MT_STATS_VERSION, be it
 * a place, a size, a count of a table (MT_..._COUNT), a figure, or the meaning of a number. mtctl
 * reads its own version alone. The head also has the sizes of its parts: a file of the same version
 * with other sizes is refused too. mtctl refuses another version in one line and leaves its process
 * and its files alone; only files of the dead are removed, by name. The control file has the
 * version of its stats file. A shim reads the files of others only for a rescue
 * (control_file.c). To a kind of request that it does not know it replies MT_ERR_OLDER. The file
 * of blocks (dump_layout.h) has a version of its own. */
#ifndef MT_CORE_STATS_LAYOUT_H
#define MT_CORE_STATS_LAYOUT_H

#include <linux/magic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "figures.def"

/* Whether a file system of this kind (f_type of statfs(2)) is in memory: on another one no process
 * makes files. */
#define MT_STATS_IS_MEMORY(type)                                                                   \
	((unsigned long)(type) == TMPFS_MAGIC || (unsigned long)(type) == RAMFS_MAGIC)

/* The files of a process: what follows the last dot of a name. */
#define MT_DUMP_KINDS(X) X(HEAP, "heap") X(BLOCKS, "blocks") X(LINES, "lines")
#define MT_FILE_KINDS(X)                                                                           \
	X(STATS, "stats") X(CONTROL, "control") MT_DUMP_KINDS(X) X(FRESH, "fresh") /* unfinished */

#define MT_STATS_MAGIC   0x31737461747374ull /* "tstats1" */
#define MT_CONTROL_MAGIC 0x316c727463746dull /* "mtctrl1" */
#define MT_STATS_VERSION 11u
/* Last cleanups kept: 15 minutes of them, at up to one in 3.5 s. 60 kB, of which a process has only
 * the pages that it has written: each cleanup is 240 bytes. */
#define MT_CLEANUPS_COUNT 256u
/* circular buffer of samples, which spans 15 minutes or less */
#define MT_SAMPLES_COUNT 1024u
/* room for settings; settings_count of them are filled */
#define MT_SETTINGS_COUNT 64u
/* room for devices; devices_count of them are filled */
#define MT_DEVICES_COUNT 16u
/* last out-of-memory reports kept */
#define MT_OOMS_COUNT 4u
/* last reports of MT_RSS_LIMIT_MB kept */
#define MT_LIMIT_REPORTS_COUNT 4u
/* MT_BUDGET_PCT holds from this time on: its first 300 ms come on top (purge/policy.h) */
#define MT_BUDGET_ADVANCE_MS 10000u
/* room for size classes; classes_count of them are filled */
#define MT_CLASSES_COUNT 256u
/* room for reasons; MT_REASON_COUNT of them are filled */
#define MT_REASONS_COUNT 32u

/* "nothing could be trimmed": no allocator, no gc */
#define MT_NULL_RESULT 2u

/* Which allocator serves malloc, as the shim sees it. */
#define MT_MODES(X)                                                                                \
	X(UNKNOWN, "")                                                                             \
	X(SYSTEM, "system")                                                                        \
	X(SHADOWED, "shadowed") /* another library's malloc stands before ours */                  \
	X(JEMALLOC, "jemalloc") /* the embedded one */                                             \
	X(LIBC, "system")       /* libc's, since the embedded one cannot serve: see evidence */

enum mt_mode {
#define X(name, text) MT_MODE_##name,
	MT_MODES(X) MT_MODE_COUNT
#undef X
};

/* Where CPython's small objects are, and why. */
#define MT_PYTHON_USES(X)                                                                          \
	X(UNKNOWN, "") /* no CPython, or one that has not asked */                                 \
	X(OBJECT_HEAP, "object heap")                                                              \
	X(MALLOC, "PYTHONMALLOC=malloc is answered")                                               \
	X(USERS, "PYTHONMALLOC is set by the user")                                                \
	X(OFF, "pymalloc: MT_PYTHON_MALLOC=off")                                                   \
	X(OTHER_ALLOCATOR, "pymalloc: better over this allocator")                                 \
	X(FREE_THREADED, "its own mimalloc: a free-threaded build")                                \
	X(DEV_MODE, "debug allocator: -X dev")                                                     \
	X(HOOKS, "the program or a library has its own functions in Python's allocators")          \
	X(MEMRAY, "pymalloc: memray records allocations")

enum mt_python_use {
#define X(name, text) MT_PYTHON_USES_##name,
	MT_PYTHON_USES(X) MT_PYTHON_USES_COUNT
#undef X
};

/* Why a cleanup ran. */
#define MT_REASONS(X)                                                                              \
	X(IDLE, "idle")               /* idle bytes reach the threshold */                         \
	X(LIVE_DROP, "live_drop")     /* live bytes dropped */                                     \
	X(SETTLE, "settle")           /* the heap is idle for MT_SETTLE_MS */                      \
	X(ROUND, "round")             /* MT_GC_ROUNDS, MT_HEAVY_ROUNDS */                          \
	X(SIGNAL, "signal")           /* SIGUSR1 */                                                \
	X(REQUEST, "request")         /* mtctl trim */                                             \
	X(API, "api")                 /* mt_trim() */                                              \
	X(MALLOC_TRIM, "malloc_trim") /* the program called malloc_trim */                         \
	X(LATE_GC, "late_gc")         /* a collection ran after its cleanup, and is in this one */ \
	X(EXIT, "exit")               /* MT_EXIT_CLEANUP */                                        \
	X(FRAMEWORK, "framework")     /* MT_FRAMEWORK_DECAY_MS */                                  \
	X(CAPTURE, "capture")         /* retries after a stream capture */                         \
	X(PRESSURE, "pressure")       /* usage is near a limit */                                  \
	X(RSS_LIMIT, "rss_limit")     /* RSS is near MT_RSS_LIMIT_MB */                            \
	X(HUGE_PAGES, "huge_pages")   /* the kernel has filled what was purged */                  \
	X(RESCUE, "rescue")           /* another process was out of device memory */

enum mt_reason {
#define X(name, text) MT_REASON_##name,
	MT_REASONS(X) MT_REASON_COUNT
#undef X
};

/* heap only; + gc; + GPU caches */
enum mt_level { MT_LEVEL_PURGE, MT_LEVEL_LIGHT, MT_LEVEL_HEAVY, MT_LEVEL_COUNT };

/* Where pressure comes from: bits of mt_stats_cleanup.pressure_sources. */
#define MT_PRESSURE_SOURCES(X)                                                                     \
	X(LIMIT, "limit") /* the nearest limit of the container or machine, or MT_LIMIT_MB */      \
	X(EVENTS,                                                                                  \
	  "events")       /* the container has just run into its limit (memory.events, failcnt) */ \
	X(STALL, "stall") /* tasks wait for memory: PSI, verified by its total */                  \
	X(DEVICE, "device") /* the memory of a GPU */                                              \
	X(RSS, "rss")       /* MT_RSS_LIMIT_MB */

enum mt_pressure_source {
#define X(name, text) MT_PRESSURE_##name,
	MT_PRESSURE_SOURCES(X) MT_PRESSURE_SOURCE_COUNT
#undef X
};

enum mt_pressure_level {
	MT_PRESSURE_NONE,
	MT_PRESSURE_WARN,
	MT_PRESSURE_CRITICAL,
	MT_PRESSURE_LEVEL_COUNT
};

/* The outcome of Python's gc in a cleanup. */
#define MT_GC_STATES(X)                                                                            \
	X(NONE, "none")                                                                            \
	X(DONE, "done")                                                                            \
	X(DISABLED, "disabled") /* by gc.disable() */                                              \
	X(LATE, "late")         /* the main thread runs C code; gc runs after that */              \
	X(BLOCKED, "blocked")   /* the main thread waits in a system call */                       \
	X(SHARED, "shared")     /* skipped: it would copy pages shared with forks */

enum mt_gc_state {
#define X(name, text) MT_GC_##name,
	MT_GC_STATES(X) MT_GC_COUNT
#undef X
};

/* The outcome of a flush of GPU caches in a cleanup: none to flush or not requested; done; skipped
 * during a stream capture; skipped because other ranks would wait (WORLD_SIZE). */
#define MT_GPU_STATES(X)                                                                           \
	X(NONE, "none")                                                                            \
	X(DONE, "done")                                                                            \
	X(CAPTURING, "capturing")                                                                  \
	X(RANKS, "ranks")

enum mt_gpu_state {
#define X(name, text) MT_GPU_##name,
	MT_GPU_STATES(X) MT_GPU_STATE_COUNT
#undef X
};

/* Frameworks whose caches Python emptied in a cleanup: bits of mt_stats_cleanup.frameworks. */
enum mt_framework_bit {
	MT_FRAMEWORK_TORCH = 1u << 0,
	MT_FRAMEWORK_CUPY = 1u << 1,
	MT_FRAMEWORK_NUMBA = 1u << 2
};

struct mt_stats_snapshot {
#define X(name, kind, known, recorded, help) uint64_t name;
	MT_STATS_FIELDS(X)
#undef X
};

/* One cleanup. Its number is 0 in an empty slot; the slot is (number - 1) % MT_CLEANUPS_COUNT. */
struct mt_stats_cleanup {
#define X(bits, name, known, help) uint##bits##_t name;
	MT_CLEANUP_FIELDS(X)
#undef X
};

/* One device. Devices are in the order of their ordinals in this process (after
 * CUDA_VISIBLE_DEVICES). */
struct mt_stats_device {
#define X(name, kind, known, recorded, help) uint64_t name;
	MT_DEVICE_FIELDS(X)
#undef X
	char name[64];
	char pci[32];  /* 0000:3b:00.0 */
	char mode[16]; /* "pool", "account", "off" */
};

/* A failed device allocation. Numbered as cleanups are. */
struct mt_stats_oom {
#define X(bits, name, known, label, help) uint##bits##_t name;
	MT_OOM_FIELDS(X)
#undef X
	char function[48]; /* cuMemAlloc_v2 */
};

/* A report of MT_RSS_LIMIT_MB. Numbered as cleanups are. */
struct mt_stats_limit_report {
#define X(bits, name, known, label, help) uint##bits##_t name;
	MT_LIMIT_REPORT_FIELDS(X)
#undef X
	char advice[160];
};

/* Live blocks of one size class, as the allocator counts them; on request (MT_REQUEST_CLASSES). */
struct mt_stats_class {
	uint64_t block_bytes;
	uint64_t live_count;
};

struct mt_stats_sample {
	uint64_t time_ns; /* CLOCK_REALTIME; 0: empty */
#define X(name, known, figure) uint64_t name;
	MT_SAMPLE_FIELDS(X)
#undef X
};

struct mt_stats_setting {
	char name[24];  /* as in options.def */
	char value[72]; /* as a user would write it, cut */
	/* "default", "preset client", "MALLOC_ARENA_MAX", "environment", "mtctl set" */
	char origin[40];
};

struct mt_stats_head {
	uint64_t magic;
	uint32_t version;    /* MT_STATS_VERSION */
	uint32_t head_bytes; /* sizeof(struct mt_stats_head) */
	uint32_t fields_count;
	uint32_t cleanup_bytes;
	uint32_t sample_bytes;
	uint32_t settings_count;
	uint32_t device_bytes;
	uint32_t devices_count; /* filled rows of devices */
	uint32_t oom_bytes;
	uint32_t limit_report_bytes;
	uint32_t class_bytes;
	/* filled rows of classes; 0: not requested, or unknown to the allocator */
	uint32_t classes_count;
	uint32_t classes_zero;
	/* CUDA version of the driver, 1000 * major + 10 * minor; 0 not used or unknown */
	uint32_t driver_version;
	uint64_t pid;
	uint64_t start_ticks; /* STARTTIME of the name */
	uint64_t pidns;       /* PIDNS of the name */
	char shim_version[16];
	char comm[32];
	char allocator[32]; /* jemalloc, glibc, tcmalloc, mimalloc, musl, unknown */
	/* the file that defines malloc, and how it was found */
	char evidence[160];
	uint64_t mode; /* enum mt_mode */
	/* the embedded jemalloc's effective conf; if not all of it fits, ",..." ends it */
	char conf[256];
	uint64_t python; /* enum mt_python_use */
	/* "" not used, "off", "pool", or "account: PyTorch's caching allocator sits on top" */
	char cuda[64];
	uint64_t time_ns;             /* CLOCK_REALTIME of the snapshot */
	uint64_t cleanups_count;      /* number of the last cleanup */
	uint64_t samples_count;       /* samples ever written; slot is (n - 1) % MT_SAMPLES_COUNT */
	uint64_t ooms_count;          /* number of the last out-of-memory report */
	uint64_t limit_reports_count; /* number of the last report of MT_RSS_LIMIT_MB */
	uint64_t classes_time_ns;     /* CLOCK_REALTIME at which the size classes were asked for */
	char limit_source[128];       /* the file or setting that holds pressure_limit_bytes */
	uint64_t world_size;          /* WORLD_SIZE; 0: unset */
	/* rank among the processes that train together, digits only; "": none */
	char rank[16];
	char rank_source[32]; /* the variable that holds it: RANK, SLURM_PROCID, ... */
	/* cleanups by enum mt_reason, without merged ones */
	uint64_t cleanups_by_reason[MT_REASONS_COUNT];
	/* field 28 of /proc/self/stat, a random place that every exec chooses again: tells what the
	 * process runs from what it ran before, under the same pid and start; 0 not random */
	uint64_t stack_start;
	struct mt_stats_snapshot snapshot;
	/* FNV-1a, 64 bit, by 8-byte words, of all of the head before this field */
	uint64_t checksum;
};

struct mt_stats_file {
	struct mt_stats_head head;
	struct mt_stats_setting settings[MT_SETTINGS_COUNT];
	struct mt_stats_device devices[MT_DEVICES_COUNT];
	struct mt_stats_oom ooms[MT_OOMS_COUNT];
	struct mt_stats_limit_report limit_reports[MT_LIMIT_REPORTS_COUNT];
	struct mt_stats_class classes[MT_CLASSES_COUNT];
	struct mt_stats_cleanup cleanups[MT_CLEANUPS_COUNT];
	struct mt_stats_sample samples[MT_SAMPLES_COUNT];
};

/* SAMPLE has the heap profiler sample for a while, whatever MT_PROF is. Its value is "LOOK MS":
 * LOOK identifies the session: the same number extends its time, and MS 0 ends it. */
#define MT_REQUEST_KINDS(X)                                                                        \
	X(TRIM, "trim")   /* level */                                                              \
	X(ROUND, "round") /* a round has ended */                                                  \
	X(SET, "set")     /* name, value */                                                        \
	X(RESET_PEAK, "reset-peak")                                                                \
	X(PUBLISH, "publish") /* only write fresh figures */                                       \
	X(CLASSES, "classes") /* fill the table of size classes */                                 \
	X(PROFILE, "profile") /* write a heap profile beside the stats file, NAME.heap */          \
	/* write the blocks of the GPU pool beside it, NAME.blocks: dump_layout.h */               \
	X(SNAPSHOT, "snapshot")                                                                    \
	X(LINES, "lines") /* look at Python's lines; value: dump_layout.h */                       \
	X(SAMPLE, "sample")

enum mt_request_kind {
	MT_REQUEST_NONE,
#define X(name, text) MT_REQUEST_##name,
	MT_REQUEST_KINDS(X) MT_REQUEST_COUNT
#undef X
};

/* the longest time of one MT_REQUEST_SAMPLE */
#define MT_SAMPLE_MS_MAX 3600000u

struct mt_request {
	/* larger than the one before; 0: none, or mtctl is writing. The reply is in
	 * snapshot.request_seq */
	uint64_t seq;
	uint32_t kind;  /* enum mt_request_kind */
	uint32_t level; /* enum mt_level, for MT_REQUEST_TRIM */
	char name[32];  /* for MT_REQUEST_SET */
	char value[96];
};

/* how long a process waits for the replies to one */
#define MT_RESCUE_NS 1000000000u

/* A process is out of device memory and asks others for what they do not use. */
struct mt_rescue_request {
	uint64_t asked_ns; /* CLOCK_MONOTONIC; written last */
	char device[16];   /* 0000:3b:00.0; "": any */
	uint64_t pid;      /* of the process that asks */
};

/* The reply. */
struct mt_rescue_reply {
	uint64_t asked_ns; /* of the request that it replies to */
	char device[16];   /* likewise */
	uint64_t bytes;    /* given back to the device so far */
	uint64_t pid;      /* of the process that had asked */
	uint64_t is_final; /* no more will follow */
};

struct mt_control_file {
	uint64_t magic;
	uint32_t version; /* MT_STATS_VERSION */
	uint32_t word;    /* the futex */
	struct mt_request request;
	uint64_t is_rescuer; /* 1: the process uses CUDA and replies to `rescue` */
	struct mt_rescue_request rescue;
	struct mt_rescue_reply rescue_reply;
};

_Static_assert(MT_REASON_COUNT <= MT_REASONS_COUNT, "every reason has its count");
_Static_assert(offsetof(struct mt_control_file, word) % 4 == 0, "a futex word is aligned");
_Static_assert(sizeof(struct mt_stats_head) % 8 == 0, "the checksum goes by 8-byte words");

/* ---- checksum ---- */

/* The checksum of the shim's files: FNV-1a, 64 bit, over 8-byte words. Writer and reader share it.
 * Any thread may call. Takes no lock, owns no state. It detects truncated and half-written files,
 * never a forged one. Source: http://www.isthe.com/chongo/tech/comp/fnv/, with words in the place
 * of bytes. */

#define MT_CHECKSUM_START 0xcbf29ce484222325ull

/* Returns the checksum of `bytes` bytes at words, continued from `sum`: MT_CHECKSUM_START at first.
 * Bytes after the last whole word do not count. */
static inline uint64_t mt_stats_checksum(uint64_t sum, const void *words, size_t bytes)
{
	const unsigned char *at = words;
	uint64_t word;

	for (size_t done = 0; done + sizeof(word) <= bytes; done += sizeof(word)) {
		memcpy(&word, at + done, sizeof(word));
		sum = (sum ^ word) * 0x100000001b3ull;
	}
	return sum;
}

#endif
