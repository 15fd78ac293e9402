"""The heap family answers as libc does, over both backends, also as the first call of a process."""
import json
import os
import pathlib
import re

import pytest

from pressed import PYTHON, rss_kb


def test_family_answers_as_libc(run, env, bare, compile_c, backend):
	program = compile_c("heap_family.c")
	expected = run([program], bare)
	got = run([program], env())

	assert expected.returncode == 0
	# An independent look at what libc said, so that two equally wrong transcripts do not agree.
	assert expected.stdout.count("errno=ENOMEM") >= 14
	assert "posix_memalign(24): EINVAL out=0x1234" in expected.stdout
	assert got.stdout.splitlines() == expected.stdout.splitlines()
	assert (got.returncode, got.stderr) == (0, "")


def test_a_program_linked_before_glibc_2_26_may_free_by_cfree(run, env, compile_c, backend):
	"""libc's own took a block of jemalloc's for one of its own: a crash."""
	got = run([compile_c("old_free.c", "-fno-builtin")], env())

	assert (got.returncode, got.stdout, got.stderr) == (0, "well\n", "")


def test_family_answers_as_libc_while_the_worker_is_at_work(run, env, bare, compile_c, backend):
	program = compile_c("heap_family.c")

	got = run([program], env(MIN_MB=0, TICK_MS=10, IDLE_MS=10, SLACK_MB=0, SLACK_PCT=0, BUDGET_PCT=100, SETTLE_MS=100))

	assert got.returncode == 0
	assert got.stdout == run([program], bare).stdout


def test_what_the_machine_has_not_is_refused_as_libc_refuses_it(run, env, bare, compile_c, backend):
	program = compile_c("beyond_machine.c")
	expected = run([program], bare)
	got = run([program], env())

	assert expected.returncode == 0 and "malloc half 1: block" in expected.stdout
	assert got.stdout.splitlines() == expected.stdout.splitlines()
	assert (got.returncode, got.stderr) == (0, "")


def test_zeroed_blocks_are_not_faulted_in_anew_each_time(run, env, compile_c, backend):
	"""jemalloc gives the pages of a freed block back when calloc takes it again: NumPy's zeros took 5 times the CPU time."""
	got = run([compile_c("calloc_again.c")], env())
	faults, more = map(int, got.stdout.split())

	assert (got.returncode, got.stderr) == (0, "")
	assert faults < (25 if backend == "jemalloc" else 50)
	assert more < 25 # a large block of which little is used: its pages come when they are used


@pytest.mark.parametrize("size", [300, 900, 1300, 1500, 1700, 2300, 2900, 3500])
def test_many_blocks_of_one_size_take_little_more_than_their_class(run, env, compile_c, size):
	"""Two blocks of 1,300 bytes lay in each page: 200 MB of them took 329."""
	got = run([compile_c("blocks_of_one_size.c"), str(size)], env(ALLOCATOR="jemalloc"))

	assert (got.returncode, got.stderr) == (0, "")
	assert float(got.stdout) < 1.4


@pytest.mark.parametrize("bytes_each", [100_000, 1_000_000, 20_000_000])
@pytest.mark.parametrize("how", ["malloc", "calloc"])
def test_blocks_taken_again_as_capacity_do_not_keep_the_pages_of_those_before(run, env, compile_c, how, bytes_each):
	"""192 MB used and freed, then taken again at once, a byte of each used: all stayed resident, and was killed at limits that bare survives."""
	got = run([compile_c("taken_again.c"), how, str(bytes_each)], env(ALLOCATOR="jemalloc"))

	assert (got.returncode, got.stderr) == (0, "")
	assert int(got.stdout) < 64


@pytest.mark.parametrize("bytes_each", [100_000, 1_000_000])
def test_a_buffer_of_which_a_loop_fills_a_part_keeps_its_pages(run, env, compile_c, bytes_each):
	"""To return the rest saves nothing where the buffer is freed at once: 99 faults a round."""
	got = run([compile_c("taken_again.c"), "part", str(bytes_each)], env(ALLOCATOR="jemalloc", TICK_MS=60000))

	assert (got.returncode, got.stderr) == (0, "")
	assert int(got.stdout) < 2_000


