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


def test_no_thread_of_ours_takes_signals_when_main_has_left(live, backend):
	assert live("signals", MIN_MB=0) == "0 other threads take signals\n"


def test_a_program_with_a_malloc_of_its_own_ends_with_its_last_thread(live):
	assert live("plain", flags=("-DOWN_MALLOC",)) == "the worker is done\n"
