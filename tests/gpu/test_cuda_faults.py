"""What goes wrong in a CUDA program costs it no more with the pool than without, on the fake driver: cuda_faults.c says how. Each runs
without the shim too, where the driver gives the same answers."""
import pytest


@pytest.fixture
def faults(run, env, bare, compile_c, fakecuda):
	"""faults(word, version): runs one without the shim and with it; all must be fine."""
	program = compile_c("cuda_faults.c")

	def run_one(word, version="13.0", driver=None, **settings):
		orders = dict({"DEVICES": 2, "FREE_WAITS": 0}, **driver or {})
		for words, environment in (([word], bare), ([word, "pool"], env(**dict({"CUDA_DECAY_MS": 0}, **settings)))):
			got = run([program, *words], fakecuda(environment, version, **orders), timeout=30)
			assert (got.stdout, got.returncode) == ("fine\n", 0), str(words) + got.stdout + got.stderr
	return run_one


@pytest.mark.parametrize("word", ["broken_neighbour", "destroyed_neighbour"])
def test_an_error_of_the_current_context_is_not_held_against_the_context_of_a_freed_block(faults, word):
	faults(word)


@pytest.mark.parametrize("version", ["13.0", "12.8"])
def test_the_end_of_a_block_is_known_beside_an_error_of_the_current_context(faults, version):
	faults("asked_beside_an_error", version)


@pytest.mark.parametrize("free", ["wait", "async"])
def test_what_was_freed_before_an_error_of_its_context_is_there_for_the_next_one(faults, free):
	faults("cached_before_an_error", driver={"MEMORY_MB": 1000}, CUDA="pool", CUDA_FREE=free, CUDA_DECAY_MS=100, CUDA_LOW_PCT=0, MIN_MB=0)


@pytest.mark.parametrize("version", ["13.0", "12.8"])
def test_a_free_in_a_host_function_is_refused_as_the_driver_does_and_a_later_one_accepted(faults, version):
	faults("freed_in_a_host_function", version)


def test_a_context_counts_after_a_destroy_that_a_host_function_was_refused(faults):
	faults("destroyed_in_a_host_function")


def test_a_call_of_the_pools_that_is_not_permitted_now_loses_no_block_and_breaks_no_context(faults):
	faults("refused_for_now", CUDA_DECAY_MS=300, MIN_MB=0)


def test_three_hundred_captures_end_with_their_streams(faults):
	faults("many_destroyed", CUDA_DECAY_MS=300, MIN_MB=0)


def test_a_capture_whose_stream_the_driver_refuses_to_destroy_stays_untouched(faults):
	faults("destroy_refused")