def test_a_loop_over_one_block_beside_unused_ones_of_its_size_keeps_its_pages(run, env, compile_c):
	"""What lay unused stayed the only sample, and each malloc returned the pages of its block: 128 faults a round, also in borg."""
	got = run([compile_c("held_capacity.c")], env(ALLOCATOR="jemalloc", TICK_MS=60000))

	assert (got.returncode, got.stderr) == (0, "")
	assert int(got.stdout) < 10_000


def test_short_rounds_of_blocks_that_libc_would_map_each_time_keep_no_pages(run, env, compile_c):
	"""After three rounds no block was looked at: all pages of those before stayed in blocks of which a byte was used."""
	got = run([compile_c("taken_again.c"), "rounds", "40000000"], env(ALLOCATOR="jemalloc"))

	assert (got.returncode, got.stderr) == (0, "")
	assert int(got.stdout) < 120


@pytest.mark.parametrize("bytes_each", [100_000, 1_000_000, 4_000_000])
def test_a_queue_of_blocks_of_which_the_beginning_is_filled_has_no_faults(run, env, compile_c, bytes_each):
	"""Longer than the distance between two looks: each malloc returned the pages of its block, and took 12 us for 0.1."""
	got = run([compile_c("taken_again.c"), "queue", str(bytes_each)], env(ALLOCATOR="jemalloc", TICK_MS=60000))

	assert (got.returncode, got.stderr) == (0, "")
	assert int(got.stdout) < 500


def test_pages_that_the_program_serves_by_userfaultfd_are_not_read(run, env, compile_c):
	"""A look at such a block waited for the thread that made it: the program hung."""
	got = run([compile_c("served_pages.c", "-pthread")], env(ALLOCATOR="jemalloc"), timeout=60)
	if got.returncode == 77:
		pytest.skip("no userfaultfd here")

	assert (got.returncode, got.stdout, got.stderr) == (0, "120\n", "")


def test_blocks_that_are_taken_before_they_are_filled_keep_their_pages(run, env, compile_c):
	"""They look unused when the next one is taken: what the program has written when it frees them counts."""
	got = run([compile_c("taken_again.c"), "fill", "1000000"], env(ALLOCATOR="jemalloc", TICK_MS=60000))

	assert (got.returncode, got.stderr) == (0, "")
	assert int(got.stdout) < 4 * 49_152 / 4 # a quarter of one fault for each page


def test_a_short_thread_finds_the_pages_of_the_threads_before_it(run, env, compile_c):
	"""jemalloc purges an arena that its last thread leaves: 75 faults a thread, and 3 times glibc's CPU time."""
	got = run([compile_c("short_threads.c")], env(ALLOCATOR="jemalloc", BUDGET_PCT=0))

	assert (got.returncode, got.stderr) == (0, "")
	assert float(got.stdout) < 3


def test_a_generation_of_threads_finds_the_pages_of_the_generation_before_it(run, env, compile_c):
	"""The last thread of each arena returned its pages: each later generation faulted in two thirds of them again."""
	got = run([compile_c("generations.c"), 4, 24, 11], env(ALLOCATOR="jemalloc", BUDGET_PCT=0))
	first, later = map(int, got.stdout.split())

	assert (got.returncode, got.stderr) == (0, "")
	assert later < first, "page faults of ten later generations together, and of the first"


# Page faults of two buffers that grow by turns to 200 MB.
TWO_BUFFERS = """
import resource
one, other, piece = bytearray(), bytearray(), b"x" * (64 << 10)
for i in range(3200):
    one += piece
    other += piece
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


def test_two_buffers_that_grow_by_turns_are_moved_and_not_copied(run, env):
	"""Each was in more mappings than were moved: the rest was copied, and one step took 0.5 s."""
	got = run([PYTHON, "-c", TWO_BUFFERS], env())

	assert (got.returncode, got.stderr) == (0, "")
	assert int(got.stdout) < 1.3 * (400 << 20) / os.sysconf("SC_PAGESIZE")


@pytest.mark.parametrize("how", ["alone", "child", "threads"])
def test_freed_pages_serve_large_blocks(run, env, compile_c, how):
	"""Of one thread those of its own small blocks, also in a forked child; of several those of another thread's large blocks."""
	got = run([compile_c("large_reuse.c"), how], env(ALLOCATOR="jemalloc", BUDGET_PCT=0))

	assert (got.returncode, got.stderr) == (0, "")
	assert int(got.stdout) < 20, "% of the pages were faulted in again"


