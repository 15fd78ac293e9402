/* core/devices.h -- what other components may ask about GPU devices. The answers come from gpu/
 * once the process uses CUDA. Before that, and in a build without gpu/, they say that nothing is
 * there. Any thread unless a comment says otherwise; no lock. */
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

/* gpu/ answers from now on. ops: never freed. */
void mt_devices_set(const struct mt_devices_ops *ops);

/* CUDA has started in this process, not in its parent. */
bool mt_devices_are_used(void);

/* A stream capture is open in this process. */
bool mt_devices_are_capturing(void);

/* The calling thread, one of the program's, has a current context. */
bool mt_devices_have_context(void);

/* The thread that calls the driver for us runs. */
bool mt_devices_thread_runs(void);

/* Bytes in use on the devices that this process uses, by everybody: total - free; 0: unknown. here:
 * the calling thread asks the driver, and must be a thread of the program; else our own thread
 * does, within 5 s. */
uint64_t mt_devices_used_bytes(bool here);

/* Bytes of device memory that the program holds. The driver is not asked. Worker thread. */
uint64_t mt_devices_live_bytes(void);

/* The table of devices as it was published last, and its number of rows. Worker thread. */
uint32_t mt_devices_rows(const struct mt_stats_device **out);

#endif
