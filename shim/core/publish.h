/* core/publish.h -- the figures of this process that mtctl reads. Owns one copy of the stats file
 * in memory, and writes it to the file in whole or in part. Any thread may call, outside the
 * allocator. Each function takes the publish lock (rank publish) unless its comment says otherwise,
 * and holds it over the write of a few kB, never over a call of foreign code. */
#ifndef MT_CORE_PUBLISH_H
#define MT_CORE_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"
#include "core/files.h"
#include "core/stats_layout.h"

/* Texts for the fields of the same names in struct mt_stats_head. */
struct mt_publish_identity {
	const char *allocator, *evidence, *conf;
	enum mt_mode mode;
};

/* Makes the files and fills the head. Copies the texts. Worker thread. */
void mt_publish_start(const struct mt_config *config, const struct mt_publish_identity *identity);

/* Takes the lock and returns the snapshot, to read or write until mt_publish_unlock. */
struct mt_stats_snapshot *mt_publish_lock(void);
void mt_publish_unlock(void);

/* Writes the snapshot to the file; also a sample, if the last one is 0.9 s old. */
void mt_publish_write(void);

/* As mt_publish_write, after a cleanup: writes a sample if the last one after a cleanup is 0.9 s
 * old. An ordinary sample may show the memory just before the cleanup. */
void mt_publish_write_after_cleanup(void);

/* Numbers the result of a cleanup, stores it, and writes it to the file. */
void mt_publish_add_cleanup(struct mt_stats_cleanup *cleanup);

/* As mt_publish_add_cleanup, but leaves the write to the next call of that function. */
void mt_publish_queue_cleanup(struct mt_stats_cleanup *cleanup);

/* Skips `count` numbers, of merged requests that are not published one by one. */
void mt_publish_skip_cleanups(uint64_t count);

/* Copies the settings and writes them to the file. */
void mt_publish_set_settings(const struct mt_config *config);

/* Sets the head's field `python`. May be called before mt_publish_start. */
void mt_publish_set_python(enum mt_python_use use);

/* Sets the head's field `cuda`. driver_version: 1000 * major + 10 * minor. */
void mt_publish_set_cuda(const char *text, uint32_t driver_version);

/* Copies the table of devices, for the next write. count: up to MT_DEVICES_COUNT. */
void mt_publish_set_devices(const struct mt_stats_device *devices, uint32_t count);

/* Numbers a report about device memory, stores it, and writes it to the file. */
void mt_publish_add_oom(struct mt_stats_oom *oom);

/* Numbers a report about MT_RSS_LIMIT_MB, stores it, and writes it to the file. */
void mt_publish_add_limit_report(struct mt_stats_limit_report *limit_report);

/* Copies the table of size classes and writes it to the file. count: up to MT_CLASSES_COUNT. */
void mt_publish_set_classes(const struct mt_stats_class *classes, uint32_t count);

/* mt_files_begin_dump, mt_files_end_dump and mt_files_remove_dump under the lock. The caller writes
 * the dump between begin and end, without the lock. After mt_publish_end no dump is put in
 * place. */
enum mt_err mt_publish_begin_dump(char *out, size_t out_bytes);
enum mt_err mt_publish_end_dump(enum mt_dump dump, bool whole);
void mt_publish_remove_dump(enum mt_dump dump);

/* Removes a dump that nobody has fetched for a minute. *placed_ns: when it was put in place, 0
 * if there is none; is set to 0 if the dump is removed. now_ns: CLOCK_MONOTONIC. Returns when
 * to call again; UINT64_MAX: at any time. */
uint64_t mt_publish_expire_dump(enum mt_dump dump, uint64_t *placed_ns, uint64_t now_ns);

/* Sets the file or setting that defines pressure_limit_bytes, for the next write. */
void mt_publish_set_limit_source(const char *text);

/* Copies the whole stats file, with a fresh head. */
void mt_publish_copy(struct mt_stats_file *out);

/* Unlinks the files for good. inherited: if this process made none, also those that the program
 * before its exec may have left. */
void mt_publish_end(const struct mt_config *config, bool inherited);

/* pthread_atfork handlers: prepare takes the lock, parent releases it, child resets the module. */
void mt_publish_fork_prepare(void);
void mt_publish_fork_parent(void);
void mt_publish_fork_child(void);

#endif
