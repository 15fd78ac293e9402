/* shm_memfd.c -- frames of a camera kept in a memfd for other processes: 160 MB of shared memory.
 */
#include <sys/mman.h>

#include "patient.h"

int main(void)
{
	size_t bytes = 160 * MB;
	int fd = memfd_create("frames", 0);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0)
		return 2;
	memset(must(mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)), 'f', bytes);
	void *state = filled(20 * MB);
	ready();
	while (goes_on(100))
		free(filled(1000));
	free(state);
	return 0;
}
