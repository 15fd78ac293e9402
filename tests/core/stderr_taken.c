/* stderr_taken.c HOW FILE -- a program whose descriptor 2 is no stderr, or not the one that it
 * began with; then it gives the shim reasons to write: a cleanup on this thread and, through a
 * signal, one on the shim's. Ends by exit, with "well" in FILE.done.
 * HOW: keeps     descriptor 2 stays what it is
 *      database  closes 0 to 2 and opens FILE, as a daemon does, for reading and writing
 *      output    the same for writing alone
 *      redirect  puts FILE in the place of stderr by dup2, and forks: the child does the rest too
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void work(void)
{
	static void *blocks[3000];
	int64_t (*trim)(int);
	const struct timespec span = {.tv_nsec = 300 * 1000 * 1000};

	for (int i = 0; i < 3000; i++) {
		blocks[i] = malloc(10000);
		memset(blocks[i], 1, 10000);
	}
	nanosleep(&span, NULL); /* the shim's thread begins */
	*(void **)(void *)&trim = dlsym(RTLD_DEFAULT, "mt_trim");
	trim(0);
	for (int i = 0; i < 3000; i++)
		free(blocks[i]);
	raise(SIGUSR1);
	nanosleep(&span, NULL);
}

static int take(const char *how, const char *file)
{
	int flags = strcmp(how, "database") == 0 ? O_RDWR : O_WRONLY;
	int fd;

	if (strcmp(how, "redirect") == 0) {
		fd = open(file, O_WRONLY | O_APPEND | O_CREAT, 0600);
		return fd < 0 || dup2(fd, STDERR_FILENO) < 0;
	}
	for (fd = 0; fd < 3; fd++)
		close(fd);
	return open("/dev/null", O_RDONLY) != 0 || open("/dev/null", O_WRONLY) != 1 ||
	       open(file, flags | O_CREAT, 0600) != 2 || write(2, "precious", 8) != 8;
}

int main(int count, char **words)
{
	char done[4096];
	int status = 0;

	if (count != 3 || (strcmp(words[1], "keeps") != 0 && take(words[1], words[2]) != 0))
		return 2;
	if (strcmp(words[1], "redirect") == 0 && fork() == 0) {
		work();
		exit(0);
	}
	work();
	(void)wait(&status);
	snprintf(done, sizeof(done), "%s.done", words[2]);
	close(open(done, O_WRONLY | O_CREAT, 0600));
	return status ? 1 : 0;
}
