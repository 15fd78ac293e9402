/* core/cpu_load.h -- how busy the machine is, and how much of it this process may have. Read-only,
 * allocates nothing. For the worker alone; its state is the number of CPUs, counted again every
 * minute. */
#ifndef MT_CORE_CPU_LOAD_H
#define MT_CORE_CPU_LOAD_H

#include <stdbool.h>
#include <stdint.h>

struct mt_load {
	bool known;
	uint64_t load_thousandths; /* load average of the machine over one minute */
	/* that the main thread may run on; not more than a quota of CPU time comes to, rounded up
	 */
	uint64_t cpus_count;
};

/* root stands before every path ("" but in tests). now_ns: of a clock that does not go back. */
void mt_load_read(const char *root, uint64_t now_ns, struct mt_load *out);

/* "0.48 0.37 0.80 1/93 6653": the first, in thousandths. Pure. */
bool mt_load_parse(const char *text, uint64_t *out_thousandths);

/* CPU time of all threads of the process, ever; 0 unknown. */
uint64_t mt_load_process_cpu_ns(void);

void mt_load_fork_child(void);

#endif
