"""A small process is served by libc's malloc, and by the embedded jemalloc once it has grown."""
import pytest


@pytest.fixture
def says(run, env, compile_c):
	"""says(how, count, **settings): what the program prints under the shim, which ends well and says nothing itself."""
	def asked(how, *count, **settings):
		got = run([compile_c("wakes.c", "-pthread"), how, *count], env(**settings), timeout=120)
		assert (got.returncode, got.stderr) == (0, ""), got.stdout
		return got.stdout
	return asked


def test_a_process_with_3_mb_is_on_libcs_malloc_whose_own_functions_work(says):
	assert says("small") == "3 MB: glibc\ntrimmed: glibc\n"


def test_one_block_of_two_megabytes_wakes_it_up(says):
	assert says("large") == "before: glibc\n2 MB: jemalloc\n"


def test_blocks_that_come_and_go_wake_it_up_only_where_they_are_many_at_a_time(says):
	"""A server that had served long enough got jemalloc's tables, 1 MB, for 4 ns a pair."""
	assert says("pace") == "slow: glibc\nfast: jemalloc\n"


def test_a_buffer_that_grows_and_goes_again_and_again_keeps_its_pages(says):
	"""774,000 page faults for 385, while free memory beyond 1 MB at the end of libc's heap went back at each free."""
	assert says("buffer") == "few page faults\n"


def test_a_process_large_by_its_own_mappings_wakes_up_for_its_worker(says):
	assert says("mapped") == "slow: jemalloc\n"


def test_two_threads_that_make_their_first_large_block_at_the_same_moment_wake_it_up(says):
	assert says("crowd", 60) == "60 on jemalloc\n"


def test_a_process_whose_one_block_is_large_has_its_worker_before_it_calls_malloc_again(says):
	assert says("one") == "2 threads\n"


def test_old_blocks_are_moved_and_freed_and_counted_after_it_has_woken_up(says):
	assert says("live") == "before: glibc\n8 MB: jemalloc\nlive 8\nlive 12\nlive 0\n"


def test_blocks_that_were_made_asleep_are_returned_when_they_are_freed(says):
	"""No worker runs in a process so small: nothing else returns them."""
	assert says("old") == "2 MB: jemalloc\nreturned\nreturned\n"


@pytest.mark.parametrize("settings", [{"ALLOCATOR": "jemalloc"}, {"MIN_MB": 0}, {"PROF": "1"}], ids=lambda settings: next(iter(settings)))
def test_settings_that_ask_for_jemalloc_wake_it_up_at_once(says, settings):
	assert says("large", **settings).startswith("before: jemalloc\n")


def test_the_next_allocator_in_line_serves_for_good_where_that_is_set(says):
	assert says("large", ALLOCATOR="system") == "before: glibc\n2 MB: glibc\n"


def test_threads_may_make_move_and_free_blocks_while_it_wakes_up(says):
	"""A block that a thread takes from libc a moment too late must not be handed out: free would give it to jemalloc."""
	assert says("threads", 16) == "16 well\n"


def test_it_may_wake_up_inside_a_call_of_libcs_malloc(says):
	"""The block of the interrupted call lies beyond what is recognised as libc's from then on: it is not handed out."""
	assert says("inside") == "before: glibc\ninside: jemalloc\n"


def test_a_signal_handler_may_allocate_while_it_wakes_up(says):
	assert says("handler") == "grown: jemalloc\n"


def test_a_program_may_move_the_program_break_itself(says):
	assert says("break") == "grown: jemalloc\n"


def test_a_heap_that_cannot_grow_any_more_wakes_it_up(says):
	"""libc takes memory elsewhere then, where none of its blocks would be recognised."""
	assert says("blocked") == "grown: jemalloc\n"


def test_a_program_that_has_libc_map_its_blocks_wakes_it_up(says):
	assert says("mallopt") == "before: glibc\n400 kB: jemalloc\n"


def test_blocks_elsewhere_that_were_made_before_the_settings_were_read_keep_it_on_libcs_malloc(says):
	assert says("early") == "grown: glibc\n"


def test_a_tunable_that_keeps_libcs_malloc_is_said_so(run, env):
	"""Its first block lies elsewhere. MT_ALLOCATOR=jemalloc was passed over without a word."""
	got = run(["/bin/true"], dict(env(ALLOCATOR="jemalloc", LOG_LEVEL="info"), GLIBC_TUNABLES="glibc.malloc.hugetlb=2"))

	assert got.returncode == 0
	assert "glibc serves for good: libc's malloc does not use the brk heap" in got.stderr


@pytest.mark.parametrize("settings", [{}, {"MIN_MB": 0}], ids=["asleep", "awake"])
@pytest.mark.parametrize("what", ["large", "many", "family", "trim", "limit"])
@pytest.mark.parametrize("where", ["coroutine", "thread", "handler"])
def test_the_heap_family_needs_no_more_than_4_kb_of_stack(run, env, compile_c, where, what, settings):
	"""Also where the process wakes up, its worker starts, or memory is purged at once."""
	limit = {"LIMIT_MB": 100, "LOG_LEVEL": "error"} if what == "limit" else {}

	got = run([compile_c("small_stack.c", "-Wl,-z,now"), where, what], env(**settings, **limit))

	assert (got.returncode, got.stdout, got.stderr) == (0, "well\n", "")


def test_an_address_space_that_is_filled_from_below_costs_a_pair_two_instructions(run, env, compile_c):
	"""After ulimit -s unlimited libc's old blocks lie above all others: each free took the slow path, and 20 instructions."""
	program = compile_c("step_count.c")

	usual, legacy = (run([program, layout], env()) for layout in ("usual", "legacy"))

	if 3 in (usual.returncode, legacy.returncode):
		pytest.skip("no process may be traced here")
	assert 0 < int(usual.stdout) <= int(legacy.stdout) <= int(usual.stdout) + 4


def test_a_pool_of_thousands_of_threads_begins_as_fast_as_without(run, env, bare, compile_c):
	"""Each new thread had the counters of all read: 12,000 threads took 9 s for 1."""
	program = [compile_c("many_threads.c", "-pthread"), 8000]
	free, shimmed = (run(program, settings, timeout=120) for settings in (bare, env()))
	if free.returncode == 77:
		pytest.skip("so many threads may not be started here")

	assert int(shimmed.stdout) < 3 * int(free.stdout) + 300, (shimmed.stdout, free.stdout)


def test_a_thread_that_works_while_another_one_wakes_the_process_up_frees_what_it_was_given(run, env, shim, compile_c):
	"""1 of 3,000 processes of threads aborted in free: it got a block of jemalloc's while libc's free still served. Here that takes 0.3 s."""
	library = shim.parent / "tests" / "slow_wake" / "libmtshim.so"
	if not library.exists():
		pytest.fail(f"{library} is not there: make unsafe-shims", pytrace=False)

	got = run([compile_c("turns_over.c", "-pthread")], dict(env(), LD_PRELOAD=str(library)))

	assert (got.returncode, got.stdout, got.stderr) == (0, "", "")


@pytest.mark.parametrize("call", ["sbrk", "brk", "handler"])
def test_a_thread_may_move_the_program_break_while_others_allocate(run, env, compile_c, call):
	"""Asleep, libc's malloc moved it for the blocks of all threads: a tenth to a third of the runs crashed or had wrong bytes. A handler
	that interrupts malloc must not wait for libc's lock."""
	program = [compile_c("break_in_thread.c", "-pthread"), call]

	got = [run(program, env()) for _ in range(40)]

	assert {(one.returncode, one.stderr) for one in got} == {(0, "")}
