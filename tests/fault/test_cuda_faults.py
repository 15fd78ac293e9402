"""The Nth call of a function of the driver fails, for every call that a run with the shim makes: the program gets the
driver's own code, as without the shim, and the ledger is clean at the end. What only the shim calls may fail unnoticed."""
import collections
import concurrent.futures
import os
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FAKE = pathlib.Path(os.environ.get("MTSHIM_FAKECUDA", ROOT / "build" / "tests" / "fakecuda"))
CODE = 46  # no code that the shim knows
CODES = [CODE, 700, 999]  # and two that end a context
BIRTH = {"cuInit", "cuCtxCreate_v2"}  # without which the program itself has nothing to do
POOLED = {"cuMemAlloc_v2", "cuMemFree_v2"}  # called by the pool at other times than by the program
# The worker looks at these when it likes, so which call of the program's is the Nth one differs from run to run.
LOOKED_AT = {"cuDeviceGetDefaultMemPool", "cuMemPoolGetAttribute", "cuMemGetInfo_v2"}


@pytest.fixture
def program(compile_c):
	if not (FAKE / "libcuda.so.1").exists():
		pytest.fail("the stand-in for the driver is not there: make fakecuda", pytrace=False)
	return compile_c("cuda_entries.c", f"-L{FAKE}", "-lcuda", "-Wl,--enable-new-dtags", f"-Wl,-rpath,{FAKE}")


@pytest.fixture
def calls(run, env, program, tmp_path):
	"""Returns the number of calls of each function in a run without faults."""
	log = tmp_path / "calls"
	run([program, "faults"], dict(env(CUDA="pool"), FAKECUDA_LOG=str(log)))
	return collections.Counter(line.split()[1] for line in log.read_text().splitlines())


def codes(text):
	return {int(code) for code in re.findall(r": (-?\d+)$", text, re.MULTILINE)}


def check(run, env, bare, program, clean, function, number, code):
	fault = {"FAKECUDA_FAIL": f"{function}:{number}={code}"}
	got = run([program, "faults"], dict(env(CUDA="pool"), **fault))
	expected = run([program, "faults"], dict(bare, **fault))

	assert got.returncode == 0, f"{fault}: {got.stdout}{got.stderr}"
	if function in POOLED:
		assert codes(got.stdout) <= {0, code}, f"{fault}: {got.stdout}"
		assert got.stdout.splitlines()[-6:] == clean.splitlines()[-6:], f"{fault}: {got.stdout}"
	elif function in LOOKED_AT:
		assert codes(got.stdout.split("ledger")[0]) <= {0, code}, f"{fault}: {got.stdout}"
	else:
		assert got.stdout == expected.stdout, f"{fault}: {got.stderr}"


def check_all(run, env, bare, program, calls, code, most):
	"""Up to the Nth call; more of some functions may be made than in the run that was counted."""
	clean = run([program, "faults"], env(CUDA="pool")).stdout

	assert codes(clean) == {0}, clean
	assert calls["cuMemAllocManaged"] == 2 and calls["cuCtxRecordEvent"] >= 1, calls
	jobs = [(function, number) for function in sorted(set(calls) - BIRTH) for number in range(1, min(calls[function] + 2, most) + 1)]
	with concurrent.futures.ThreadPoolExecutor(2 + 2 * os.cpu_count()) as pool:
		for done in [pool.submit(check, run, env, bare, program, clean, function, number, code) for function, number in jobs]:
			done.result()
	return len(jobs)


@pytest.mark.parametrize("code", CODES)
def test_each_call_of_the_driver_fails_once(run, env, bare, program, calls, code):
	assert check_all(run, env, bare, program, calls, code, 8) > 100


@pytest.mark.long
@pytest.mark.parametrize("code", [1, 46, 201, 400, 700, 709, 719, 800, 999])
def test_each_call_of_the_driver_fails_once_to_the_last(run, env, bare, program, calls, code):
	"""Every call there is, and errors of every kind: a bad value, a bad context, a bad handle, and those that end a context."""
	check_all(run, env, bare, program, calls, code, 10000)


def test_nothing_is_swallowed(run, env, bare, program):
	"""Shows that injected faults reach the program; otherwise this file would test nothing."""
	for function in ("cuMemAlloc_v2", "cuMemAllocManaged", "cuMemRelease", "cuMemFreeHost", "cuArrayDestroy"):
		got = run([program, "faults"], dict(env(CUDA="pool"), FAKECUDA_FAIL=f"{function}:1={CODE}"))

		assert f": {CODE}\n" in got.stdout, function
