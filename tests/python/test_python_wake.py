"""Collections are asked for by a thread of which Python knows nothing: that its main thread hears of it, whatever it does. With other
versions of Python than the system's: tests/python/python_wake.py."""
import os
import statistics
import time

import pytest

from places import helper

WAKE = helper("python_wake.py")
PYTHON = os.environ.get("MTSHIM_PYTHON", "/usr/bin/python3")
BUSY_MS = 50


@pytest.mark.alone
def test_a_collection_runs_at_once_in_a_loop_that_never_waits(run, env, backend):
	got = run([PYTHON, WAKE, "busy"], env(MIN_MB=100000))

	words = got.stdout.split()
	assert got.returncode == 0 and len(words) == 20 and "never" not in words, got.stdout + got.stderr
	assert statistics.median(map(float, words)) < BUSY_MS, words


def test_mtctl_trim_collects_in_a_loop_that_never_waits(spawn, env, awake, control):
	settings = env(MIN_MB=0)
	program = spawn([PYTHON, "-c", "print('ready', flush=True)\nnumber = 0\nwhile True: number += 1"], settings)
	assert program.stdout.readline() == "ready\n"
	awake(program.pid, settings)

	done = control(settings, "trim", program.pid)

	assert "gc collected" in done.stdout, done.stdout + done.stderr


def test_a_main_thread_that_computes_in_c_is_said_to_be_busy(spawn, env, awake, control, stats):
	settings = env(MIN_MB=0)
	program = spawn([PYTHON, "-c", "import sys\nprint('ready', flush=True)\nsys.stdin.readline()\nprint('off', flush=True)\n"
	                 "sum(range(10**10))"], settings)
	assert program.stdout.readline() == "ready\n"
	awake(program.pid, settings)
	program.stdin.write("\n")
	program.stdin.flush()
	assert program.stdout.readline() == "off\n"

	done = control(settings, "trim", program.pid)

	assert "the main thread is busy outside Python" in done.stdout, done.stdout + done.stderr
	assert stats(program.pid, settings)["gc_late_count"] == 1


def test_a_main_thread_that_waits_is_named_each_time(spawn, env, awake, control):
	settings = env(MIN_MB=0)
	program = spawn([PYTHON, "-c", "print('ready', flush=True)\ninput()"], settings)
	assert program.stdout.readline() == "ready\n"
	awake(program.pid, settings)

	for _ in range(2):
		began = time.monotonic()
		done = control(settings, "trim", program.pid)
		assert "the main thread is in a system call" in done.stdout and time.monotonic() - began < 1.5, done.stdout + done.stderr


def test_a_storm_of_requests_leaves_a_program_as_it_is(run, env):
	"""Which forks, starts threads, is interrupted by signals, sleeps, reads and writes, and ends in the midst of them."""
	got = run([PYTHON, WAKE, "storm", "1.5"], env(MIN_MB=0, TICK_MS=10))

	assert got.returncode == 0 and got.stdout.startswith("asked "), got.stdout + got.stderr
	assert int(got.stdout.split()[-1]) > 0


@pytest.mark.long
def test_storms_of_requests_for_minutes(run, env, backend):
	for _ in range(40):
		got = run([PYTHON, WAKE, "storm", "3"], env(MIN_MB=0, TICK_MS=10))
		assert got.returncode == 0 and got.stdout.startswith("asked "), got.stdout + got.stderr


def test_a_loop_is_as_fast_after_collections_as_before(run, env):
	"""The word that wakes it is left set by nobody."""
	script = ("import sys, time\n"
	          "sys.argv = ['', 'busy']\n"
	          "def timed():\n"
	          "    began = time.process_time()\n"
	          "    for _ in range(1_000_000): pass\n"
	          "    return time.process_time() - began\n"
	          "before = min(timed() for _ in range(50))\n"
	          f"exec(open('{WAKE}').read())\n"
	          "print('loops', before, min(timed() for _ in range(150)))\n")
	got = run([PYTHON, "-c", script], env(MIN_MB=100000))

	assert got.returncode == 0, got.stderr
	_, before, after = got.stdout.splitlines()[-1].split()
	assert float(after) < float(before) * 1.15 + 0.002
