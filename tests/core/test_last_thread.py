"""A program whose main thread ends by pthread_exit lives until its own last thread ends, and no longer. The programs are in
last_thread.c."""
import pytest


@pytest.fixture
def live(run, compile_c, env):
	"""live(moment, flags=..., **settings): what the program printed, its end being a good one."""
	def live_one(moment, flags=(), **settings):
		got = run([compile_c("last_thread.c", *flags), moment], env(**settings), timeout=20)
		assert (got.returncode, got.stderr) == (0, ""), got.stdout
		return got.stdout
	return live_one


@pytest.mark.parametrize("settings", [{}, {"MIN_MB": 0}], ids=["asleep", "awake"])
def test_a_full_table_of_descriptors_does_not_end_the_threads_that_are_left(live, settings, backend):
	assert live("full", **settings) == "the worker is done\n"


def test_the_key_destructors_of_main_run_to_their_end(live, backend):
	assert live("destructor", MIN_MB=0) == "main's destructor is done\n"


@pytest.mark.parametrize("settings", [{}, {"MIN_MB": 0}], ids=["asleep", "awake"])
def test_the_exit_handlers_run_on_main_if_it_is_the_last_thread(live, settings, backend):
	assert live("alone", **settings) == "the main thread runs it\n"


def test_no_thread_of_ours_takes_signals_when_main_has_left(live, backend):
	assert live("signals", MIN_MB=0) == "0 other threads take signals\n"


def test_a_program_with_a_malloc_of_its_own_ends_with_its_last_thread(live):
	assert live("plain", flags=("-DOWN_MALLOC",)) == "the worker is done\n"


@pytest.fixture
def ends(run, bare, compile_c, env, mt_dir):
	"""ends(moment): what bare_exit.c says under the shim, where it ends as without it and leaves no file behind."""
	def end_one(moment, status=None):
		wanted = run([compile_c("bare_exit.c"), moment], bare, timeout=10).returncode if status is None else status
		got = run([compile_c("bare_exit.c"), moment], env(MIN_MB=0), timeout=10)
		assert got.returncode == wanted
		assert not list(mt_dir.glob("*")), "the files of a process that has ended"
		return got.stdout
	return end_one


@pytest.mark.parametrize("moment", ["main", "strict", "filter", "child"])
def test_a_main_thread_that_ends_past_libc_ends_the_process(ends, moment, backend):
	assert ends(moment) == "grown\n"


def test_other_threads_outlive_a_main_thread_that_ends_past_libc(ends, backend):
	assert ends("others") == "grown\nthe other thread is done\n"


def test_the_last_thread_ends_the_process_past_libc_after_main_left(ends, backend):
	# Without the shim the status is main's or the last thread's, which is the kernel's choice; with it main's.
	assert ends("last", status=0) == "grown\nthe other thread is done\n"
