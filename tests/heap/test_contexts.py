"""Handlers, small stacks and coroutines: where there is little room, or somebody else's."""
import pytest

BUSY = {"MIN_MB": 0, "TICK_MS": 10, "IDLE_MS": 10, "SLACK_MB": 0, "SLACK_PCT": 0, "BUDGET_PCT": 100}
SETTINGS = pytest.mark.parametrize("settings", [{}, BUSY], ids=["asleep", "busy"])

# What the way of SIGUSR1 through the shim may take of a handler's stack.
OUR_BYTES = 768


@pytest.fixture
def well(run, env, compile_c, backend):
	def said(*words, **settings):
		got = run([compile_c("contexts.c"), *words], env(**settings), timeout=60)
		assert (got.returncode, got.stderr) == (0, ""), got.stdout
		return got.stdout
	return said


@SETTINGS
def test_a_handler_of_a_raised_signal_allocates(well, settings):
	assert well("handlers", 20000, **settings) == "20000 handled\n"


@SETTINGS
def test_a_handler_is_left_by_longjmp(well, settings):
	assert well("longjmp", 5000, **settings) == "5000 handled\n"


def test_a_handler_on_a_small_signal_stack_has_nearly_all_of_it(well, run, bare, compile_c):
	alone = run([compile_c("contexts.c"), "altstack"], bare)

	assert alone.returncode == 0, alone.stderr
	assert int(well("altstack", SIGNAL="USR1")) <= int(alone.stdout) + OUR_BYTES


@SETTINGS
def test_threads_on_the_smallest_of_stacks_allocate(well, run, bare, compile_c, settings):
	assert run([compile_c("contexts.c"), "threads", 300], bare).stdout == "300 ended\n"
	assert well("threads", 300, **settings) == "300 ended\n"


@SETTINGS
def test_coroutines_allocate_in_turn(well, settings):
	assert well("coroutines", 20000, **settings) == "20000 passed\n"
