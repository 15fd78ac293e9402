/* ctl/metrics/recording.h -- figures of processes over time, in memory: read from a file of `mtctl
 * record` or `mtctl stat --json`, or from the ring of a running process. The result is sorted by
 * time, its text is clean, and bytes are below 2^60, whatever the file contains. Memory is bounded
 * by MT_RECORDING_SAMPLES_MAX and _MARKS_MAX. For one thread. */
#ifndef MT_CTL_METRICS_RECORDING_H
#define MT_CTL_METRICS_RECORDING_H

#include <jansson.h>

#include "ctl/channel/target.h"
#include "ctl/figures/memory_parts.h"
#include "ctl/figures/stats_file.h"
#include "ctl/output/json.h"
#include "ctl/process/start_command.h"

#define MT_RECORDING_UNKNOWN UINT64_MAX
/* six weeks at one per second; later samples are left out with a warning */
#define MT_RECORDING_SAMPLES_MAX   ((size_t)4 << 20)
#define MT_RECORDING_MARKS_MAX     ((size_t)1 << 20)
#define MT_RECORDING_PROCESSES_MAX 4096u

/* The figures of core/figures.def that are read. */
#define MT_RECORDING_FIGURES(X)                                                                    \
	X(RSS, rss_bytes)                                                                          \
	X(ANON, rss_anon_bytes)                                                                    \
	X(LIVE, heap_live_bytes)                                                                   \
	X(DIRTY, heap_dirty_bytes)                                                                 \
	X(IDLE, heap_idle_bytes)                                                                   \
	X(SHMEM, rss_shmem_bytes)                                                                  \
	X(GPU_ALLOCATED, gpu_allocated_bytes)                                                      \
	X(GPU_RESERVED, gpu_reserved_bytes)

enum mt_recording_figure {
#define X(name, figure) MT_RECORDING_##name,
	MT_RECORDING_FIGURES(X) MT_RECORDING_FIGURES_COUNT
#undef X
};

struct mt_recording_sample {
	uint64_t time_ns; /* CLOCK_REALTIME; samples of one moment have the same */
	uint64_t pid;
	uint64_t bytes[MT_RECORDING_FIGURES_COUNT]; /* MT_RECORDING_UNKNOWN: not known then */
};

struct mt_recording_device {
	uint64_t time_ns, pid, ordinal;
	uint64_t allocated_bytes, reserved_bytes;
};

enum mt_recording_side { MT_RECORDING_BEFORE, MT_RECORDING_AFTER, MT_RECORDING_SIDES };

enum mt_recording_kind { MT_RECORDING_ROUND, MT_RECORDING_CLEANUP, MT_RECORDING_PRESSURE };

struct mt_recording_mark {
	enum mt_recording_kind kind;
	uint32_t level; /* enum mt_level, or enum mt_pressure_level */
	uint64_t time_ns, pid;
	uint64_t number;      /* of the round, or of the cleanup */
	uint64_t freed_bytes; /* RSS, 0 for none */
	uint64_t gpu_freed_bytes;
	/* Of a cleanup: its duration, of that the wait for Python's main thread, and the bytes at
	 * its start (time_ns) and at its end. */
	uint64_t duration_ns, gc_wait_ns, rss_bytes[MT_RECORDING_SIDES],
		live_bytes[MT_RECORDING_SIDES], anon_bytes[MT_RECORDING_SIDES];
	char reason[16]; /* of a cleanup */
	char gc[64];     /* what became of Python's collection, "" if none was asked for */
	bool is_late;    /* after a collection that an earlier cleanup had asked for */
};

struct mt_recording_process {
	uint64_t pid;
	char comm[32], command[160], rank[16];
	uint64_t program_ns; /* earlier samples are of another program, before an exec; 0: none */
	/* of its last line: its state, "" if unknown; and why its file is refused */
	char state[12], why[160];
};

struct mt_recording {
	char name[64]; /* of the file, without its ending; or of the process */
	char host[64];
	uint64_t pid;       /* the root: the process that was started or named */
	bool ended, killed; /* its exit is known; by a signal */
	uint64_t code;      /* the signal, or the exit code */
	uint64_t ended_ns;  /* CLOCK_REALTIME; 0: it continues, or the recorder was killed */
	/* of the root, by the kernel; 0: unknown */
	uint64_t rss_peak_bytes;
	/* CPU time of the root during the recording, of one that has been started with the children
	 * that it has waited for; MT_RECORDING_UNKNOWN */
	uint64_t cpu_ns;
	uint64_t cpu_first_ns; /* of the first sample of the root, since its start */
	struct mt_recording_process *processes;
	struct mt_recording_sample *samples;
	struct mt_recording_device *devices;
	struct mt_recording_mark *marks;
	size_t processes_count, samples_count, devices_count, marks_count;
	/* as they are in the file, not clean; NULL: there is none. Owned */
	json_t *header;      /* the first line */
	json_t *root;        /* the last line of the root with its settings, or all of a stat */
	uint64_t lost_count; /* lines or cleanups that the recording reports as missing */
	struct mt_error_reason warning; /* "" or up to which line the file is valid */
};

