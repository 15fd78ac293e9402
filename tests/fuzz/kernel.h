/* kernel.h -- the two halves of fuzz_kernel.c: their headers have one enum of errors each, and no
 * file can see both. */
#ifndef MT_FUZZ_KERNEL_H
#define MT_FUZZ_KERNEL_H

#include "fuzz.h"

struct kernel_options {
	const char *cgroup; /* MT_CGROUP */
	const char *watch;  /* MEMORY_PRESSURE_WATCH */
	uint64_t limit_mb, exact_pct;
};

/* The files below fuzz_root as shim/pressure reads them. */
void kernel_shim(const struct kernel_options *options);

/* The same, and those of process 42, as mtctl does. */
void kernel_ctl(const struct kernel_options *options);

/* Texts by themselves. */
void kernel_shim_text(const struct fuzz_part *part);
void kernel_ctl_text(const struct fuzz_part *part);

#endif
