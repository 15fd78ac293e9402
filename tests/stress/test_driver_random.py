"""Random calls of the CUDA driver, once without the shim and once with its device pool: the same replies, and none takes longer.

A fault is told with its seed and the fewest operations that show it; tests/stress/driver_random.py replays it.
"""
import pytest

import driver_random
from places import ROOT

pytestmark = pytest.mark.xdist_group("driver_random")  # what they compare is time: one at a time
VERSIONS = ["11.0", "12.2", "12.8", "13.0"]
# The first chunk of each is without green contexts, of which the second has some: after one nothing is pooled.
SEED = 15


@pytest.fixture
def program(compile_c):
	return compile_c(ROOT / "tests/stress/driver_random.c", *driver_random.SOURCES, *driver_random.FLAGS)


@pytest.fixture
def runner(program, bare, shim):
	"""runner(version): compares on that version of the stand-in."""
	return lambda version: driver_random.Runner(program, version, bare, shim)


def expect_none(one, seed, calls, chunk):
	count, texts = driver_random.check(one, seed, calls, chunk)
	assert count == 0, f"{one.calls} calls compared, {count} differ\n" + "\n".join(texts)
	assert one.calls >= calls
	assert one.withheld <= 1 + calls // 50_000, "broken contexts explain too much"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_pool_answers_as_the_driver_alone_and_as_fast(runner, version):
	expect_none(runner(version), SEED, 3_000, 1_500)


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_a_million_calls_are_answered_as_by_the_driver_alone(runner, version):
	expect_none(runner(version), 1_000_000, 250_000, 5_000)


def test_the_driver_alone_answers_the_same_twice(runner):
	one = runner("13.0")
	one.shimmed = one.bare
	one.strict = True

	expect_none(one, SEED, 1_500, 1_500)


def test_the_comparison_finds_an_error_and_a_slow_call(runner):
	one = runner("13.0")
	one.shimmed = dict(one.bare, FAKECUDA_FAIL="cuMemAllocManaged:0=999")
	wrong = one.faults(SEED, 120)
	operations, _ = one.shrink(wrong[0])
	one.shimmed = dict(one.bare, FAKECUDA_LATENCY_US="cuMemAllocManaged=130000")
	slow = one.faults(SEED, 120)

	assert [(fault.kind, fault.name, fault.shimmed) for fault in wrong] == [("answer", "cuMemAllocManaged", "999")]
	assert 0 < len(operations) <= 4
	assert slow and {(fault.kind, fault.name) for fault in slow} == {("slow", "cuMemAllocManaged")}
