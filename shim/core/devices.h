/* core/devices.h -- what other components may ask about GPU devices. Owns a pointer to the
 * functions of gpu/, which reply once the process uses CUDA. Before that, and in a build without
 * gpu/, every reply is "none". Any thread may call unless a comment names the worker thread. Takes
 * no lock. */
#ifndef MT_CORE_DEVICES_H
#define MT_CORE_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats_layout.h"

struct mt_devices_ops {
	bool (*are_used)(void);
	bool (*are_capturing)(void);
	bool (*have_context)(void);
	bool (*thread_runs)(void);
	uint64_t (*used_bytes)(bool here);
	uint64_t (*live_bytes)(void);
	uint32_t (*rows)(const struct mt_stats_device **out);
};

/* Makes gpu/ reply from now on. ops: must live as long as the process. */
void mt_devices_set(const struct mt_devices_ops *ops);

/* Returns whether CUDA has started in this process, and not only in its parent. */
bool mt_devices_are_used(void);

/* Returns whether a stream capture is open in this process. */
bool mt_devices_are_capturing(void);

/* Returns whether the calling thread, a thread of the program, has a current context. */
bool mt_devices_have_context(void);

/* Returns whether the shim's thread that calls the driver runs. */
bool mt_devices_thread_runs(void);

/* Returns the bytes in use, by all processes, on the devices that this process uses: total - free;
 * 0: unknown. here: the calling thread, one of the program, asks the driver; else the shim's driver
 * thread does, within 5 s. */
uint64_t mt_devices_used_bytes(bool here);

/* Returns the bytes of device memory that the program holds, without a call of the driver. Worker
 * thread. */
uint64_t mt_devices_live_bytes(void);

/* Sets *out to the table of devices as published last and returns its number of rows. Worker
 * thread. */
uint32_t mt_devices_rows(const struct mt_stats_device **out);

#endif
