#include "ctl/process/env_dir.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/process/clock.h"

#define HOLDS_NS UINT64_C(60000000000)
#define FRESH_NS UINT64_C(50000000000)
/* the slot is pid % SLOTS_COUNT; processes with the same slot evict each other */
#define SLOTS_COUNT 4096u

static struct entry {
	pid_t pid; /* 0: empty */
	uint64_t start_ticks, stack_start, read_ns;
	enum mt_env_dir_state state;
	char *path; /* NAMED */
} slots[SLOTS_COUNT];

static struct entry *slot_of(const struct mt_process *process)
{
	return &slots[(unsigned)process->pid % SLOTS_COUNT];
}

static bool holds(const struct mt_process *process, uint64_t for_ns)
{
	const struct entry *slot = slot_of(process);

	return slot->pid == process->pid && slot->start_ticks == process->start_ticks &&
	       slot->stack_start && slot->stack_start == process->stack_start &&
	       mt_clock_now_ns() - slot->read_ns < for_ns;
}

bool mt_env_dir_is_fresh(const struct mt_process *process)
{
	return holds(process, FRESH_NS);
}

void mt_env_dir_remember(const struct mt_process *process, enum mt_env_dir_state state,
			 const char *path)
{
	struct entry *slot = slot_of(process);

	if (state == MT_ENV_DIR_NAMED && !*path)
		state = MT_ENV_DIR_NONE;
	free(slot->path);
	*slot = (struct entry){
		.pid = process->pid, .start_ticks = process->start_ticks, .state = state};
	slot->read_ns = mt_clock_now_ns();
	slot->stack_start = state == MT_ENV_DIR_EMPTY ? 0 : process->stack_start;
	slot->path = state == MT_ENV_DIR_NAMED ? mt_error_check_memory(strdup(path)) : NULL;
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
	const struct entry *slot = slot_of(process);

	if (!holds(process, HOLDS_NS))
		read_environment(process);
	if (slot->state == MT_ENV_DIR_COSTLY)
		return MT_ENV_DIR_COSTLY;
	if (!slot->path || strlen(slot->path) >= out_bytes)
		return MT_ENV_DIR_NONE;
	strcpy(out, slot->path);
	return MT_ENV_DIR_NAMED;
}