/* A recording without a line. */
#define MT_RECORDING_EMPTY                                                                         \
	((struct mt_recording){.cpu_ns = MT_RECORDING_UNKNOWN,                                     \
			       .cpu_first_ns = MT_RECORDING_UNKNOWN})

/* Reads a file. INVALID: not a recording, with the line and the reason. A file that is valid up to
 * some line is read up to there, with a warning. The caller frees with mt_recording_free. */
enum mt_err mt_recording_read(const char *path, struct mt_recording *out,
			      struct mt_error_reason *why);

/* Makes a recording from the ring of a running process. The caller frees. */
void mt_recording_of_process(const struct mt_target *target, struct mt_recording *out);

/* Makes one of what a process wrote down at its limit, with its end. The caller frees. */
void mt_recording_of_last_look(const struct mt_last_look *look, struct mt_recording *out);

void mt_recording_free(struct mt_recording *recording);

/* Returns the process of this pid; NULL: it has no samples. */
const struct mt_recording_process *mt_recording_process(const struct mt_recording *recording,
							uint64_t pid);

/* Returns the parts of a sample's RSS, of its `bytes`. If its heap is not known (asleep, without
 * the shim), all of it is other memory. Recordings by hand may lack the anonymous and the free
 * bytes. */
struct mt_memory_parts mt_recording_parts(const uint64_t *bytes);

/* Return the time of the first sample, and of the last sample, event or end; 0: there are no
 * samples. */
uint64_t mt_recording_begin_ns(const struct mt_recording *recording);
uint64_t mt_recording_end_ns(const struct mt_recording *recording);

/* Each adds an element. false or NULL: the limit is reached, and it was left out. */
bool mt_recording_add_sample(struct mt_recording *recording,
			     const struct mt_recording_sample *sample);
bool mt_recording_add_mark(struct mt_recording *recording, const struct mt_recording_mark *mark);
struct mt_recording_process *mt_recording_add_process(struct mt_recording *recording, uint64_t pid);

/* What a word of the command line names: a file with a recording, or with a last look, or a running
 * process with its ring of 15 minutes. */

/* Returns whether the word names a file: it is written as the path of one ("runs/a", "a.jsonl",
 * "a.json", "a.last"), or one of this name exists that may be a recording. A script in the present
 * directory ("train.py") is none, and names the process that runs it. */
bool mt_recording_is_file(const char *word);

/* Reads the file that the word names, or the ring of the process (mt_target_find), with fresh
 * figures. A file that is valid up to some line is read up to there, with a message. Returns the
 * exit code, after a message if it is not MT_EXIT_OK. The caller frees with mt_recording_free. */
enum mt_exit mt_recording_of_source(const char *word, struct mt_recording *out);

/* Records processes: writes the lines of `mtctl record`.
 * docs/mtctl/record.md has the format. Resident memory comes from the kernel, other figures from
 * the process, which is asked to publish first: live bytes of an older time would exceed RSS. If it
 * does not publish within a part of the interval, its last figures are used for a second, and none
 * after that. Memory grows only with the number of recorded processes. For one thread. */

#define MT_RECORDER_FORMAT  "mtshim-recording"
#define MT_RECORDER_VERSION 1

/* Without a fixed interval: bursts at the start are short, and a run of days shall not fill a disk.
 * From a minute to ten minutes the interval is a part of the time so far. */
#define MT_RECORDER_FIRST_NS UINT64_C(100000000)
#define MT_RECORDER_LAST_NS  UINT64_C(1000000000)
#define MT_RECORDER_PART     600u

struct mt_recorder_options {
	/* between samples; 0: MT_RECORDER_FIRST_NS at first, and more as the run grows */
	uint64_t interval_ns;
	/* also the shimmed descendants of the first process; without `shim` all descendants */
	bool tree;
	bool shim;    /* read stats files; else only /proc */
	bool started; /* the program was started by mtctl, which knows its exit status */
};

/* Returns the time to the next sample, since_ns after the first. Pure. */
uint64_t mt_recorder_interval_ns(const struct mt_recorder_options *options, uint64_t since_ns);

struct mt_recorder;

/* Starts a recording and writes its header. `lines` must outlive the recorder. Never returns NULL.
 */
struct mt_recorder *mt_recorder_make(const struct mt_process *root,
				     const struct mt_recorder_options *options,
				     struct mt_json_lines *lines);

/* Writes a sample of each process. Waits up to half of interval_ns, the time to the next sample,
 * for fresh figures. Returns false if the root has ended. */
bool mt_recorder_sample(struct mt_recorder *recorder, uint64_t interval_ns);

/* Writes new cleanups, rounds and changes of pressure, between samples, so that the ring of
 * cleanups does not overflow. Returns false if the root has ended. */
bool mt_recorder_poll(struct mt_recorder *recorder);

/* Writes the last lines: how each process has ended. Frees. */
void mt_recorder_end(struct mt_recorder *recorder, const struct mt_launch *launch);

#endif