@pytest.mark.parametrize("how, each_kb", [("chip", 98304), ("thread", 512), ("other", 98304)])
def test_freed_large_blocks_are_not_kept_beside_as_large_ones(run, env, bare, compile_c, how, each_kb):
	"""Twice the peak of glibc: the second thread with a large block moved all of them to another arena, and a small block
	among the free pages left no room for a large one."""
	program = [compile_c("large_peak.c"), how, each_kb]
	expected, got = run(program, bare), run(program, env(BUDGET_PCT=0))

	assert (got.returncode, got.stderr) == (0, "")
	assert 96 <= int(expected.stdout) and int(got.stdout) < int(expected.stdout) * 1.3, f"{got.stdout} MB, bare {expected.stdout}"


@pytest.mark.parametrize("how, each_kb", [("strings", 3), ("strings", 13), ("cut", 60), ("cut", 400)])
def test_what_growing_strings_and_cut_buffers_leave_behind_does_not_add_up(run, env, bare, compile_c, how, each_kb):
	"""It lay free in pieces that the next string, or the next buffer, did not fit into: 255 MB for 96."""
	program = [compile_c("large_peak.c"), how, each_kb]
	expected, got = (run(program, settings) for settings in (bare, env(BUDGET_PCT=0)))

	assert (got.returncode, got.stderr) == (0, "")
	assert int(got.stdout) < int(expected.stdout) * 1.4, f"{got.stdout} MB, bare {expected.stdout}"


def start_hoard(spawn, compile_c, environment, *words):
	"""The process, and what it has printed before it was ready."""
	process = spawn([compile_c("hoards.c"), *words], environment)
	return process, list(iter(process.stdout.readline, "ready\n"))


def test_threads_that_sleep_keep_little_in_their_caches(spawn, env, compile_c):
	"""200 threads of a pool held 340 MB that nothing brought back; glibc has 15."""
	process, _ = start_hoard(spawn, compile_c, env(), "threads", 200)

	assert rss_kb(process.pid) < 190_000


def test_a_pool_of_many_threads_that_free_all_they_had_holds_as_little_as_on_libc(spawn, env, compile_c):
	"""300 threads held 343 MB; glibc 54 to 76."""
	process = spawn([compile_c("idle_threads.c"), 300, 2], env())
	assert process.stdout.readline() == "ready\n"

	rollup = pathlib.Path(f"/proc/{process.pid}/smaps_rollup").read_text()
	assert int(re.search(r"^Rss: +(\d+)", rollup, re.MULTILINE)[1]) < 120_000


@pytest.mark.parametrize("words, kb_more", [((600,), 20), ((1000, 3000), 10)])
def test_threads_that_keep_a_few_blocks_share_pages(run, env, bare, compile_c, words, kb_more):
	"""Each had a page of its own for each size, the pages ahead of it, and a cache: 600 threads held 80 MB, libc's malloc 8."""
	program = [compile_c("few_blocks.c"), *words]
	expected, got = (int(run(program, settings).stdout) for settings in (bare, env(ALLOCATOR="jemalloc")))

	assert got < expected + words[0] * kb_more


@pytest.mark.parametrize("block_bytes", [1000, 10_000])
def test_threads_that_wait_after_little_work_keep_little(run, env, bare, compile_c, block_bytes):
	"""1,000 threads with 100 kB come and gone in each held 63 and 129 MB; libc's malloc 25 and 15."""
	program = [compile_c("small_jobs.c"), "wait", 1000, block_bytes]
	expected, got = (int(run(program, settings).stdout) for settings in (bare, env(ALLOCATOR="jemalloc")))

	assert got < expected + 1000 * 16


def test_many_threads_that_grow_a_list_each_hold_little_at_the_peak(run, env, bare, compile_c):
	"""Each step of a list stayed in the thread's cache: 600 threads took 66 MB; libc's malloc 7."""
	program = [compile_c("small_lists.c", "-pthread"), 600]
	expected, got = (int(run(program, settings).stdout) for settings in (bare, env(ALLOCATOR="jemalloc")))

	assert got < expected + 600 * 50


