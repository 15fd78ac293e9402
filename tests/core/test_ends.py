"""How processes and threads end: the heap serves to the last, and what the program would have said and answered, it says and
answers."""
import pytest

from allocators import FILES, library_of

BUSY = {"MIN_MB": 0, "TICK_MS": 10, "IDLE_MS": 10, "SLACK_MB": 0, "SLACK_PCT": 0, "BUDGET_PCT": 100}
SETTINGS = pytest.mark.parametrize("settings", [{}, BUSY], ids=["asleep", "busy"])


@pytest.fixture
def same(run, env, bare, compile_c, backend):
	"""same(times, end, number, ...): what the program said, which is each time what it says without the shim."""
	def ask(times, *words, program="ends.c", **settings):
		expected = run([compile_c(program), *words], bare)
		for _ in range(times):
			got = run([compile_c(program), *words], env(**settings), timeout=30)
			assert (got.returncode, got.stdout, got.stderr) == (expected.returncode, expected.stdout, "")
		return expected.stdout
	return ask


@SETTINGS
@pytest.mark.parametrize("end", ["handlers", "quick"])
def test_handlers_of_the_exit_allocate_and_free(same, end, settings):
	assert same(5, end, **settings) == ("3 handlers\n" if end == "handlers" else "1 handlers\n")


@SETTINGS
def test_key_destructors_allocate_in_every_round(same, settings):
	"""Ten keys, four rounds: PTHREAD_DESTRUCTOR_ITERATIONS."""
	assert same(1, "keys", 200, **settings) == "8000 handlers\n"


@SETTINGS
def test_threads_end_below_cleanup_handlers(same, settings):
	assert same(1, "cleanup", 200, **settings) == "1000 handlers\n"


@SETTINGS
def test_thread_locals_of_cxx_are_destroyed(same, settings):
	assert same(2, program="ends_cxx.cc", **settings) == "242 ended\n"


@SETTINGS
@pytest.mark.parametrize("end, said", [("alive", "returns\n"), ("suddenly", "now\n"), ("abort", "aborts\n")])
def test_a_process_ends_while_its_threads_allocate(same, end, said, settings):
	assert same(15, end, **settings) == said


@SETTINGS
def test_two_threads_may_call_exit_at_once(same, settings):
	same(15, "twice", **settings)


@pytest.mark.slow
def test_a_thread_works_on_where_nobody_can_count_the_threads(same):
	"""The shim ended the process: it took a /proc that could not be read for a process without threads."""
	assert same(1, "blind", **BUSY) == "worked to its end\n"


@pytest.mark.parametrize("order", ["before", "behind"])
@pytest.mark.parametrize("name", FILES)
def test_a_program_whose_main_thread_left_ends_over_any_allocator(run, env, shim, compile_c, name, order):
	"""Nobody counted there, so nobody was told that main had ended: the worker kept the process for ever."""
	library = library_of(name)
	chain = f"{library}:{shim}" if order == "before" else f"{shim}:{library}"

	got = run([compile_c("hard_moments.c"), "leave"], dict(env(), LD_PRELOAD=chain), timeout=20)

	assert (got.returncode, got.stdout) == (0, "the last thread is done\n"), got.stderr
