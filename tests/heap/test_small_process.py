"""A small process holds and spends little more than without the library."""
import re

import pytest

from pressed import PYTHON


@pytest.fixture
def numbers(run, env, bare, compile_c):
	"""numbers(words): the number that the program prints bare, and the one under the shim with its defaults."""
	def asked(*words, python=False):
		program = [PYTHON, "-c", *words] if python else [compile_c("small_process.c"), *words]
		done = [run(program, settings) for settings in (bare, env())]
		assert [one.returncode for one in done] == [0, 0], done[1].stderr
		return [int(one.stdout) for one in done]
	return asked


def test_a_server_that_reloads_a_small_configuration_keeps_little_more_than_on_libc(numbers):
	"""The blocks of libc's heap from before the waking were freed and stayed: 12 MB where libc has 7."""
	plain, shimmed = numbers("reloads", 3, 3)

	assert plain > 6000
	assert shimmed < 1.25 * plain


def test_a_forked_child_writes_no_tables_of_devices_that_nobody_uses(numbers):
	"""136 kB in each child of a server that forks."""
	plain, shimmed = numbers("child")

	assert plain > 0
	assert shimmed < plain + 110


def test_a_worker_that_was_forked_and_grew_returns_what_it_freed_before_it_woke_up(numbers):
	"""PostgreSQL's servers for one client each kept 2 MB of libc's heap: their master's other pages are shared with all."""
	plain, shimmed = numbers("worker", 20)

	assert plain > 5300
	assert shimmed < 5300


@pytest.mark.parametrize("size", [1000, 100_000, 2_000_000])
@pytest.mark.parametrize("who", ["frees", "child_frees"])
def test_a_process_too_small_for_a_worker_returns_what_it_frees(numbers, who, size):
	"""It kept all of it: 20 workers of 10 MB that took turns were killed at 200 MB, where they live bare at 17."""
	plain, shimmed = numbers(who, size, 10, 3)

	assert plain < 2000
	assert shimmed < plain + 3000


@pytest.mark.parametrize("size, slack", [(4000, 300), (100_000, 300), (600_000, 1500)])
def test_a_process_on_libcs_malloc_returns_the_end_of_its_heap_as_it_does_bare(numbers, size, slack):
	"""It kept up to 4 MB: 30 processes of 3.6 MB that took turns needed a limit of 112 MB, bare 13."""
	plain, shimmed = numbers("frees", size, 3, 3)

	assert plain < 600
	assert shimmed < plain + slack


@pytest.mark.parametrize("how", ["grows", "rises", "tuned"])
def test_a_process_on_libcs_malloc_takes_no_more_pages_than_it_does_bare(numbers, how):
	"""A buffer that grows left its copies behind, which libc trimmed each time: 72,000 page faults for 400. And what the program had set by
	mallopt itself was lowered by its next large block: 183,000 for 640."""
	plain, shimmed = numbers(how)

	assert shimmed < plain + 1500


def test_a_large_block_does_not_read_the_environment_while_another_thread_changes_it(run, env, compile_c):
	"""setenv frees the list that it replaces: 10 of 200 runs crashed."""
	done = run([compile_c("small_process.c"), "setenv"], env())

	assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr


OBJECTS = r'''
import re, time
for _ in range(3):
    held = [str(number) * 3 for number in range(100_000)]
    del held
print(re.search(r"Anonymous:\s+(\d+)", open("/proc/self/smaps_rollup").read())[1])
'''


def test_a_small_python_program_returns_the_objects_that_it_frees(numbers):
	"""13.5 MB stayed, with few other blocks all that it had freed."""
	plain, shimmed = numbers(OBJECTS, python=True)

	assert plain > 3000
	assert shimmed < plain + 4000


def test_a_small_process_in_a_tight_loop_has_fewer_page_faults_than_on_libc(run, env, bare, compile_c):
	count = ("import os, resource, sys; os.spawnv(os.P_WAIT, sys.argv[1], sys.argv[1:]); "
		"print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt)")
	command = [PYTHON, "-c", count, compile_c("small_process.c"), "frees", "1000", "10", "100"]
	plain, shimmed = (int(run(command, settings).stdout.split()[-1]) for settings in (bare, env()))

	assert plain > 200_000
	assert shimmed < plain / 2


