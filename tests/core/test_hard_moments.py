"""Moments that have broken the shim once, each as one sentence. The programs are in hard_moments.c."""
import re

import pytest


@pytest.fixture
def live(run, compile_c, env, backend):
	"""live(moment, number, flags=..., timeout=..., **settings): what the program printed, its end being a good one."""
	def live_one(moment, number=0, flags=(), timeout=60, **settings):
		got = run([compile_c("hard_moments.c", *flags), moment, number], env(**settings), timeout)
		assert (got.returncode, got.stderr) == (0, ""), got.stdout
		return got.stdout
	return live_one


BOTH_STARTS = pytest.mark.parametrize("settings", [{}, {"MIN_MB": 0}], ids=["asleep", "awake"])


@BOTH_STARTS
def test_fork_passes_where_handlers_registered_before_us_allocate(live, compile_c, settings):
	library = compile_c("hard_atfork.c", "-shared", "-fPIC")

	assert live("atfork", 20, flags=("-DWITH_ATFORK", library), timeout=30, **settings) == "20 forks, 40 handlers\n"


def test_a_program_whose_main_thread_left_ends_with_its_last_thread(live):
	assert live("leave", timeout=20) == "the last thread is done\n"


def test_detached_threads_that_never_used_the_heap_are_forgotten(live):
	assert live("detached", 12, MIN_MB=0) == "live bytes stay: yes\n"


def test_no_descriptor_of_the_worker_takes_a_number_from_the_program(live):
	assert live("descriptors", 200000, TICK_MS=10) == "200000 tries, 0 got another descriptor\n"


def test_a_bare_forked_child_that_exits_leaves_its_parents_files(live, mt_dir):
	assert live("raw_child") == "child 0, 2 files left\n"
	assert list(mt_dir.iterdir()) == [], "the parent takes them away"


@pytest.mark.slow
def test_memory_touched_long_after_it_was_allocated_goes_back(live):
	assert live("late") == "touched: yes\nreturned: yes\n"


def test_memory_touched_long_after_it_was_allocated_goes_back_on_a_signal(live):
	"""With no budget nothing is purged unasked."""
	assert live("late", 1, BUDGET_PCT=0) == "touched: yes\nreturned: yes\n"


@pytest.mark.parametrize("tls_bytes", [200000, 245000, 252000, 300000])
def test_the_worker_runs_beside_a_large_static_tls(live, tls_bytes):
	"""libc takes it from the thread's own stack."""
	assert live("wake", flags=(f"-DTLS_BYTES={tls_bytes}",), MIN_MB=0, TICK_MS=10) == "2 threads\n"


def instructions_a_pair(run, program, env):
	"""Exact where a time is not: the difference of two runs, which takes the start out. Ticks of the worker, which
	come by the clock, must stay out too: env is one in which it does not wake."""
	counts = []
	for pairs in (1000, 11000):
		got = run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, "pairs", pairs], env)
		assert got.returncode == 0, got.stderr
		counts.append(int(re.search(r"Collected : (\d+)", got.stderr).group(1)))
	return (counts[1] - counts[0]) / 10000


@pytest.mark.slow
def test_a_program_at_a_fixed_address_is_served_as_fast(run, env, compile_c, backend):
	"""There the address of malloc is the program's own stub, which is not a malloc of its own."""
	fixed = instructions_a_pair(run, compile_c("hard_moments.c", "-fno-pie", "-no-pie"), env(MIN_MB=100000))
	moved = instructions_a_pair(run, compile_c("hard_moments.c", "-fPIE", "-pie"), env(MIN_MB=100000))

	assert 10 < moved and fixed <= moved + 3


@pytest.mark.parametrize("settings", [{}, {"MIN_MB": 0}, {"MIN_MB": 100000}], ids=["wakes", "awake", "looks"])
def test_malloc_is_no_cancellation_point(live, settings):
	"""POSIX lists malloc among the functions that must not be one, however the shim looks at the process meanwhile."""
	assert live("pending", **settings) == "400 mallocs, then cancelled\n"


@pytest.mark.slow
def test_threads_cancelled_amid_mallocs_and_trims_hold_nothing_up(live):
	assert live("cancel", 100, timeout=60) == "100 cancelled\n"


def test_sized_frees_are_found_and_free(live):
	assert live("sized", 20000, BUDGET_PCT=0) == "freed: yes\n"


@pytest.mark.parametrize("command", [["/bin/true"], ["/bin/ls", "/"]], ids=["true", "ls"])
def test_a_profiling_jemalloc_conf_does_not_hang_a_program(run, env, bare, backend, command):
	"""true allocates nothing, ls does: jemalloc begins with the first malloc."""
	got = run(command, env(MALLOC_CONF="prof:true"), timeout=10)

	assert (got.returncode, got.stdout) == (0, run(command, bare).stdout)
