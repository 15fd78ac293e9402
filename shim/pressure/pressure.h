/* pressure/pressure.h -- watches the limits of container, machine, devices and of the process
 * itself, cleans up when one comes near, and tells: figures in the snapshot, lines on the log,
 * records, alarms. What to do is pressure_policy.h's word. Worker thread only. */
#ifndef MT_PRESSURE_H
#define MT_PRESSURE_H

#include <stdint.h>

/* A look and what follows from it, if it is time, or the process has grown much since the last one.
 * After the tick, whose figures it takes. When to come again, in ns of CLOCK_MONOTONIC. */
uint64_t mt_pressure_tick(uint64_t now_ns);

/* Fresh figures in the snapshot, without deciding anything. */
void mt_pressure_refresh(void);

void mt_pressure_fork_child(void);

#endif
