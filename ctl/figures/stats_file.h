/* ctl/figures/stats_file.h -- reads a stats file, which may be half written, cut, forged, or of
 * another version. It is read with pread(2) into memory of mtctl, never mapped: a file that shrinks
 * under a mapping raises SIGBUS. After a successful read every index is in range and every text is
 * ended and printable. The figures themselves are what the process says. Knows no process and no
 * directory: that is stats_dir.h. One thread may call. */
#ifndef MT_CTL_FIGURES_STATS_FILE_H
#define MT_CTL_FIGURES_STATS_FILE_H

#include <sys/types.h>

#include "core/dump_layout.h"
#include "core/stats_layout.h"
#include "ctl/figures/figures.h"
#include "ctl/output/error.h"

/* Reads the whole file. If the checksum is wrong, reads again up to 50 times, 1 ms apart: a
 * write may be in progress. Returns MT_ERR_INVALID for a file that is no stats file, or of another
 * version. Invalid slots are returned empty. */
enum mt_err mt_stats_file_read(int fd, struct mt_stats_file *out, struct mt_error_reason *why);

/* The same for a copy in memory: mt_stats_file_check returns MT_ERR_INVALID if the head is not
 * valid; then mt_stats_file_clean empties invalid slots and cleans the text. */
enum mt_err mt_stats_file_check(const struct mt_stats_file *file, struct mt_error_reason *why);
void mt_stats_file_clean(struct mt_stats_file *file);

/* The same for the head alone. */
enum mt_err mt_stats_file_read_head(int fd, struct mt_stats_head *out, struct mt_error_reason *why);

/* Reads the table of devices for a head of the same file: head->devices_count entries of `out`.
 * Returns MT_ERR_INVALID if the file is cut short. */
enum mt_err mt_stats_file_read_devices(int fd, const struct mt_stats_head *head,
				       struct mt_stats_device *out, struct mt_error_reason *why);

/* mt_stats_file_read_head with one try: MT_ERR_INVALID may mean that a write is in progress. */
enum mt_err mt_stats_file_try_head(int fd, struct mt_stats_head *out, struct mt_error_reason *why);

/* Returns a sample of the ring, from the oldest (0) to the newest (MT_SAMPLES_COUNT - 1). Its
 * time_ns is 0 where there is none yet. */
static inline const struct mt_stats_sample *mt_stats_file_sample(const struct mt_stats_file *file,
								 size_t number)
{
	return &file->samples[(file->head.samples_count + number) % MT_SAMPLES_COUNT];
}

/* Returns the cleanup of this number, or of this request; NULL if it is not in the file. A
 * cleanup that was merged into the next one is that one. */
const struct mt_stats_cleanup *mt_stats_file_cleanup(const struct mt_stats_file *file,
						     uint64_t number);
const struct mt_stats_cleanup *mt_stats_file_cleanup_of_request(const struct mt_stats_file *file,
								uint64_t seq);

/* Returns whether the process has called a function of libcuda that the shim wraps. */
bool mt_stats_file_uses_cuda(const struct mt_stats_head *head);

/* Return the report of this number of MT_RSS_LIMIT_MB, or of a device out of memory; NULL if it
 * is not in the file. */
const struct mt_stats_limit_report *mt_stats_file_limit_report(const struct mt_stats_file *file,
							       uint64_t number);
const struct mt_stats_oom *mt_stats_file_oom(const struct mt_stats_file *file, uint64_t number);

/* Returns whether the process has this setting with the value "0" or "off". */
bool mt_stats_file_is_off(const struct mt_stats_file *file, const char *name);

/* Returns the value of a setting as a number; 0 if it is missing or a word ("auto"). */
uint64_t mt_stats_file_number(const struct mt_stats_file *file, const char *name);

/* Returns the value of a setting as text, NULL if the process has no such setting. */
const char *mt_stats_file_setting(const struct mt_stats_file *file, const char *name);

/* Returns how many cleanups had a reason that this mtctl does not know. */
uint64_t mt_stats_file_other_cleanups(const struct mt_stats_head *head);

/* Cleanups for a reader: what one cost apart from what it waited
 * for, and a collection that ran after its cleanup together with it. Pure: any thread may call. */

struct mt_cleanup_entry {
	const struct mt_stats_cleanup *cleanup;
	/* the cleanup that followed the collection which this one had asked for; NULL: none did */
	const struct mt_stats_cleanup *late;
	/* an earlier cleanup had asked for that collection already; `late` is in its entry */
	bool has_joined;
	uint64_t merged_count; /* requests that were merged into it */
};

/* Writes the cleanups of the file to `out`, the oldest first. `out` has room for
 * MT_CLEANUPS_COUNT. Returns how many. A late collection without a cleanup that asked for it
 * (malloc asked, near a limit, or the cleanup is not kept any more) is an entry of its own. */
size_t mt_cleanup_history(const struct mt_stats_file *file, struct mt_cleanup_entry *out);

/* Returns the time that the cleanup took without the wait for Python's main thread, during which
 * it did nothing and held nobody up. */
uint64_t mt_cleanup_cost_ns(const struct mt_stats_cleanup *cleanup);

/* Returns what became of Python's collection, in a few words: "1,234 objects", "waits: the main
 * thread is in a system call"; "-" if none was asked for. */
struct mt_short_text mt_cleanup_gc_text(const struct mt_cleanup_entry *entry);

/* Returns when the oldest cleanup in the file was, in ns of CLOCK_REALTIME, if older ones are
 * not kept any more; 0 if all are. */
uint64_t mt_cleanup_kept_since_ns(const struct mt_stats_file *file);

/* Returns a table (ctl/output/table.h) with a row for each entry, in their order. */
struct mt_table *mt_cleanup_table(const struct mt_stats_head *head,
				  const struct mt_cleanup_entry *entries, size_t count);

/* The files in which processes have written what they held when their
 * limit came near (core/dump_layout.h). The files are not trusted: magic, versions, sizes, checksum
 * and each count are checked, and all text is cleaned. For one thread. */

/* What became of the process, as far as it can be told. */
#define MT_LAST_FATES(X)                                                                           \
	X(RUNS, "running", "still runs")                                                           \
	X(KILLED, "killed", "was killed by the kernel for its limit")                              \
	X(ENDED, "ended", "is gone, without an exit of its own")

enum mt_last_fate {
#define X(name, word, text) MT_LAST_##name,
	MT_LAST_FATES(X) MT_LAST_FATE_COUNT
#undef X
};

struct mt_last_look {
	char path[600];
	char evidence[160]; /* of the fate: "oom_kill of the cgroup rose from 0 to 1"; "" */
	enum mt_last_fate fate;
	struct mt_last_file file;
};

/* Returns the folder that is read: `given`, or MT_LAST_DIR, or the user's state folder. "" if
 * there is none. */
void mt_last_look_folder(const char *given, char *out, size_t out_bytes);

/* Returns whether the file begins as one of these files does. */
bool mt_last_look_is_file(const char *path);

/* Reads a file. Returns MT_ERR_INVALID, with the reason, for one that is not valid, MT_ERR_OLDER
 * for one of another version. */
enum mt_err mt_last_look_read(const char *path, struct mt_last_look *out,
			      struct mt_error_reason *why);

/* Says in one line on stderr that the kernel has killed the process at its limit, if the process
 * has left a file that `mtctl last` explains. Else nothing. */
void mt_last_look_say(pid_t pid);

/* Reads all valid files of a folder, the newest first. Returns how many; the caller frees *out. */
size_t mt_last_look_list(const char *folder, struct mt_last_look **out);

#endif
