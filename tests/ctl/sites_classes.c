/* sites_classes.c CONTROL STATS [VALUE] -- asks a process for its size classes as mtctl does, and
 * prints "BLOCK COUNT" lines; with a VALUE asks its heap profiler to sample for a look instead. */
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/stats_layout.h"

static struct mt_stats_file file;

int main(int argc, char **argv)
{
	int control = argc >= 3 ? open(argv[1], O_RDWR) : -1;
	int stats = argc >= 3 ? open(argv[2], O_RDONLY) : -1;
	struct mt_control_file *map =
		mmap(NULL, sizeof(*map), PROT_READ | PROT_WRITE, MAP_SHARED, control, 0);

	if (map == MAP_FAILED)
		return 2;
	map->request.kind = argc == 4 ? MT_REQUEST_SAMPLE : MT_REQUEST_CLASSES;
	if (argc == 4)
		strncpy(map->request.value, argv[3], sizeof(map->request.value) - 1);
	map->request.seq = 1000;
	map->word++;
	syscall(SYS_futex, &map->word, FUTEX_WAKE, INT_MAX);
	for (int i = 0; i < 1000 && file.head.snapshot.request_seq != 1000; i++) {
		usleep(10000);
		if (pread(stats, &file, sizeof(file), 0) != (ssize_t)sizeof(file))
			return 3;
	}
	if (file.head.snapshot.request_error)
		return 4;
	if (argc == 4)
		return file.head.snapshot.request_seq == 1000 ? 0 : 5;
	for (unsigned i = 0; i < file.head.classes_count; i++)
		printf("%llu %llu\n", (unsigned long long)file.classes[i].block_bytes,
		       (unsigned long long)file.classes[i].live_count);
	return file.head.classes_time_ns == 0;
}
