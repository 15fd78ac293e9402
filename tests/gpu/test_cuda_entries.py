"""The wrappers of the driver in a real process, on the stand-in for a driver: what a program asks, frees twice, exports,
captures and destroys is answered as it is without the shim, and nothing is left in the ledger."""
import json
import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FAKE = pathlib.Path(os.environ.get("MTSHIM_FAKECUDA", ROOT / "build" / "tests" / "fakecuda"))


@pytest.fixture
def program(compile_c):
	if not (FAKE / "libcuda.so.1").exists():
		pytest.fail("the stand-in for the driver is not there: make fakecuda", pytrace=False)
	return compile_c("cuda_entries.c", f"-L{FAKE}", "-lcuda", "-Wl,--enable-new-dtags", f"-Wl,-rpath,{FAKE}")


@pytest.fixture
def on_fake(env, bare):
	"""The environments with and without the shim."""
	def make(fake=None, **settings):
		driver = {f"FAKECUDA_{name}": str(value) for name, value in (fake or {}).items()}
		settings.setdefault("CUDA", "pool")
		return dict(env(**settings), **driver), dict(bare, **driver)
	return make


def expect_done(got):
	assert got.returncode == 0, got.stdout + got.stderr
	assert got.stdout == "done\n", got.stdout


@pytest.mark.parametrize("word", ["exports", "contexts", "refused", "release", "reset", "async", "fork", "storm", "lost",
                                  "imported", "green"])
def test_what_a_program_may_do(run, program, on_fake, word):
	shimmed, _ = on_fake()

	expect_done(run([program, word], shimmed))


@pytest.mark.parametrize("word", ["contexts", "release", "reset"])
def test_addresses_that_come_again(run, program, on_fake, word):
	"""A new context gets the addresses of one that is gone; the pool must have forgotten them."""
	shimmed, _ = on_fake({"REUSE": 1})

	expect_done(run([program, word], shimmed))


@pytest.mark.parametrize("word", ["nulls", "info", "ranges", "frees"])
@pytest.mark.parametrize("mode", ["pool", "account", "off"])
def test_answers_are_those_without_the_shim(run, program, on_fake, word, mode):
	shimmed, bare = on_fake(CUDA=mode)

	expected = run([program, word], bare)
	got = run([program, word], shimmed)

	assert expected.returncode == 0, expected.stdout
	assert (got.stdout, got.returncode) == (expected.stdout, 0), got.stderr


def test_out_of_memory_is_cured_by_what_the_pool_keeps(run, program, on_fake):
	shimmed, _ = on_fake({"MEMORY_MB": 64})

	expect_done(run([program, "oom"], shimmed))


@pytest.mark.parametrize("mode", ["pool", "account", "off"])
def test_out_of_memory_that_nothing_cures_is_the_drivers_own_error(run, program, on_fake, mode):
	shimmed, bare = on_fake({"MEMORY_MB": 64}, CUDA=mode)

	got = run([program, "hopeless"], shimmed)

	assert got.stdout == run([program, "hopeless"], bare).stdout
	assert got.stdout.count(": 2\n") == 10, got.stdout


def test_after_the_drivers_own_end_nothing_is_said(run, program, on_fake):
	"""A destructor frees when the driver is gone already."""
	shimmed, _ = on_fake()

	got = run([program, "late"], shimmed)

	expect_done(got)
	assert got.stderr == ""


def test_peers(run, program, on_fake):
	shimmed, _ = on_fake({"DEVICES": 2})

	expect_done(run([program, "peers"], shimmed))


# Before 12.5 nothing is pooled, and "release" expects that a block comes back.
@pytest.mark.parametrize("word, version", [("contexts", "11.0"), ("contexts", "12.2"), ("contexts", "12.8"), ("release", "12.8"),
                                           ("storm", "11.0"), ("storm", "12.2"), ("storm", "12.8")])
def test_older_drivers(run, program, on_fake, word, version):
	shimmed, _ = on_fake()
	shimmed["LD_LIBRARY_PATH"] = str(FAKE / version)

	expect_done(run([program, word], shimmed))


def test_every_kind_is_counted_and_uncounted(spawn, program, on_fake, control, wait_for):
	shimmed, _ = on_fake(MIN_MB=0)
	process = spawn([program, "kinds"], shimmed)

	def figures():
		done = control(shimmed, "stat", process.pid, "--json")
		return json.loads(done.stdout) if done.returncode == 0 else {}

	def is_counted(expected):
		now = figures()
		return now if all(now.get(name) == value for name, value in expected.items()) else None

	mib = 1 << 20
	assert process.stdout.readline() == "allocated\n", process.stderr.read()
	# Ten kinds of device memory besides cuMemAlloc, three of host memory, 4 MB each.
	wait_for(lambda: is_counted({"gpu_allocated_bytes": 4 * mib, "gpu_other_bytes": 40 * mib, "gpu_pinned_bytes": 12 * mib}),
	         10, f"{figures()}")
	process.stdin.write("\n")
	assert process.stdout.readline() == "freed\n", process.stderr.read()
	wait_for(lambda: is_counted({"gpu_allocated_bytes": 0, "gpu_other_bytes": 0, "gpu_pinned_bytes": 0}), 10, "all freed")
	process.stdin.write("\n")
	assert process.wait(timeout=20) == 0, process.stdout.read()
