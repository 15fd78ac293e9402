"""What is free, in pages of the driver's; ends of contexts; calls that fail for another reason than idle memory: as with the driver alone.

cuda_edges.c has the programs. Each runs with and without the shim on every version of the stand-in, and what it prints must be the same.
"""
import pytest

VERSIONS = ["13.0", "12.8", "12.2", "11.0"]


@pytest.fixture
def program(compile_c):
	return compile_c("cuda_edges.c")


@pytest.fixture
def same(run, program, fakecuda, env, bare):
	"""same(word, version, ...): runs the program with and without the shim; the answer, which must be the same."""
	def compare(word, version, **settings):
		settings = {"CUDA_LOW_PCT": 0, "PRESSURE": 0, **settings}
		expected = run([program, word], fakecuda(bare, version, MEMORY_MB=1000), timeout=30)
		got = run([program, word], fakecuda(env(CUDA="pool", **settings), version, MEMORY_MB=1000), timeout=30)
		assert expected.returncode == 0 and expected.stdout.endswith("done\n"), expected.stdout + expected.stderr
		assert (got.stdout, got.returncode) == (expected.stdout, 0), got.stdout + got.stderr
		return got.stdout
	return compare


@pytest.mark.parametrize("version", VERSIONS)
def test_free_memory_counts_what_is_cached_in_the_pages_that_the_driver_takes(same, version):
	assert "240: 0\n" in same("pages", version)


@pytest.mark.parametrize("version", VERSIONS)
def test_blocks_that_share_pages_share_them_with_the_pool(same, version):
	assert "1000\n" in same("just_below", version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("free", ["wait", "async"])
def test_the_driver_replies_to_a_free_without_a_current_context(same, version, free):
	assert "201" in same("no_context", version, CUDA_FREE=free)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_context_whose_end_failed_has_no_memory_that_was_freed(same, version):
	assert "cuMemAlloc_v2(&(uint64_t){0}, 900 * MB): 0\n" in same("failed_destroy", version)


@pytest.mark.parametrize("version", VERSIONS)
def test_with_more_contexts_than_the_pool_knows_each_gets_what_the_others_have_freed(same, version):
	assert same("many", version).count(": 0\n") == 18


@pytest.mark.parametrize("version", VERSIONS)
def test_a_call_that_fails_beside_much_free_memory_waits_for_no_pending_block(same, version):
	assert "cuStreamCreate(&other, 0): 2\n" in same("unknown_size", version)


@pytest.mark.parametrize("version", VERSIONS[:3])
def test_memory_freed_before_a_graph_does_not_wait_for_its_host_function(same, version):
	assert "slow" not in same("graph_small", version)
