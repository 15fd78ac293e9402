/* test_known.c -- what was found out about a process holds while it runs the same program,
 * and no longer. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "ctl/process/process_cache.h"

/* This very process, which does not carry the shim. A look leaves own_pid alone then: by it one can
 * tell what was recalled. */
static struct mt_process self(pid_t mark)
{
	struct mt_process *list, found = {0};
	size_t count = mt_process_scan(&list);

	for (size_t i = 0; i < count; i++)
		if (list[i].pid == getpid())
			found = list[i];
	free(list);
	cr_assert(found.pid == getpid() && found.stack_start && found.start_ticks &&
		  found.uid == geteuid());
	found.own_pid = mark;
	return found;
}

static pid_t look(struct mt_process process)
{
	mt_process_cache_probe(&(struct mt_process_probe){.process = &process, .maps = true}, 1);
	cr_expect_not(process.shimmed);
	return process.own_pid;
}

Test(known, recalls_what_runs_the_same_program)
{
	cr_expect(look(self(111)) == 111);
	cr_expect(look(self(222)) == 111);
	cr_expect(look(self(333)) == 111);
}

Test(known, asks_anew_after_an_exec_and_of_another_process_under_the_pid)
{
	struct mt_process after_exec = self(222), reused = self(333), unknown = self(444);

	after_exec.stack_start += 4096;
	reused.start_ticks++;
	unknown.stack_start = 0;
	cr_expect(look(self(111)) == 111);
	cr_expect(look(after_exec) == 222);
	cr_expect(look(reused) == 333);
	cr_expect(look(unknown) == 444);
	unknown.own_pid = 555;
	cr_expect(look(unknown) == 555, "without a place of the stack nothing is remembered");
}

Test(known, forgets_whoever_was_not_there_the_last_time)
{
	cr_expect(look(self(111)) == 111);
	mt_process_cache_probe(NULL, 0);
	cr_expect(look(self(222)) == 222);
}

Test(known, a_command_line_is_read_though_only_the_maps_were)
{
	struct mt_process process = self(111);

	look(process);
	mt_process_cache_probe(&(struct mt_process_probe){.process = &process, .command = true}, 1);
	cr_expect_str_neq(process.command, process.comm);
}
