"""The drivers of real programs (bench/workloads/real_*.py) keep the suite's protocol, on little work each."""
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FIGURES = ("work_s", "cpu_s", "peak_mib", "minor_faults")
IDLE_S = 0.6


@pytest.fixture
def variables(shim, mt_dir):
	return {"LD_PRELOAD": str(shim), "MT_DIR": str(mt_dir), "MT_MIN_MB": "0"}


def need(*programs):
	for program in programs:
		if not shutil.which(program) and not importlib.util.find_spec(program):
			pytest.skip(f"{program} is not installed")


def start(name, variables, *arguments):
	environment = {key: value for key, value in os.environ.items() if not key.startswith(("LD_PRELOAD", "MT_"))}
	return subprocess.Popen([sys.executable, f"{ROOT}/bench/workloads/{name}.py", *arguments], stdout=subprocess.PIPE,
		stderr=subprocess.PIPE, text=True, env={**environment, "BENCH_ENVIRONMENT": json.dumps(variables)})


def maps_of(pid):
	with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
		return maps.read()


def check_figures(figures):
	for name in FIGURES:
		assert figures[name] > 0, name


@pytest.mark.parametrize("name, scale, programs", [
	("real_redis", 0.02, ("redis-server", "redis-benchmark", "redis-cli")),
	("real_redis_benchmark", 0.05, ("redis-server", "redis-benchmark", "redis-cli")),
	("real_pgbench", 0.05, ("pgbench",)),
	("real_sqlite", 0.05, ("sqlite3",)),
	("real_postgres", 0.02, ("psql",)),
	("real_web", 0.02, ("puma",)),
	pytest.param("real_celery", 0.01, ("redis-server", "celery"), marks=pytest.mark.long),
	("real_python", 0.02, ()),
	("real_perl", 0.02, ("perl",)),
])
def test_a_program_is_watched_lies_idle_and_is_reported(name, scale, programs, variables):
	need(*programs)
	driver = start(name, variables, "--scale", str(scale), "--idle", str(IDLE_S))
	try:
		watch = json.loads(driver.stdout.readline())
		idle = json.loads(driver.stdout.readline())
		assert watch["event"] == "watch" and idle["event"] == "idle"
		assert 0 <= time.monotonic() - idle["time"] < IDLE_S
		assert "libmtshim" in maps_of(watch["pid"]), "the program is under the candidate"
		assert "libmtshim" not in maps_of(driver.pid), "its driver is not"
		rest, errors = driver.communicate(timeout=60)
	finally:
		driver.kill()
		driver.wait()
	assert driver.returncode == 0, errors
	assert time.monotonic() - idle["time"] >= IDLE_S
	figures = json.loads(rest.splitlines()[-1])
	check_figures(figures)
	assert figures["work_s"] < 60
	assert not os.path.exists(f"/proc/{watch['pid']}"), "the program ended with its driver"


def test_a_program_ends_when_its_driver_is_killed(variables):
	need("sqlite3")
	driver = start("real_sqlite", variables, "--scale", "0.01", "--idle", "60")
	pid = json.loads(driver.stdout.readline())["pid"]
	driver.kill()
	driver.communicate()
	for _ in range(100):
		if not os.path.exists(f"/proc/{pid}"):
			return
		time.sleep(0.05)
	pytest.fail("sqlite3 goes on")


def test_redis_without_the_jemalloc_that_it_links(variables):
	"""Where --libc puts libc's malloc first, the embedded jemalloc serves redis; else the one that redis links."""
	need("redis-server", "redis-benchmark", "redis-cli")
	for arguments, mode in (([], "system"), (["--libc"], "jemalloc")):
		logging = {"MT_LOG_LEVEL": "info", "MT_LOG": f"{variables['MT_DIR']}/log"}
		driver = start("real_redis", {**variables, **logging}, "--scale", "0.01", *arguments)
		out, errors = driver.communicate(timeout=60)
		assert driver.returncode == 0, errors
		check_figures(json.loads(out.splitlines()[-1]))
		with open(f"{variables['MT_DIR']}/log", encoding="utf-8") as log:
			said = log.read().strip().splitlines()[-1]
		assert ("embedded" in said) == (mode == "jemalloc"), said


def test_a_short_program_is_reported_without_lying_idle(variables):
	need("gcc")
	out, errors = start("real_cc1", variables, "--scale", "0.05", "--idle", "30").communicate(timeout=60)
	events = [json.loads(line) for line in out.splitlines()]
	assert [event.get("event") for event in events] == ["watch", None], errors
	check_figures(events[-1])


def test_short_processes_leave_nothing_behind(variables):
	need("hyperfine")
	del variables["MT_MIN_MB"]
	out, errors = start("real_starts", variables, "--scale", "0.05", "--repeats", "2").communicate(timeout=60)
	figures = json.loads(out.splitlines()[-1]) if out else pytest.fail(errors)
	check_figures(figures)
	assert figures["files_left"] == 0 and figures["ms_per_process"] < 1000


def test_the_peak_of_a_grep_is_not_that_of_its_driver(variables):
	del variables["MT_MIN_MB"]
	out, errors = start("real_grep", variables, "--scale", "0.05").communicate(timeout=60)
	figures = json.loads(out.splitlines()[-1]) if out else pytest.fail(errors)
	check_figures(figures)
	assert figures["peak_mib"] < 8


def test_files_that_short_processes_leave_are_an_error(variables, tmp_path):
	need("hyperfine")
	litterer = tmp_path / "grep"
	litterer.write_text(f'#!/bin/sh\ntouch "$MT_DIR/left"\nexec {shutil.which("grep")} "$@"\n')
	litterer.chmod(0o755)
	del variables["MT_MIN_MB"]
	variables["PATH"] = f"{tmp_path}:{os.environ['PATH']}"
	_, errors = start("real_starts", variables, "--scale", "0.01").communicate(timeout=60)
	assert "files left behind in MT_DIR: left" in errors
