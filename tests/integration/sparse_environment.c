/* sparse_environment.c -- says that its environment is so many MB which nobody has ever touched
 * (prctl(2), PR_SET_MM_MAP: needs no right of its own), says "ready" and waits for the end of its
 * input. */
#include <linux/prctl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Fields of /proc/self/stat by their numbers in proc(5). */
static void read_fields(uint64_t *fields, int count)
{
	char text[2048] = "";
	FILE *file = fopen("/proc/self/stat", "r");
	char *at = file && fgets(text, sizeof(text), file) ? strrchr(text, ')') + 2 : NULL;

	for (int i = 3; at && i < count; i++, at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL)
		fields[i] = strtoull(at, NULL, 10);
	if (file)
		fclose(file);
}

int main(int argc, char **argv)
{
	size_t bytes = strtoull(argc > 1 ? argv[1] : "1024", NULL, 10) << 20;
	char *empty =
		mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t fields[52] = {0};
	struct prctl_mm_map map;

	read_fields(fields, 52);
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
	if (empty == MAP_FAILED || prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof(map), 0) != 0) {
		perror("PR_SET_MM_MAP");
		return 1;
	}
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		continue;
	return 0;
}
