"""Threads start and end, blocks pass from thread to thread, and the worker purges without a pause."""
import os
import pathlib
import re
import signal
import time

import pytest

SOURCE = pathlib.Path(__file__).with_name("churn.c")
GREEDY = {"MIN_MB": 0, "TICK_MS": 10, "IDLE_MS": 10, "SLACK_MB": 0, "SLACK_PCT": 0, "SETTLE_MS": 100, "BUDGET_PCT": 100}
SECONDS = [3, pytest.param(300, marks=pytest.mark.long)]


def well(text):
	seen = re.match(r"^(\d+) blocks, (\d+) wrong$", text.strip())
	assert seen, text
	assert int(seen[2]) == 0
	return int(seen[1])


@pytest.mark.parametrize("seconds", SECONDS)
def test_no_byte_is_lost_under_a_greedy_worker(run, env, compile_c, backend, seconds):
	blocks = 0
	for _ in range(4):  # more than once only on a busy machine
		got = run([compile_c(SOURCE), seconds, 6], env(**GREEDY), timeout=seconds * 3 + 60)
		assert got.returncode == 0, got.stderr
		blocks += well(got.stdout)
		if blocks > 10000:
			return
	assert blocks > 10000


@pytest.mark.parametrize("seconds", SECONDS)
def test_no_byte_is_lost_under_signals_and_requests(spawn, env, compile_c, control, awake, backend, seconds):
	settings = env(**GREEDY, GC_ROUNDS=1)
	process = spawn([compile_c(SOURCE), seconds, 4], settings)
	awake(process.pid, settings)
	end = time.monotonic() + seconds - 1.5
	while time.monotonic() < end:
		for _ in range(50):
			os.kill(process.pid, signal.SIGUSR1)
			time.sleep(0.002)
		for words in (("trim", process.pid, "--light"), ("round", process.pid), ("set", process.pid, "tick_ms=20"),
		              ("reset-peak", process.pid), ("stat", process.pid, "--json")):
			assert control(settings, *words).returncode >= 0
		assert process.poll() is None, process.stderr.read()

	out, err = process.communicate(timeout=60)
	assert process.returncode == 0, err
	assert well(out) > 1000


@pytest.mark.parametrize("conf", ["narenas:1", "narenas:64", "tcache:false", "abort_conf:false,slab_sizes:1-4096:1"])
def test_no_byte_is_lost_with_other_settings_of_jemalloc(run, env, compile_c, conf):
	got = run([compile_c(SOURCE), 2, 4], env(ALLOCATOR="jemalloc", MALLOC_CONF=conf, **GREEDY), timeout=60)

	assert got.returncode == 0, got.stderr
	assert well(got.stdout) > 1000


def test_thousands_of_short_threads_leave_nothing(run, env, backend):
	"""The accounting data of a thread is freed when it ends."""
	script = ("import threading, re\n"
	          "def rss():\n"
	          "    return int(re.search(r'RssAnon:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
	          "def burst(count):\n"
	          "    for _ in range(count // 10):\n"
	          "        threads = [threading.Thread(target=lambda: bytes(5000)) for _ in range(10)]\n"
	          "        [t.start() for t in threads]; [t.join() for t in threads]\n"
	          "burst(1000)\n"
	          "before = rss()\n"
	          "burst(8000)\n"
	          "print(rss() - before)\n")

	got = run(["/usr/bin/python3", "-c", script], env(MIN_MB=0), timeout=120)

	assert got.returncode == 0, got.stderr
	assert int(got.stdout) < 4000, "kB more after 8000 more threads"
