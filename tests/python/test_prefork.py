"""Processes that share memory with those they were forked from: no cleanup copies it. Longer: tests/stress/limits_prefork.py."""
import sys

import pytest

from places import ROOT

sys.path.insert(0, str(ROOT / "tests" / "stress"))
import limits_prefork

PYTHON = "/usr/bin/python3"


def test_a_trim_copies_nothing_that_forked_workers_share(shim, mtctl, mt_dir, backend):
	settings = limits_prefork.settings(shim, backend, mt_dir, MT_MIN_MB="0")

	more, tree_more, said = limits_prefork.trim_all(mtctl, settings, workers=2, mb=2, rows=80_000)

	assert max(more) <= limits_prefork.MOST_MORE_MB and tree_more <= limits_prefork.MOST_MORE_MB, said
	assert all("gc is left out: it would copy memory" in one.stdout for one in said), said


# Goes away from its parent, as daemons do. The child says its pid, and comes by its bytecodes. Its worker starts with its first call of
# malloc, which Python 3.14 does not make in this loop.
DAEMON = r'''
import os, time
parent = os.getpid()
rows = [{"row": [number]} for number in range(40_000)]
if os.fork() == 0:
	print(os.getpid(), flush=True)
	while os.getppid() == parent:
		time.sleep(0.01)
	block = bytes(2000)
	print("alone", flush=True)
	end = time.monotonic() + 30
	while time.monotonic() < end:
		time.sleep(0.01)
'''


def test_a_daemon_whose_parent_has_ended_is_collected(spawn, env, awake, control, stats):
	settings = env(MIN_MB=0)
	program = spawn([PYTHON, "-c", DAEMON], settings)
	pid = int(program.stdout.readline())
	assert program.stdout.readline() == "alone\n"
	program.wait(10)
	awake(pid, settings)

	done = control(settings, "trim", pid)

	assert "gc collected" in done.stdout, done.stdout + done.stderr
	assert stats(pid, settings)["gc_count"] == 1


# Forks inside a call that keeps the interpreter's lock: between the question and the collection.
FORKS_LATE = r'''
#include <unistd.h>
int sleep_and_fork(unsigned milliseconds)
{
	usleep(milliseconds * 1000);
	if (fork() == 0) {
		sleep(30);
		_exit(0);
	}
	return 0;
}
'''


def test_a_collection_is_left_out_when_the_program_forks_after_it_was_asked_for(spawn, run, env, awake, control, stats, tmp_path):
	(tmp_path / "forks.c").write_text(FORKS_LATE)
	assert run(["gcc", "-shared", "-fPIC", "-o", tmp_path / "forks.so", tmp_path / "forks.c"]).returncode == 0
	settings = env(MIN_MB=0)
	program = spawn([PYTHON, "-c", "import ctypes, sys, time\n"
	                 "rows = [{'row': [number]} for number in range(40_000)]\n"
	                 f"forks = ctypes.PyDLL('{tmp_path}/forks.so').sleep_and_fork\n"
	                 "print('ready', flush=True); sys.stdin.readline()\n"
	                 "print('off', flush=True); forks(1000)\n"
	                 "for _ in range(30): time.sleep(0.01)\n"
	                 "print('forked', flush=True); sys.stdin.readline()\n"], settings)
	assert program.stdout.readline() == "ready\n"
	awake(program.pid, settings)
	program.stdin.write("\n")
	program.stdin.flush()
	assert program.stdout.readline() == "off\n"

	control(settings, "trim", program.pid)

	assert program.stdout.readline() == "forked\n"
	assert stats(program.pid, settings)["gc_count"] == 0


def test_a_purge_copies_nothing_that_forked_workers_share(spawn, compile_c, env, awake, control, backend):
	"""glibc's malloc_trim writes to every block in its fast bins."""
	settings = env(MIN_MB=0)
	program = spawn([compile_c("prefork_bins.c")], settings)
	workers = [int(word) for word in program.stdout.readline().split()]
	for pid in workers:
		awake(pid, settings)
	before = [limits_prefork.private_mb(pid) for pid in workers]

	said = [control(settings, "trim", pid) for pid in workers]

	more = [limits_prefork.private_mb(pid) - mb for pid, mb in zip(workers, before)]
	assert len(workers) == 2 and max(more) <= limits_prefork.MOST_MORE_MB, (more, said)