@pytest.mark.parametrize("smallest, largest", [(16, 2000), (4000, 30_000)])
def test_what_threads_have_freed_goes_back_while_they_wait(run, env, compile_c, smallest, largest):
	"""Only a thread itself emptied its cache: 100 that worked three times and then waited held 50 and 75 MB for good; libc 5 and 20.
	Every fifth wakes up for a small block now and then: then it kept its cache."""
	program = compile_c("resting_threads.c", "-pthread")

	got = run([program, 100, smallest, largest, 12_000], env(ALLOCATOR="jemalloc"), timeout=60)

	assert got.returncode == 0 and int(got.stdout) < 12_000, got.stdout + got.stderr


def test_a_process_whose_threads_allocate_less_than_a_megabyte_each_gets_a_worker(run, env, compile_c):
	"""500 threads left 450 MB, and the library did nothing: growth counted from the first MB of each thread on."""
	got = run([compile_c("small_jobs.c"), "leave", 300], env())

	assert (got.returncode, got.stdout) == (0, "2\n")


def test_a_thread_whose_cache_comes_late_works_without_memory_for_it(run, env, compile_c):
	"""The program ended where memory was out at the moment of the cache, and where it turned its cache on itself."""
	got = run([compile_c("late_caches.c"), 40], env(ALLOCATOR="jemalloc"), timeout=60)

	assert (got.returncode, got.stdout, got.stderr) == (0, "40 of 40 threads\n", "")


def test_a_daemon_that_frees_what_its_parent_has_filled_returns_it(spawn, env, compile_c, wait_for):
	"""The child had no worker until it had allocated 4 MB, so that 200 MB stayed for good."""
	_, printed = start_hoard(spawn, compile_c, env(ALLOCATOR="jemalloc"), "daemon", 150)

	wait_for(lambda: rss_kb(int(printed[0])) < 30_000, 10)


def test_what_jemalloc_has_recorded_of_small_blocks_goes_back_with_them(spawn, env, compile_c, wait_for, control):
	"""3 % of what small blocks had ever taken stayed for good: 10 MB of 300, and libc's malloc kept nothing."""
	settings = env(ALLOCATOR="jemalloc")
	process, _ = start_hoard(spawn, compile_c, settings, "small", 300)

	wait_for(lambda: rss_kb(process.pid) < 8_000, 15)
	wait_for(lambda: json.loads(control(settings, "stat", "--json", process.pid).stdout)["heap_metadata_bytes"] < 6_000_000, 5)


@pytest.mark.parametrize("conf", ["", "retain:false", "narenas:1"])
def test_blocks_and_children_are_right_while_such_records_go_back(run, env, compile_c, conf):
	got = run([compile_c("returned_records.c", "-pthread"), 3], env(ALLOCATOR="jemalloc", MALLOC_CONF=conf), timeout=60)

	assert got.returncode == 0, got


def test_one_large_block_goes_back_though_malloc_is_not_called_again(spawn, env, compile_c, wait_for):
	process, _ = start_hoard(spawn, compile_c, env(), "one", 150)

	wait_for(lambda: rss_kb(process.pid) < 20_000, 10)


def test_a_thread_for_each_job_leaves_its_pages_to_the_next(spawn, env, compile_c):
	"""Each thread's end returned all of it: a job took 24 ms of CPU time, 0.4 under glibc."""
	_, printed = start_hoard(spawn, compile_c, env(ALLOCATOR="jemalloc"), "jobs", 24)

	assert float(printed[0]) < 10


def test_odd_arguments_are_answered_as_this_libc_answers_them(run, env, bare, compile_c, backend):
	"""aligned_alloc(24, 100) is a block until glibc 2.37 and EINVAL since; posix_memalign leaves ENOMEM in errno, too."""
	program = compile_c("heap_family.c")
	expected = run([program, "odd"], bare)
	got = run([program, "odd"], env())

	assert expected.returncode == 0 and len(expected.stdout.splitlines()) == 13 * (7 + 20 * 3)
	assert re.search(r"^aligned_alloc\(24, 100\): (block aligned=1 errno=0|NULL aligned=1 errno=EINVAL)$", expected.stdout, re.MULTILINE)
	assert got.stdout.splitlines() == expected.stdout.splitlines()
	assert (got.returncode, got.stderr) == (0, "")


def test_cxx_operators_and_exceptions(run, env, bare, compile_c, backend):
	program = compile_c("heap_cxx.cc", "-g0")
	expected = run([program], bare)
	got = run([program], env(MIN_MB=0))

	assert expected.returncode == 0 and "over-aligned objects out of place: 0" in expected.stdout
	assert got.stdout.splitlines() == expected.stdout.splitlines()
	assert got.returncode == 0


