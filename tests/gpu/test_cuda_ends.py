"""Contexts that begin and end while the pool keeps blocks and the device works, on the fake driver: cuda_ends.c says how."""
import pytest


@pytest.fixture
def ends(run, env, compile_c, fakecuda):
	"""ends(word, version): runs one; all must be fine, on a driver whose cuMemFree waits for nothing."""
	program = compile_c("cuda_ends.c")

	def run_one(word, version="13.0", driver=None, **settings):
		orders = dict({"DEVICES": 2, "FREE_WAITS": 0}, **driver or {})
		got = run([program, word], fakecuda(env(**settings), version, **orders), timeout=20)
		assert (got.stdout, got.returncode) == ("fine\n", 0), got.stdout + got.stderr
	return run_one


def test_the_free_of_a_block_that_another_context_may_use_is_the_drivers(ends):
	ends("beside_another")


def test_a_context_can_be_destroyed_while_the_worker_is_in_it(ends):
	ends("destroyed_under_the_worker", CUDA_FREE="async")


def test_the_end_of_a_primary_context_is_seen_whoever_releases_it_last(ends):
	ends("released_while_asked_for")


def test_a_detached_context_is_forgotten_when_the_driver_ends_it(ends):
	ends("detached")


# Found by review: the end of a context waited for every cuMemFree of ours, in whichever context.
def test_the_end_of_a_context_does_not_wait_for_a_decay_in_another(ends):
	ends("destroyed_beside_a_decay", driver={"FREE_WAITS": 2}, CUDA_DECAY_MS=200, MIN_MB=0)


def test_a_release_of_a_primary_context_that_is_retained_elsewhere_does_not_wait_for_a_decay(ends):
	ends("released_beside_a_decay", driver={"FREE_WAITS": 2}, CUDA_DECAY_MS=200, MIN_MB=0)


def test_the_last_release_of_a_primary_context_is_seen_whichever_of_two_threads_began_first(ends):
	ends("released_in_two_threads")


def test_the_last_release_of_a_primary_context_does_not_wait_for_one_whose_thread_was_cancelled(ends):
	ends("released_by_a_cancelled_thread")


def test_a_thread_cancelled_when_it_begins_a_capture_does_not_end_all_caching(ends):
	ends("captured_by_a_cancelled_thread")


@pytest.mark.parametrize("word", ["made_by_gl", "made_by_vdpau"])
def test_the_work_of_a_context_made_for_graphics_or_video_counts(ends, word):
	ends(word)


def test_out_of_memory_while_a_context_ends_still_gets_what_is_cached(ends):
	ends("out_of_memory_beside_an_end", driver={"MEMORY_MB": 64})
