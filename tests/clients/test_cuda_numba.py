"""Numba's CUDA driver layer, a real client of the driver's interface, on the fake driver: same results, memory from the pool, and a
cleanup that reaches Numba's own queue of frees."""
import importlib.util
import os
import pathlib
import re
import signal

import pytest

PYTHON = "/usr/bin/python3"
SCRIPT = pathlib.Path(__file__).resolve().parent / "cuda_numba.py"
MB = 1 << 20


# This Numba does not run on a driver of 13.0: it takes the cuCtxGetDevice_v2 that is new there for the function that it knows.
NEWEST = "12.8"


@pytest.fixture
def numba(fakecuda):
	"""numba(env, version): the environment for Numba, which finds the driver in the loader's path or as told."""
	def make(environment, version=NEWEST, **driver):
		made = fakecuda(environment, version, **driver)
		made["NUMBA_CUDA_DRIVER"] = made["LD_LIBRARY_PATH"] + "/libcuda.so.1"
		made["NUMBA_CUDA_WARN_ON_IMPLICIT_COPY"] = "0"
		return made
	return make


@pytest.fixture
def same_numba(run, bare, env, numba):
	"""same_numba(python, last, version, ...): the script's results without and with the shim, which must agree; last is
	its last line."""
	def compare(python, last, version, **words):
		plain = dict(numba(bare, version), CUDA_NUMBA_CALLS="1", **words)
		shimmed = dict(plain, **{name: value for name, value in env(CUDA_DECAY_MS=0).items() if name.startswith(("MT_", "LD_PRE"))})
		expected = run([python, SCRIPT], plain, timeout=120)
		got = run([python, SCRIPT], shimmed, timeout=120)
		assert expected.returncode == 0 and expected.stdout.endswith(last + "\n"), expected.stdout + expected.stderr
		check(got, expected, POOLED if version in ("12.8", "13.0") else 1)
	return compare


POOLED = 1 / 2 # of the calls, at most, reach the driver; before 12.5 nothing is pooled


def need_numba():
	if importlib.util.find_spec("numba") is None:  # an import takes a second
		pytest.skip("python3-numba is not installed (scripts/bootstrap)")


def check(got, expected, share=POOLED):
	assert (got.stdout, got.returncode) == (expected.stdout, 0)
	# The shim's own lines about the refused request may come before this one or after it.
	(allocs, frees, used), (own_allocs, own_frees, own_used) = (
		map(int, re.search(r"^calls (\d+) (\d+) (\d+)$", done.stderr, re.MULTILINE).groups()) for done in (got, expected))
	# The driver saw but a part of it, and has everything back.
	assert allocs <= own_allocs * share and frees <= own_frees * share
	assert used == own_used == 0


@pytest.mark.parametrize("version, per_thread", [("11.0", 0), ("12.2", 0), ("12.8", 1)])
def test_numba_computes_the_same(same_numba, version, per_thread):
	need_numba()
	same_numba(PYTHON, "again 10.0", version, NUMBA_CUDA_PER_THREAD_DEFAULT_STREAM=str(per_thread))


@pytest.mark.long # its packages are 350 MB
# Its device remembers a primary context that is closed, and cannot make it current again, without the shim too.
@pytest.mark.parametrize("per_thread", [0, 1])
def test_numba_cuda_computes_the_same(same_numba, numba_cuda_python, per_thread):
	same_numba(numba_cuda_python, "closed", "13.0", NUMBA_CUDA_PER_THREAD_DEFAULT_STREAM=str(per_thread), CUDA_NUMBA_ONCE="1")


@pytest.fixture
def steered(steer, env, numba):
	need_numba()

	def start(**settings):
		settings = dict({"CUDA_DECAY_MS": 0}, **settings)
		return steer([PYTHON, SCRIPT, "steered"], numba(env(**settings), MEMORY_MB=4096))
	return start


def test_a_heavy_cleanup_gives_back_what_numba_dropped(steered, control, awake, wait_for):
	one = steered()

	def drop():
		one.tell(f"fill 10 {4 * MB}")
		one.tell("drop")
		assert one.number("pending") > 0 and one.number("used") >= 40 * MB

	drop()
	os.kill(one.pid, signal.SIGUSR1)
	# Numba's queue is emptied on its main thread, which then asks the driver for nothing.
	wait_for(lambda: one.number("pending") == 0 and one.number("used") == 0, 8, "Numba's and the pool's blocks go back")

	drop()
	awake(one.pid, one.env)
	# Where its main thread runs Python, the trim does not answer before it is done.
	one.process.stdin.write("spin 1\n")
	one.process.stdin.flush()
	assert one.process.stdout.readline() == "spins\n"
	done = control(one.env, "trim", one.pid)
	assert done.returncode == 0 and "numba" in done.stdout.lower(), done.stdout + done.stderr
	assert one.process.stdout.readline() == "spin\n"
	assert one.number("pending") == 0 and one.number("used") == 0


def test_memory_that_numba_dropped_decays(steered, wait_for):
	one = steered(CUDA_DECAY_MS=300)
	one.tell(f"fill 10 {4 * MB}")
	one.tell("drop")
	one.tell("clear")

	wait_for(lambda: one.number("used") == 0, 8, "idle blocks go back")