@pytest.mark.parametrize("order", ["before", "behind"])
def test_first_calls_come_from_another_constructor(run, env, shim, compile_c, backend, order):
	library = compile_c("heap_first.c", "-shared", "-fPIC")
	chain = f"{library}:{shim}" if order == "before" else f"{shim}:{library}"

	for program in (["/bin/true"], ["/bin/sh", "-c", "echo $((6 * 7))"]):
		got = run(program, dict(env(MIN_MB=0), LD_PRELOAD=chain))
		assert (got.returncode, got.stderr) == (0, "")


def test_c23_names_are_there(puppet, env, backend):
	actor = puppet(env())

	assert actor.tell("find free_sized") == "yes"
	assert actor.tell("find free_aligned_sized") == "yes"
	assert actor.tell("find mallocx") == "none", "never exported: programs would take us for a whole jemalloc"


def test_malloc_trim_tells_the_truth(puppet, env, backend):
	"""1 only when pages went back: libc's own, which serves over libc's malloc, answers 1 again and again with nothing left to give."""
	actor = puppet(env())
	actor.tell("alloc 20000 5000 5000")
	before = actor.number("status RssAnon:")
	actor.tell("keep 0")

	first = actor.number("malloc_trim")
	after = actor.number("status RssAnon:")
	actor.number("malloc_trim")
	again = actor.number("malloc_trim")

	assert before > 90_000
	assert after < before - 80_000, "100 MB were freed and trimmed"
	# The system backend may have given all of it back by itself when the top of the heap was freed.
	assert first == 1 or actor.tell("sleep 0") == "0" and after < 20_000
	assert again == (0 if backend == "jemalloc" else first)


# Nothing but the call itself purges.
QUIET = {"SLACK_MB": 100_000, "BUDGET_PCT": 0, "SETTLE_MS": 3_600_000}


def test_malloc_trim_does_not_hold_its_caller_for_long(run, env, compile_c):
	"""3 GB held a server for more than a second, and its watchdog ended it. mt_trim is complete when it returns."""
	program = compile_c("trims.c")

	whole = run([program, "mt_trim"], env(MIN_MB=0, **QUIET)).stdout.split()
	left = run([program], env(MIN_MB=0, **QUIET)).stdout.split()

	assert whole[0] == "1" and whole[2:] == ["1", "1", "0"]
	assert left[0] == "1" and left[3] == "1", "the worker returns the memory"
	assert int(left[1]) < int(whole[1]) / 4


def test_malloc_trim_returns_what_its_thread_has_freed_last(run, env, compile_c):
	"""The worker purges, and cannot reach the cache of the thread: the caller empties it."""
	got = run([compile_c("trims.c")], env(MIN_MB=0, **QUIET)).stdout.split()

	assert got[3:] == ["1", "0"]


def test_malloc_trim_is_complete_where_there_is_no_worker(run, env, compile_c):
	done = run([compile_c("trims.c")], env(MIN_MB=1_000_000, **QUIET))

	assert done.stdout.split()[0] == "1" and done.stdout.split()[2:4] == ["1", "1"], done.stdout + done.stderr


@pytest.mark.parametrize("min_mb", [0, 1_000_000])
def test_malloc_trim_returns_memory_in_a_forked_child(run, env, compile_c, min_mb):
	"""Where the parent's worker does not exist."""
	done = run([compile_c("trims.c"), "child"], env(MIN_MB=min_mb, **QUIET))

	assert done.stdout.split()[0] == "1" and done.stdout.split()[3] == "1", done.stdout + done.stderr


def test_mallctl_reaches_the_embedded_jemalloc(puppet, env):
	actor = puppet(env(ALLOCATOR="jemalloc"))
	actor.tell("alloc 1000 4096 4096")

	assert actor.tell("mallctl epoch") == "0"
	code, allocated = actor.tell("mallctl stats.allocated").split()
	assert code == "0" and 4096 * 1000 <= int(allocated) < 4096 * 1000 + 16_000_000
	assert actor.tell("mallctl no.such.name").split()[0] != "0"


def test_mallctl_over_libc_refuses(puppet, env):
	actor = puppet(env(ALLOCATOR="system"))

	answer = actor.tell("mallctl stats.allocated")

	assert answer == "none" or answer.split()[0] != "0"


