"""A full device, and work that waits for the program: the pool answers as the driver alone does, and as soon.

cuda_shortage.c has the programs. Each runs with and without the shim on every version of the stand-in, and what it prints must be the same.
"""
import pytest

VERSIONS = ["13.0", "12.8", "12.2", "11.0"]


@pytest.fixture
def program(compile_c):
	return compile_c("cuda_shortage.c")


@pytest.fixture
def same(run, program, fakecuda, env, bare):
	"""same(word, version, ...): runs the program with and without the shim; the answer, which must be the same."""
	def compare(word, version, settings=None, **driver):
		driver = {"MEMORY_MB": 1000, **driver}
		settings = {"CUDA": "pool", "CUDA_LOW_PCT": 0, **(settings or {})}
		expected = run([program, word], fakecuda(bare, version, **driver), timeout=30)
		got = run([program, word], fakecuda(env(**settings), version, **driver), timeout=30)
		assert expected.returncode == 0 and expected.stdout.endswith("done\n"), expected.stdout + expected.stderr
		assert (got.stdout, got.returncode) == (expected.stdout, 0), got.stdout + got.stderr
		return got.stdout
	return compare


@pytest.mark.parametrize("free", ["wait", "async"])
@pytest.mark.parametrize("version", VERSIONS)
def test_threads_that_fit_the_device_together_never_meet_an_error(same, version, free):
	assert "failures: 0\n" in same("threads", version, {"CUDA_FREE": free}, MEMORY_MB=100)


def test_a_block_that_another_thread_is_giving_back_is_waited_for(same):
	"""However long that takes: on a busy machine such a thread may not run for a while."""
	assert same("beside_release", "13.0", LATENCY_US="cuMemFreeAsync=1000000") == "results: 0 0\ndone\n"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_reused_block_takes_no_more_of_the_device_than_was_asked_for(same, version):
	assert same("slack", version).count(": 0\n") == 9


@pytest.mark.parametrize("version", VERSIONS)
def test_more_than_the_device_has_is_refused_at_once(same, version):
	assert "cuMemAlloc_v2(&dptr, 2000 * MB): 2\n" in same("absurd", version)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_array_larger_than_the_device_is_refused_at_once(same, version):
	assert ": 2\n" in same("absurd_array", version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("word", ["beside_captures", "beside_contexts"])
def test_what_is_freed_is_there_beside_a_thread_that_captures_or_makes_contexts(same, word, version):
	assert "failures: 0\n" in same(word, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_context_whose_end_was_refused_keeps_what_it_has_cached(same, version):
	assert "cuMemAlloc_v2(&dptr, 900 * MB): 0\n" in same("refused_destroy", version)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_freed_beside_a_capture_serves_the_next_request(same, version):
	assert same("captures", version).count(": 0\n") == 3


@pytest.mark.parametrize("version", VERSIONS[:3])
def test_what_is_cached_serves_any_kind_of_memory_beside_a_capture(same, version):
	assert same("capture_kinds", version).count(": 0\n") == 8


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("word", ["host_idle", "host_pending", "host_small", "host_capture"])
def test_no_call_waits_for_work_that_waits_for_the_program(same, word, version):
	assert "slow" not in same(word, version)


@pytest.mark.parametrize("version", VERSIONS[:2])
def test_a_green_context_does_not_wait_for_work_that_waits_for_the_program(same, version):
	assert "slow" not in same("host_green", version)


@pytest.mark.parametrize("version", VERSIONS[:2])
@pytest.mark.parametrize("word", ["kernel_small", "kernel_filled", "kernel_contexts"])
@pytest.mark.parametrize("low_pct", [0, 5])
def test_near_a_full_device_what_was_freed_does_not_wait_for_a_later_kernel(same, word, version, low_pct):
	"""FREE_WAITS=2: the most that the driver's cuMemFree waits for."""
	assert same(word, version, {"CUDA_LOW_PCT": low_pct}, FREE_WAITS=2) == "cu.cuMemAlloc_v2(&dptr, 94 * MB): 0\ndone\n"


@pytest.mark.parametrize("version", VERSIONS[:2])
def test_blocks_on_their_way_back_to_the_driver_count_as_free(same, version):
	got = same("free_while_blocks_go_back", version, {"CUDA_DECAY_MS": 100}, LATENCY_US="cuMemFreeAsync=3000")

	assert got == "free: 1000 MB\ndone\n"


@pytest.mark.parametrize("version, least", [("13.0", 140), ("12.8", 130)])
def test_any_call_that_takes_memory_gets_what_is_cached(run, program, fakecuda, env, version, least):
	got = run([program, "calls"], fakecuda(env(CUDA="pool", CUDA_LOW_PCT=0), version, MEMORY_MB=1000), timeout=30)

	assert got.returncode == 0, got.stdout + got.stderr
	lines = got.stdout.splitlines()
	assert [line for line in lines if not line.endswith(": fine")] == ["done"]
	assert len(lines) > least
