/* fork_walks.c FORKS -- grows, and forks again and again; each child goes through the loaded
 * objects, as a dlopen or an exception would. dl_iterate_phdr is ours (compiled with -rdynamic),
 * and takes 100 ms on threads other than main, with the loader's lock held. Prints how many
 * children came back. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct question {
	int (*callback)(struct dl_phdr_info *info, size_t bytes, void *data);
	void *data;
	int naps;
};

static int answer(struct dl_phdr_info *info, size_t bytes, void *data)
{
	struct question *question = data;

	if (question->naps) {
		question->naps = 0;
		usleep(100000);
	}
	return question->callback(info, bytes, question->data);
}

int dl_iterate_phdr(int (*callback)(struct dl_phdr_info *info, size_t bytes, void *data),
		    void *data)
{
	static int (*next)(int (*)(struct dl_phdr_info *, size_t, void *), void *);
	struct question question = {callback, data, gettid() != getpid()};

	if (!next)
		next = (int (*)(int (*)(struct dl_phdr_info *, size_t, void *), void *))dlsym(
			RTLD_NEXT, "dl_iterate_phdr");
	return next(answer, &question);
}

static int visit(struct dl_phdr_info *info, size_t bytes, void *count)
{
	(void)info;
	(void)bytes;
	++*(int *)count;
	return 0;
}

static int comes_back(void)
{
	int status = -1, objects = 0;
	pid_t child = fork();

	if (child == 0) {
		alarm(5);
		(void)dl_iterate_phdr(visit, &objects);
		_exit(objects > 1 ? 0 : 1);
	}
	return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv)
{
	int forks = argc > 1 ? atoi(argv[1]) : 50, well = 0;

	for (int i = 0; i < forks; i++) {
		char *block = malloc(256 << 10);

		memset(block, i, 256 << 10); /* kept: what does not change is hardly looked at */
		well += comes_back();
		usleep(7000);
	}
	printf("%d of %d\n", well, forks);
	return 0;
}
