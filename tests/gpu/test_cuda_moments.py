"""Awkward moments: the first allocation while the loader is at work, and the end of the process."""
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def moments(run, env, fakecuda, compile_c):
	def run_one(*words, **settings):
		library = ROOT / "build" / "tests" / "fakecuda" / "libcuda.so.1"
		if not library.exists():
			pytest.fail("tests/fakecuda is not built: make fakecuda", pytrace=False)
		fake = {name[5:]: settings.pop(name) for name in list(settings) if name.startswith("FAKE_")}
		# Linked, so that nothing is bound before the first allocation.
		program = compile_c("cuda_moments.c", "-rdynamic", "-DROAD_LINKED", "-Wl,--no-as-needed", library)
		return run([program, *words], fakecuda(env(**settings), **fake), timeout=20)
	return run_one


def test_the_first_allocation_in_a_constructor_does_not_wait_for_one_that_waits_for_the_loader(moments, compile_c):
	got = moments("constructor", compile_c("cuda_plugin.c", "-shared", "-fPIC"))

	assert (got.returncode, sorted(got.stdout.split("\n"))) == (0, ["", "constructor: 0", "thread: 0"])


@pytest.mark.parametrize("moment", ["exit", "inside"])
def test_once_the_process_ends_our_thread_calls_nothing_of_the_driver(moments, moment):
	got = moments(moment, CUDA_DECAY_MS=300, MIN_MB=0, FAKE_LATENCY_US="cuMemFreeAsync=5000")

	assert (got.returncode, got.stdout) == (0, "late calls: 0\n")


def test_a_process_that_ends_waits_for_one_block_on_its_way_back_and_not_for_all(moments):
	"""64 of them take the driver longer than the end would wait."""
	got = moments("inside", CUDA_DECAY_MS=300, MIN_MB=0, FAKE_LATENCY_US="cuMemFreeAsync=50000")

	assert (got.returncode, got.stdout) == (0, "late calls: 0\n")
