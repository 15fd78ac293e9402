/* core/devices.h -- what other components may ask about GPU devices. Owns a pointer to the
 * functions of gpu/, which reply once the process uses CUDA. Before that, and in a build without
 * gpu/, every reply is "none". Any thread may call unless a comment names the worker thread. Takes
 * no lock. */
#ifndef MT_CORE_DEVICES_H
#define MT_CORE_DEVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats_layout.h"

/* The functions of gpu/: type, name, parameters, arguments, and the reply before they are set. Each
 * is called as mt_devices_NAME.
 *
 * are_used: returns whether CUDA has started in this process, and not only in its parent.
 * are_capturing: returns whether a stream capture is open in this process.
 * have_context: returns whether the calling thread, one of the program, has a current context.
 * thread_runs: returns whether the shim's thread that calls the driver runs.
 * used_bytes: returns the bytes in use, by all processes, on the devices that this process uses:
 *     total - free; 0: unknown. here: the calling thread, one of the program, asks the driver;
 *     else the shim's driver thread does, within 5 s.
 * live_bytes: returns the bytes of device memory that the program holds, without a call of the
 *     driver. Worker thread.
 * rows: sets *out to the table of devices as published last, NULL if there is none, and returns
 *     its number of rows. Worker thread. */
#define MT_DEVICES_FUNCTIONS(X)                                                                    \
	X(bool, are_used, (void), (), false)                                                       \
	X(bool, are_capturing, (void), (), false)                                                  \
	X(bool, have_context, (void), (), false)                                                   \
	X(bool, thread_runs, (void), (), false)                                                    \
	X(uint64_t, used_bytes, (bool here), (here), 0)                                            \
	X(uint64_t, live_bytes, (void), (), 0)                                                     \
	X(uint32_t, rows, (const struct mt_stats_device **out), (out), (*out = NULL, 0))

struct mt_devices_ops {
#define X(type, name, parameters, arguments, none) type(*name) parameters;
	MT_DEVICES_FUNCTIONS(X)
#undef X
};

#define X(type, name, parameters, arguments, none) type mt_devices_##name parameters;
MT_DEVICES_FUNCTIONS(X)
#undef X

/* Makes gpu/ reply from now on. ops: must live as long as the process. */
void mt_devices_set(const struct mt_devices_ops *ops);

#endif
