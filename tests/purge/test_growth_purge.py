"""Free pages of one kind go back while another kind grows."""
import json
import subprocess

import pytest

from pressed import MB, PYTHON

# 200 MB of small objects are dropped; then large blocks are filled at once.
OBJECTS_THEN_BLOCKS = r'''
import re, sys
each, kept = int(sys.argv[1]), [("x%d" % i) * 20 for i in range(1_000_000)]
kept = None
blocks = [b"x" * (each << 20) for i in range(240 // each)]
print(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1])
'''


@pytest.mark.parametrize("each_mb", [2, 16, 120])
def test_dropped_objects_are_not_kept_beside_large_blocks_that_grow(run, env, bare, each_mb):
	"""The blocks were filled before the worker's next tick: peak 1.6 times that of glibc."""
	program = [PYTHON, "-c", OBJECTS_THEN_BLOCKS, str(each_mb)]
	expected, got = run(program, bare), run(program, env())

	assert got.returncode == 0, got.stderr
	assert int(expected.stdout) > 200 * MB // 1024
	assert int(got.stdout) < 1.15 * int(expected.stdout)


# Of 400 MB, 80 MB are free when the last large block is made. The worker purges 300 MB. Then 110 MB of
# objects are dropped, which the worker leaves alone, and large blocks are filled at once.
AFTER_A_LARGER_HEAP = r'''
import re, time
def mb(name, file="/proc/self/status"):
    return int(re.search(name + r":\s+(\d+)", open(file).read())[1]) >> 10
kept = [("x%d" % i) * 20 for i in range(550_000)]
blocks = [b"x" * (64 << 10) for i in range(4800)]
blocks[:1280] = [None] * 1280
some = [b"x" * (8 << 20) for i in range(2)]
blocks = some = None
before = mb("RssAnon")
while mb("RssAnon") > before - 250:
    time.sleep(0.05)
time.sleep(1)
open("/proc/self/clear_refs", "w").write("5")
kept = None
blocks = [b"x" * (16 << 20) for i in range(10)]
print(mb("VmHWM"))
'''


def test_growth_is_seen_after_a_heap_that_was_larger(run, env):
	"""Growth counts from what the heap has shrunk to, and not from its former size."""
	got = run([PYTHON, "-c", AFTER_A_LARGER_HEAP], env(SLACK_MB=160), timeout=60)

	assert got.returncode == 0, got.stderr
	assert int(got.stdout) < 230


# A heap that is used again as it was does not grow: nothing is purged in between.
SAME_AGAIN = r'''
import resource
def fill():
    return [b"x" * (8 << 20) for i in range(20)]
for turn in range(3):
    kept = fill()
    kept = None
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for turn in range(20):
    kept = fill()
    kept = None
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
'''


def test_memory_that_is_used_again_at_once_is_not_purged_by_growth(run, env):
	got = run([PYTHON, "-c", SAME_AGAIN], env(IDLE_MS=60000))

	assert got.returncode == 0, got.stderr
	assert int(got.stdout) < 20 * 160 * MB // 4096 / 2


# Objects of Python that come and go, with a rest between.
ROUNDS_OF_OBJECTS = r'''
import resource, time
def fill():
    return [{"x": i, "y": str(i)} for i in range(400_000)]
for turn in range(2):
    kept = fill()
    kept = None
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for turn in range(6):
    time.sleep(0.5)
    kept = fill()
    kept = None
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
'''


def test_objects_that_come_again_after_a_rest_find_their_pages(run, env):
	"""The first fill counted as growth for ever: each later one purged what it was about to reuse."""
	got = run([PYTHON, "-c", ROUNDS_OF_OBJECTS], env(IDLE_MS=60000, SLACK_MB=512))

	assert got.returncode == 0, got.stderr
	assert int(got.stdout) < 20 * MB // 4096


# 1 GB of one thread is free when another one begins to allocate.
GROWTH_BESIDE_MUCH = r'''
import threading, time
worst, kept = 0, []
def grow():
    global worst
    for i in range(8000):
        began = time.thread_time_ns()
        kept.append(b"x" * (64 << 10))
        worst = max(worst, time.thread_time_ns() - began)
freed = [b"x" * (64 << 10) for i in range(16000)]
freed = None
thread = threading.Thread(target=grow)
thread.start()
thread.join()
print(worst // 1000)
'''


def test_no_allocation_pays_for_a_purge_of_a_gigabyte(run, env):
	"""One malloc took 120 ms of CPU time where 1.5 GB were free."""
	got = run([PYTHON, "-c", GROWTH_BESIDE_MUCH], env())

	assert got.returncode == 0, got.stderr
	assert int(got.stdout) < 30_000


def test_the_figures_of_a_slow_leak_are_a_few_seconds_old(env, control, compile_c):
	"""Growth of less than 1 MB a tick counted as none: live bytes were up to half a minute old, and the leak was shown as other."""
	settings = env()
	with subprocess.Popen([compile_c("slow_leak.c")], env=settings, stdout=subprocess.PIPE, text=True) as leak:
		behind = []
		for live_mb in leak.stdout:
			done = control(settings, "stat", leak.pid, "--json", "--cached")
			if int(live_mb) > 33:
				behind.append(int(live_mb) - json.loads(done.stdout)["heap_live_bytes"] / 1e6)
	assert max(behind) < 6, behind
