/* core/publish.h -- the figures of this process as mtctl sees them: one copy in memory, written
 * whole or in part to the stats file. All calls under the publish lock (held over the write of a
 * few kB, never over anything else). */
#ifndef MT_CORE_PUBLISH_H
#define MT_CORE_PUBLISH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config.h"
#include "core/files.h"
#include "core/stats_layout.h"

struct mt_publish_identity {
	const char *allocator, *evidence, *mode, *conf;
};

/* Makes the files and fills the head. Text is copied. */
void mt_publish_start(const struct mt_config *config, const struct mt_publish_identity *identity);

/* The one snapshot, between lock and unlock. */
struct mt_stats_snapshot *mt_publish_lock(void);
void mt_publish_unlock(void);

/* The snapshot as it is now goes to the file; a sample too, when the last one is old enough. Takes
 * the lock itself. */
void mt_publish_write(void);

/* The same after a cleanup, with a sample where the last such is old enough: the one before may be
 * of the tick that found it necessary, and the next seconds away. */
void mt_publish_write_after_cleanup(void);

/* Numbers the record, keeps it, writes it. */
void mt_publish_add_cleanup(struct mt_stats_cleanup *record);

/* Numbers the record and keeps it; it is written with the next one that is. */
void mt_publish_queue_cleanup(struct mt_stats_cleanup *record);

/* Passes over the numbers of records that at least MT_CLEANUPS_COUNT others are about to follow. */
void mt_publish_skip_cleanups(uint64_t count);

/* Settings have changed. */
void mt_publish_set_settings(const struct mt_config *config);

/* What became of PYTHONMALLOC; may come before mt_publish_start. */
void mt_publish_set_python(const char *text);

/* How CUDA is dealt with here, and the driver's version. */
void mt_publish_set_cuda(const char *text, uint32_t driver_version);

/* The table of devices; it goes to the file with the next write. */
void mt_publish_set_devices(const struct mt_stats_device *devices, uint32_t count);

/* Numbers the report, keeps it, writes it. */
void mt_publish_add_oom(struct mt_stats_oom *oom);

/* Likewise, of MT_RSS_LIMIT_MB. */
void mt_publish_add_alarm(struct mt_stats_alarm *alarm);

/* The table of size classes, written at once. count: at most MT_CLASSES_COUNT. */
void mt_publish_set_classes(const struct mt_stats_class *classes, uint32_t count);

/* What files.h says of products, under the lock: between begin and end the file is written, without
 * it. After the end of the process nothing is put in place any more. */
enum mt_err mt_publish_begin_dump(char *out, size_t out_bytes);
enum mt_err mt_publish_end_dump(enum mt_dump dump, bool whole);
void mt_publish_remove_dump(enum mt_dump dump);

/* The file or setting that holds pressure_limit_bytes; it goes to the file with the next write. */
void mt_publish_set_limit_source(const char *text);

/* The files go. inherited: where this process has made none, also those that the program before its
 * exec may have left. */
void mt_publish_end(const struct mt_config *config, bool inherited);
void mt_publish_fork_prepare(void);
void mt_publish_fork_parent(void);
void mt_publish_fork_child(void);

#endif