def test_a_small_process_that_replaces_its_blocks_in_no_order_leaves_libcs_heap(numbers):
	"""The last MB of them was never trimmed, and libc's cache kept a page for each block in it: 14.8 MB for 9.5."""
	plain, shimmed = numbers("evicts", 8, 500, 200_000)

	assert plain > 8000
	assert shimmed < 1.4 * plain


def test_a_signal_handler_runs_on_the_stack_of_the_thread_also_while_memory_is_returned(run, env, compile_c):
	"""Collectors that stop threads by a signal scan the thread's stack from there (Boehm's: guile, nix): they freed live objects."""
	done = run([compile_c("handler_stack.c")], env())

	assert done.returncode == 0, done.stderr
	times, outside = map(int, done.stdout.split())
	assert times > 100 and outside == 0


def test_an_array_that_doubles_beside_other_blocks_leaves_no_copy_behind(numbers):
	"""PostgreSQL's servers that sort peaked at a fifth more than bare: old places of 1.6 and 3.1 MB stayed resident."""
	plain, shimmed = numbers("sorts", 200_000)

	assert plain > 17_000
	assert shimmed < 1.05 * plain


def test_malloc_trim_on_libcs_malloc_costs_what_libcs_own_costs(numbers):
	"""It took 35 us in place of 0.1."""
	plain, shimmed = numbers("trims", 20_000)

	assert shimmed < 2 * plain + 10


ANONYMOUS = r'''
import asyncio, http.server, re
print(re.search(r"Anonymous:\s+(\d+)", open("/proc/self/smaps_rollup").read())[1])
'''


def test_a_small_python_server_holds_little_more_than_bare(numbers):
	"""jemalloc served its larger blocks from the start, and took 1 MB more than libc's malloc."""
	plain, shimmed = numbers(ANONYMOUS, python=True)

	assert plain > 5000
	assert shimmed < plain + 1700


def test_a_process_that_allocates_little_maps_little_of_the_librarys_code(run, env):
	"""It was spread over 576 kB of the file, which the kernel maps in steps of 64 kB."""
	smaps = run(["cat", "/proc/self/smaps"], env()).stdout
	code = re.search(r" r-xp .*libmtshim\.so\n(?:.*\n)*?Rss:\s+(\d+)", smaps)

	assert 0 < int(code[1]) <= 320


MAPS = r'''
import re
at = None
for area in re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", open("/proc/self/smaps").read()):
    first, last = (int(word, 16) for word in re.match(r"(\w+)-(\w+)", area).groups())
    if last - first > 32 << 30 and area.split()[1] == "---p":
        at = first
    if at is not None and at == first:
        at = last
        print("huge" if " nh" not in area.split("VmFlags:")[1].split("\n")[0] else "small", end=" ")
'''


def test_the_object_heap_and_its_tables_get_no_huge_pages(run, env):
	"""With `always` its two bit maps were 2 MB in each small Python process."""
	done = run([PYTHON, "-c", MAPS], env())

	assert done.returncode == 0, done.stderr
	assert done.stdout.startswith("small small small small "), "the range, the two parts of its table, the maps"


def test_what_a_thread_that_only_frees_has_freed_goes_back_at_rest(numbers):
	"""8 to 12 MB stayed for good: such a thread purges nothing, and jemalloc tells nothing of it."""
	plain, shimmed = numbers("handed_over", 8, 10)

	assert plain < 2000
	assert shimmed < plain + 3000


@pytest.mark.parametrize("megabytes", [8, 14])
def test_what_a_thread_has_made_before_it_ended_goes_back_though_the_thread_that_frees_it_makes_nothing(numbers, megabytes):
	"""All of it stayed for good: jemalloc has no event for a thread that has never allocated, and the process no worker."""
	plain, shimmed = numbers("left_behind", megabytes)

	assert plain < 1500
	assert shimmed < plain + 3000


def test_blocks_that_realloc_cuts_beside_a_flagged_page_give_their_memory_back(numbers):
	"""All large ones were kept whole, though only one had a flag: 3.8 MB for 0.3."""
	plain, shimmed = numbers("cuts")

	assert plain < 1000
	assert shimmed < plain + 1000


def test_a_string_that_is_appended_to_is_not_copied_at_each_step(run, env, compile_c):
	"""From 1.17 MB on it was, until the process took jemalloc's malloc: 520 ms of CPU time, bare 2."""
	got = run([compile_c("appended.c")], env())

	assert got.returncode == 0 and int(got.stdout) < 150, got