def test_malloc_stats_print_speaks(run, env):
	"""Called as programs call it: with a writer of their own, or with none, which is stderr."""
	script = ("import ctypes\n"
	          "lib = ctypes.CDLL(None)\n"
	          "said = []\n"
	          "W = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)\n"
	          "w = W(lambda opaque, text: said.append(text))\n"
	          "lib.malloc_stats_print(w, None, None)\n"
	          "print(b'Allocated:' in b''.join(said))\n"
	          "lib.malloc_stats_print(None, None, None)\n")

	got = run(["/usr/bin/python3", "-c", script], env(ALLOCATOR="jemalloc"))

	assert got.returncode == 0
	assert got.stdout == "True\n"
	assert re.search(r"Allocated: \d+", got.stderr)


def test_calls_work_inside_gdb_before_any_constructor(run, env, bare, tmp_path, backend):
	"""gdb makes a thousand mallocs before a preload's constructor runs."""
	command = ["gdb", "-nx", "-batch", "-ex", "print 6*7", "-ex", "info line main", "/bin/true"]

	got = run(command, env(MIN_MB=0))

	assert got.returncode == run(command, bare).returncode
	assert "$1 = 42" in got.stdout


def test_enable_0_is_a_plain_pass_through(puppet, env, mt_dir):
	actor = puppet(env(ENABLE=0, MIN_MB=0))
	actor.tell("alloc 20000 5000 5000")
	actor.tell("keep 0")

	assert actor.number("status Threads:") == 1
	assert list(mt_dir.iterdir()) == []


def test_large_blocks_that_grow_keep_their_bytes_and_leave_few_mappings(run, env, compile_c):
	"""Their pages are moved, and the kernel keeps moved pages in mappings of their own; a process may have 65,530."""
	got = run([compile_c("large_moves.c"), "2", "1500"], env(), timeout=240)

	assert got.returncode == 0, got.stderr
	assert int(got.stdout.split()[1]) < 400, got.stdout


@pytest.mark.parametrize("allocator", ["auto", "jemalloc"])
@pytest.mark.parametrize("threads", [9, 150])
def test_threads_that_begin_where_no_memory_is_left_never_crash(run, env, compile_c, threads, allocator):
	"""jemalloc crashed where it got no memory for a thread's cache or arena: glibc's tst-malloc-thread-fail."""
	got = run([compile_c("threads_without_memory.c"), threads], env(ALLOCATOR=allocator), timeout=60)

	assert got.returncode == 0, f"{got.returncode}: {got.stdout}{got.stderr}"


def test_a_block_that_has_grown_many_times_is_few_mappings(run, env, compile_c):
	"""Each growth left one more: 8 for a block, and a process may have 65,530. libc's have one."""
	got = run([compile_c("grown_blocks.c")], env(), timeout=120)

	assert got.returncode == 0, got.stderr
	assert int(got.stdout) < 5.5 * 20


def test_a_growing_heap_gets_its_pages_sixteen_at_a_time(run, env, compile_c):
	"""A fault for each page: a heap of small blocks was filled in 0.36 s where libc's malloc takes 0.28."""
	got = run([compile_c("grown_pages.c")], env())

	assert int(got.stdout) > 80, got.stdout


def test_blocks_of_several_pages_that_are_hardly_touched_stay_untouched(run, env, bare, compile_c):
	"""Pages ahead of them made 96 MB resident where the program had touched 32: it was killed at 64 and 80."""
	plain, shimmed = (int(run([compile_c("sparse_slabs.c")], settings).stdout) for settings in (bare, env()))

	assert 25_000 < plain and shimmed < 1.2 * plain


def test_holes_between_kept_blocks_are_filled_page_by_page(run, env, compile_c):
	"""What lies behind a hole may never be wanted: only what is allocated becomes resident again."""
	got = run([compile_c("filled_holes.c")], env(IDLE_MS=100, SLACK_MB=1, SETTLE_MS=500))

	allocated, grown = map(int, got.stdout.split())
	assert grown < allocated * 1.3 + 1000, got.stdout


def test_a_process_that_may_start_no_thread_returns_memory_all_the_same(run, env, compile_c):
	"""Without a worker nobody purged: 63 MB stayed for good."""
	got = run([compile_c("no_threads.c", "-pthread"), "0"], env(), timeout=60)
	if got.returncode == 77:
		pytest.skip("needs root")

	assert int(got.stdout) < 20, got.stdout
