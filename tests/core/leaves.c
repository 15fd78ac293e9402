/* leaves.c HOW -- wakes the shim, says "awake" once the shim's files are there, and ends without
 * exit handlers.
 * HOW: _exit _Exit quick_exit   by that function
 *      handler                  by _exit in a signal handler, while another thread allocates
 *      kill                     by SIGKILL
 *      vfork forked             a child of vfork or of _Fork calls _exit first; its parent still
 *        has the files then: "kept" or "lost"
 *      child                    a forked child wakes too, and ends by _exit; then its parent says
 *        how many files there are */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Of this process alone. */
static int files_count(void)
{
	DIR *folder = opendir(getenv("MT_DIR"));
	int count = 0;

	for (struct dirent *entry; folder && (entry = readdir(folder));)
		count += atoi(entry->d_name) == getpid();
	if (folder)
		closedir(folder);
	return count;
}

static void wake(void)
{
	const struct timespec step = {.tv_nsec = 5 * 1000 * 1000};

	for (int i = 0; i < 2000 && files_count() < 2; i++) {
		for (int j = 0; j < 20; j++)
			free(memset(malloc(400000), 1, 400000));
		nanosleep(&step, NULL);
	}
	if (files_count() < 2)
		exit(9);
}

static void leave_in_handler(int sig)
{
	(void)sig;
	_exit(7);
}

static void *churn(void *unused)
{
	for (;;)
		free(malloc(3000));
	return unused;
}

static void let_child_leave(pid_t child)
{
	int status = 0;

	if (child == 0)
		_exit(7);
	waitpid(child, &status, 0);
	puts(files_count() == 2 && WEXITSTATUS(status) == 7 ? "kept" : "lost");
	fflush(stdout);
}

static const char *how = ""; /* no local variable: it lives across vfork */

int main(int count, char **words)
{
	pthread_t thread;

	if (count > 1)
		how = words[1];
	wake();
	puts("awake");
	fflush(stdout);
	if (strcmp(how, "_exit") == 0)
		_exit(7);
	if (strcmp(how, "_Exit") == 0)
		_Exit(7);
	if (strcmp(how, "quick_exit") == 0)
		quick_exit(7);
	if (strcmp(how, "kill") == 0)
		raise(SIGKILL);
	if (strcmp(how, "handler") == 0) {
		signal(SIGALRM, leave_in_handler);
		pthread_create(&thread, NULL, churn, NULL);
		ualarm(20000, 0);
		churn(NULL);
	}
	if (strcmp(how, "vfork") == 0)
		let_child_leave(vfork());
	if (strcmp(how, "forked") == 0)
		let_child_leave(_Fork());
	if (strcmp(how, "child") == 0) {
		pid_t child = fork();

		if (child == 0) {
			wake();
			_exit(7);
		}
		let_child_leave(child);
	}
	return 7;
}
