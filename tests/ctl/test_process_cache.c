/* tests/ctl/test_process_cache.c -- a cached process is used while it runs the same program, and no
 * longer. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "ctl/process/process_probe.h"

/* This process, which does not carry the shim. A probe leaves own_pid unchanged then, so the mark
 * in it shows which entry was returned. */
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

static pid_t probe(struct mt_process process)
{
	mt_process_cache_probe(&(struct mt_process_probe){.process = &process, .maps = true}, 1);
	cr_expect_not(process.shimmed);
	return process.own_pid;
}

Test(process_cache, keeps_the_entry_while_the_process_runs_the_same_program)
{
	cr_expect(probe(self(111)) == 111);
	cr_expect(probe(self(222)) == 111);
	cr_expect(probe(self(333)) == 111);
}

Test(process_cache, reads_again_after_an_exec_and_for_another_process_with_the_pid)
{
	struct mt_process after_exec = self(222), reused = self(333), unknown = self(444);

	after_exec.stack_start += 4096;
	reused.start_ticks++;
	unknown.stack_start = 0;
	cr_expect(probe(self(111)) == 111);
	cr_expect(probe(after_exec) == 222);
	cr_expect(probe(reused) == 333);
	cr_expect(probe(unknown) == 444);
	unknown.own_pid = 555;
	cr_expect(probe(unknown) == 555, "without a stack address nothing is cached");
}

Test(process_cache, drops_the_entry_of_a_process_that_was_not_in_the_last_list)
{
	cr_expect(probe(self(111)) == 111);
	mt_process_cache_probe(NULL, 0);
	cr_expect(probe(self(222)) == 222);
}

Test(process_cache, reads_the_command_line_where_only_the_maps_are_cached)
{
	struct mt_process process = self(111);

	probe(process);
	mt_process_cache_probe(&(struct mt_process_probe){.process = &process, .command = true}, 1);
	cr_expect_str_neq(process.command, process.comm);
}
