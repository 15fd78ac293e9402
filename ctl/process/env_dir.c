/* ctl/process/env_dir.c -- see env_dir.h. */
#include "ctl/process/env_dir.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/process/clock.h"
#include "ctl/process/watchdog.h"

#define HOLDS_NS UINT64_C(60000000000)
#define FRESH_NS UINT64_C(50000000000)
/* by pid: a bound that needs no sweeping; two processes of one place forget each other */
#define PLACES 4096u

static struct remembered {
	pid_t pid; /* 0: nobody */
	uint64_t start_ticks, stack_start, asked_ns;
	enum mt_env_dir_state answer;
	char *path; /* NAMED */
} places[PLACES];

static struct remembered *place_of(const struct mt_process *process)
{
	return &places[(unsigned)process->pid % PLACES];
}

static bool holds(const struct mt_process *process, uint64_t for_ns)
{
	const struct remembered *place = place_of(process);

	return place->pid == process->pid && place->start_ticks == process->start_ticks &&
	       place->stack_start && place->stack_start == process->stack_start &&
	       mt_clock_now_ns() - place->asked_ns < for_ns;
}

bool mt_env_dir_is_fresh(const struct mt_process *process)
{
	return holds(process, FRESH_NS);
}

void mt_env_dir_remember(const struct mt_process *process, enum mt_env_dir_state answer,
			 const char *path)
{
	struct remembered *place = place_of(process);

	if (answer == MT_ENV_DIR_NAMED && !*path)
		answer = MT_ENV_DIR_NONE;
	free(place->path);
	*place = (struct remembered){
		.pid = process->pid, .start_ticks = process->start_ticks, .answer = answer};
	place->asked_ns = mt_clock_now_ns();
	place->stack_start = answer == MT_ENV_DIR_EMPTY ? 0 : process->stack_start;
	place->path = answer == MT_ENV_DIR_NAMED ? mt_error_check_memory(strdup(path)) : NULL;
}

static void read_environment(const struct mt_process *process)
{
	char path[PATH_MAX];
	size_t length = 0;
	char *list = mt_process_read_memory(process->pid, "environ", &length);
	bool is_late = !list && errno == ETIMEDOUT;

	if (list && mt_process_find_variable(list, length, "MT_DIR", path, sizeof(path)))
		mt_env_dir_remember(process, MT_ENV_DIR_NAMED, path);
	else
		mt_env_dir_remember(process, length || is_late ? MT_ENV_DIR_NONE : MT_ENV_DIR_EMPTY,
				    NULL);
	free(list);
}

enum mt_env_dir_state mt_env_dir_find(const struct mt_process *process, char *out, size_t out_bytes)
{
	const struct remembered *place = place_of(process);

	if (!holds(process, HOLDS_NS))
		read_environment(process);
	if (place->answer == MT_ENV_DIR_COSTLY)
		return MT_ENV_DIR_COSTLY;
	if (!place->path || strlen(place->path) >= out_bytes)
		return MT_ENV_DIR_NONE;
	strcpy(out, place->path);
	return MT_ENV_DIR_NAMED;
}
