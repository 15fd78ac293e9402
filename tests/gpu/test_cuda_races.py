"""Races between a program's work on a device and the pool that hands its freed blocks out again, on the fake driver.

cuda_races.c says what a race is. Each runs on a driver whose cuMemFree waits for nothing, so that only the pool's fences keep the
contents whole, and each must fail with a shim whose fences are taken out.
"""
import re

import pytest

RACES = ["stream", "per_thread", "graph"]
# With cuCtxRecordEvent; without it nothing is pooled.
VERSIONS = ["13.0", "12.8"]


@pytest.fixture
def race(run, compile_c, fakecuda):
	"""race(name, env, version): runs one, answers its exit status and what it printed."""
	program = compile_c("cuda_races.c")

	def run_one(name, env, version="13.0", free_waits=0, **settings):
		settings = dict({"FREE_WAITS": free_waits}, **settings)
		return run([program, name], fakecuda(env, version, **settings), timeout=60)
	return run_one


@pytest.fixture
def unsafe(shim, env):
	"""unsafe("nofence" or "nogate"): an environment with the shim whose fences or whose capture gate are taken out."""
	def make(variant):
		path = shim.parent / "tests" / variant / "libmtshim.so"
		if not path.exists():
			pytest.fail(f"{path} is not there: make unsafe-shims", pytrace=False)
		return dict(env(), LD_PRELOAD=str(path))
	return make


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", RACES)
def test_a_block_comes_back_only_when_all_work_on_it_is_done(race, env, name, version):
	got = race(name, env(), version)

	assert got.returncode == 0, got.stdout + got.stderr
	assert "stale rounds: 0" in got.stdout and got.stderr == ""
	# The test would see nothing if no block ever came back.
	assert int(re.search(r"came back: (\d+)", got.stdout)[1]) > 0


@pytest.mark.parametrize("name", RACES)
def test_without_the_fences_stale_work_is_seen(race, unsafe, name):
	got = race(name, unsafe("nofence"))

	assert got.returncode == 4 and "stale:" in got.stdout, got.stdout + got.stderr


def test_the_driver_alone_keeps_contents_whole_where_its_free_waits(race, bare):
	for name in RACES:
		got = race(name, bare, free_waits=2)

		assert got.returncode == 0, f"{name}: {got.stdout}{got.stderr}"


@pytest.mark.parametrize("version", VERSIONS)
def test_no_capture_is_lost_to_a_storm_of_frees(race, env, version):
	got = race("captures", env(), version, REUSE=1)

	assert got.stdout == "lost captures: 0, storm blew\n" and got.returncode == 0 and got.stderr == ""


def test_without_the_gate_captures_are_lost(race, unsafe):
	got = race("captures", unsafe("nogate"), REUSE=1)

	assert got.returncode == 4 and "lost captures: 0" not in got.stdout, got.stdout + got.stderr


def test_neither_a_decay_nor_a_capture_waits_for_work_that_waits_for_the_program(race, env):
	got = race("decay", dict(env(), MT_CUDA_DECAY_MS="200"), free_waits=2)

	assert got.stdout == "decay came\ncaptured\n" and got.returncode == 0 and got.stderr == ""
