/* Takes 40 blocks of 1 MB that begin with a page after as many were freed, and touches three pages
 * of each, which a thread serves by userfaultfd(2): for each it takes and fills a buffer of 1 MB.
 * Prints how many pages were served. 77: the kernel refuses userfaultfd. */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCKS 40
#define BYTES  (1ul << 20)
#define PAGE   4096ul

static int served_fd;
static volatile long served_count;

static void *serve(void *page)
{
	struct uffd_msg message;

	while (read(served_fd, &message, sizeof message) == sizeof message) {
		struct uffdio_copy copy = {.dst = message.arg.pagefault.address & ~(PAGE - 1),
					   .src = (unsigned long)page,
					   .len = PAGE};
		char *buffer = malloc(BYTES);

		if (!buffer)
			exit(1);
		memset(buffer, 1, BYTES);
		served_count++;
		if (ioctl(served_fd, UFFDIO_COPY, &copy) != 0)
			exit(2);
		free(buffer);
	}
	exit(3);
}

static void use_and_free(void)
{
	char *blocks[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(BYTES);
		if (!blocks[i])
			exit(1);
		memset(blocks[i], 1, BYTES);
	}
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
}

static void touch_served(void)
{
	char *block = aligned_alloc(PAGE, BYTES);
	struct uffdio_register range = {.range = {(unsigned long)block, BYTES},
					.mode = UFFDIO_REGISTER_MODE_MISSING};

	if (!block || madvise(block, BYTES, MADV_DONTNEED) != 0 ||
	    ioctl(served_fd, UFFDIO_REGISTER, &range) != 0)
		exit(4);
	for (unsigned long at = 0; at < BYTES; at += 100 * PAGE)
		if (((volatile char *)block)[at] != 7)
			exit(5);
}

int main(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	char *page = aligned_alloc(PAGE, PAGE);
	pthread_t thread;

	served_fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (served_fd < 0)
		return 77;
	memset(page, 7, PAGE);
	use_and_free();
	if (ioctl(served_fd, UFFDIO_API, &api) != 0 ||
	    pthread_create(&thread, NULL, serve, page) != 0)
		return 6;
	for (int i = 0; i < BLOCKS; i++)
		touch_served();
	printf("%ld\n", served_count);
	fflush(stdout);
	_exit(0);
}
