/* sparse_environment.h -- makes the kernel say that the environment of this process is so many
 * bytes, which nobody has touched (prctl(2), PR_SET_MM_MAP: needs no privilege). */
#ifndef SPARSE_ENVIRONMENT_H
#define SPARSE_ENVIRONMENT_H

#include <linux/prctl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { STAT_FIELDS = 52 };

/* Fields of /proc/self/stat, by their numbers in proc(5). */
static inline void read_stat_fields(uint64_t fields[STAT_FIELDS])
{
	char text[2048] = "";
	FILE *file = fopen("/proc/self/stat", "r");
	char *at = file && fgets(text, sizeof(text), file) ? strrchr(text, ')') + 2 : NULL;

	for (int i = 3; at && i < STAT_FIELDS;
	     i++, at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL)
		fields[i] = strtoull(at, NULL, 10);
	if (file)
		fclose(file);
}

/* Returns false, with errno, where the kernel refuses. */
static inline bool lengthen_environment(size_t bytes)
{
	char *empty =
		mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t fields[STAT_FIELDS] = {0};
	struct prctl_mm_map map;

	read_stat_fields(fields);
	map = (struct prctl_mm_map){
		.start_code = fields[26],
		.end_code = fields[27],
		.start_data = fields[45],
		.end_data = fields[46],
		.start_brk = fields[47],
		.brk = (uint64_t)(uintptr_t)sbrk(0),
		.start_stack = fields[28],
		.arg_start = fields[48],
		.arg_end = fields[49],
		.env_start = (uint64_t)(uintptr_t)empty,
		.env_end = (uint64_t)(uintptr_t)empty + bytes,
		.exe_fd = (uint32_t)-1,
	};
	return empty != MAP_FAILED && prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof(map), 0) == 0;
}

#endif
