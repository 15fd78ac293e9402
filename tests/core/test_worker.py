"""What the worker does by itself and what it does when asked: bytes measured from outside, never its own word alone."""
import os
import re
import signal
import time

import pytest

import stats_raw
from pressed import PYTHON

QUIET = {"MIN_MB": 0, "SLACK_MB": 100000, "SLACK_PCT": 100, "SETTLE_MS": 3600000}


def rss_kb(pid, name="RssAnon"):
	with open(f"/proc/{pid}/status") as status:
		return int(re.search(rf"^{name}:\s+(\d+)", status.read(), re.MULTILINE)[1])


def fragment(actor):
	"""100 MB of 5 kB blocks of which one in a hundred stays."""
	assert actor.number("alloc 20000 5000 5000") == 20000
	full = rss_kb(actor.pid)
	assert 200 <= actor.number("keep 100") <= 210
	return full


def records(stats, pid, settings, reason):
	return [record for record in stats(pid, settings)["records"] if record["reason"] == reason]


def test_it_settles_by_itself(puppet, env, wait_for, stats, backend):
	"""The promise: falling idle is enough."""
	settings = env(SETTLE_MS=2000)
	actor = puppet(settings)
	begin = rss_kb(actor.pid)
	full = fragment(actor)

	wait_for(lambda: rss_kb(actor.pid) < begin + 12_000, 15, f"from {full} kB back to {begin} kB")

	assert full > 90_000
	done = [record for record in stats(actor.pid, settings)["records"] if record["result"] == 1]
	assert done and done[0]["reason"] in ("settle", "idle", "live_drop")
	assert done[0]["rss_before_bytes"] - done[0]["rss_after_bytes"] > 30_000_000


def test_what_a_cleanup_has_left_is_among_the_samples(puppet, env, wait_for, stats, backend):
	"""The sample of the tick that found it necessary was the one before, the next seconds away: plots showed a flat line."""
	settings = env(SETTLE_MS=2000)
	actor = puppet(settings)
	fragment(actor)

	done = wait_for(lambda: [record for record in stats(actor.pid, settings)["records"] if record["result"] == 1], 15)[0]
	samples = wait_for(lambda: [sample for sample in stats(actor.pid, settings)["samples"] if sample["time_ns"] > done["time_ns"]])

	assert abs(samples[0]["rss_bytes"] - done["rss_after_bytes"]) < 4 << 20
	assert samples[0]["time_ns"] - done["time_ns"] < done["duration_ns"] + 500_000_000


@pytest.mark.slow
def test_it_settles_once(puppet, env, wait_for, stats, ticks, backend):
	settings = env(MIN_MB=0, SETTLE_MS=500)
	actor = puppet(settings)
	fragment(actor)
	wait_for(lambda: rss_kb(actor.pid) < 20_000, 15)
	ticks(actor.pid, settings)
	count = stats(actor.pid, settings)["purge_count"]
	ticks(actor.pid, settings, 5)

	assert stats(actor.pid, settings)["purge_count"] == count


def test_below_the_gate_it_waits(puppet, env, stats, awake, ticks, backend):
	settings = env(MIN_MB=0, SLACK_MB=200, IDLE_MS=50, SETTLE_MS=3600000)
	actor = puppet(settings)
	awake(actor.pid, settings)
	fragment(actor)
	ticks(actor.pid, settings)

	assert stats(actor.pid, settings)["purge_count"] == 0


def test_past_the_gate_it_purges_without_settling(puppet, env, wait_for, stats, backend):
	settings = env(MIN_MB=0, SLACK_MB=32, IDLE_MS=300, SETTLE_MS=3600000)
	actor = puppet(settings)
	fragment(actor)

	wait_for(lambda: rss_kb(actor.pid) < 30_000, 10)
	seen = records(stats, actor.pid, settings, "idle") + records(stats, actor.pid, settings, "live_drop")
	assert seen and seen[0]["result"] == 1


def test_budget_0_only_acts_when_asked(puppet, env, stats, awake, ticks, control, backend):
	settings = env(MIN_MB=0, SLACK_MB=1, SETTLE_MS=200, IDLE_MS=50, BUDGET_PCT=0)
	actor = puppet(settings)
	awake(actor.pid, settings)
	fragment(actor)
	ticks(actor.pid, settings)
	assert stats(actor.pid, settings)["purge_count"] == 0

	assert control(settings, "trim", actor.pid).returncode == 0
	assert rss_kb(actor.pid) < 20_000


def test_usr1_brings_it_down(puppet, env, wait_for, stats, awake, backend):
	settings = env(**QUIET)
	actor = puppet(settings)
	awake(actor.pid, settings)
	begin = rss_kb(actor.pid)
	fragment(actor)

	os.kill(actor.pid, signal.SIGUSR1)

	wait_for(lambda: rss_kb(actor.pid) < begin + 8_000, 5)
	record = wait_for(lambda: records(stats, actor.pid, settings, "signal"), 5)[0]
	assert (record["level"], record["result"]) == ("heavy", 1)
	assert record["rss_before_bytes"] - record["rss_after_bytes"] > 50_000_000


def test_a_trim_says_what_it_freed_and_then_that_nothing_is_left(puppet, env, awake, control, backend):
	settings = env(**QUIET)
	actor = puppet(settings)
	awake(actor.pid, settings)
	fragment(actor)

	first = control(settings, "trim", actor.pid)
	again = control(settings, "trim", actor.pid, "--check")

	assert first.returncode == 0, first.stdout + first.stderr
	assert again.returncode == 1, again.stdout + again.stderr


def test_a_burst_of_requests_is_coalesced(puppet, env, awake, stats, wait_for):
	settings = env(**QUIET)
	actor = puppet(settings)
	awake(actor.pid, settings)
	for _ in range(200):
		os.kill(actor.pid, signal.SIGUSR1)
		time.sleep(0.01)
	wait_for(lambda: records(stats, actor.pid, settings, "signal"), 5)
	time.sleep(1.5)

	assert 1 <= stats(actor.pid, settings)["heavy_count"] <= 6


def test_the_api_trims(puppet, env, awake, stats, wait_for, backend):
	settings = env(**QUIET)
	actor = puppet(settings)
	awake(actor.pid, settings)
	fragment(actor)

	actor.tell("call mt_trim 2")

	wait_for(lambda: rss_kb(actor.pid) < 20_000, 5)
	assert wait_for(lambda: records(stats, actor.pid, settings, "api"), 5)[0]["result"] == 1


def test_federated_calls_are_there(puppet, env, awake, backend):
	settings = env(**QUIET)
	actor = puppet(settings)
	awake(actor.pid, settings)
	fragment(actor)

	assert actor.number("call mt_try_trim") == 1
	assert rss_kb(actor.pid) < 20_000
	assert actor.number("call mt_try_trim") == 0
	assert actor.tell("find mt_cleanup_memory") == "yes"
	assert actor.tell("find mt_allocator_type") == "yes"


def test_freed_memory_is_used_again_before_new_is_taken(puppet, env, backend):
	"""Without decay a jemalloc prefers new memory to a large free extent unless told otherwise
	(lg_extent_max_active_fit): RSS then grows by the whole heap at every turn, long before the worker looks."""
	actor = puppet(env(MIN_MB=0, BUDGET_PCT=0))
	actor.tell("alloc 20000 5000 5000")
	once = rss_kb(actor.pid)
	for _ in range(8):
		actor.tell("keep 0")
		actor.tell("alloc 20000 5000 5000")

	assert rss_kb(actor.pid) < 2 * once


def test_memory_in_use_is_left_alone(puppet, env, awake, stats, backend):
	"""Buffers that are reused faster than the window are not worth a purge: they would only come back."""
	settings = env(MIN_MB=0, SLACK_MB=32, IDLE_MS=1000)
	actor = puppet(settings)
	actor.tell("alloc 20000 5000 5000")
	awake(actor.pid, settings)
	for _ in range(20):
		actor.tell("keep 0")
		actor.tell("alloc 20000 5000 5000")
		time.sleep(0.1)

	seen = stats(actor.pid, settings)
	assert seen["purged_bytes"] < 200_000_000, "of 2 GB that came and went"


UNTOUCHED = """
import ctypes, time
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
never_touched = libc.malloc(2 << 30)
blocks = [bytes(5000) for _ in range(60000)]
print("full", flush=True)
input()
blocks[:] = blocks[::100]
print("freed", flush=True)
input()
"""


def test_live_memory_that_is_not_resident_hides_nothing(spawn, env, wait_for, backend):
	"""Resident minus live bounds what is dirty only where all that is live is resident."""
	program = spawn(["/usr/bin/python3", "-c", UNTOUCHED], env(SETTLE_MS=3600000))
	assert program.stdout.readline() == "full\n"
	assert rss_kb(program.pid) > 300_000
	time.sleep(1)
	program.stdin.write("\n")
	assert program.stdout.readline() == "freed\n"

	wait_for(lambda: rss_kb(program.pid) < 80_000, 15)


ROUNDS = """
import ctypes, time
end_round = ctypes.CDLL(None).mt_round
end, count = time.monotonic() + 4, 0
while time.monotonic() < end:
	end_round()
	count += 1
time.sleep(1.5)
print(count, flush=True)
input()
"""


def worker_ticks(pid):
	"""CPU time of the thread named mtshim."""
	for task in os.listdir(f"/proc/{pid}/task"):
		with open(f"/proc/{pid}/task/{task}/stat") as stat:
			text = stat.read()
		if "(mtshim)" in text:
			fields = text.rsplit(")", 1)[1].split()
			return int(fields[11]) + int(fields[12])
	return 0


@pytest.mark.slow
def test_a_storm_of_rounds_is_coalesced_and_counted(spawn, env, stats):
	"""Each due round counts and has its record, and still the cleanups are one a second."""
	settings = env(**QUIET, GC_ROUNDS=1)
	program = spawn(["/usr/bin/python3", "-c", ROUNDS], settings)
	count = int(program.stdout.readline())

	assert worker_ticks(program.pid) < 200, "in hundredths of a second, of 5.5 s"
	seen = stats(program.pid, settings)
	assert count > 10_000
	assert (seen["rounds_count"], seen["light_count"]) == (count, count)
	assert 3 <= seen["gc_count"] <= 7
	numbers = [record["round"] for record in seen["records"]]
	assert sorted(numbers) == list(range(count - len(numbers) + 1, count + 1)) and len(numbers) == 64
	assert sum(not record["merged"] for record in seen["records"]) == 1


def test_a_purge_is_in_the_figures_at_once(puppet, env, wait_for, stats, backend):
	settings = env(MIN_MB=0, SETTLE_MS=500)
	actor = puppet(settings)
	fragment(actor)

	seen = wait_for(lambda: (lambda now: now if now["purge_count"] else None)(stats(actor.pid, settings)), 15)

	last = seen["records"][-1] if seen["records"][-1]["number"] > seen["records"][0]["number"] else seen["records"][0]
	assert abs(seen["rss_bytes"] - last["rss_after_bytes"]) < 4_000_000
	assert seen["heap_dirty_bytes"] < 8_000_000


def thread_switches(pid):
	"""Voluntary switches of all threads but the main one."""
	total = 0
	for task in os.listdir(f"/proc/{pid}/task"):
		if int(task) != pid:
			with open(f"/proc/{pid}/task/{task}/status") as status:
				total += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status.read(), re.MULTILINE)[1])
	return total


def cpu_ticks(pid):
	with open(f"/proc/{pid}/stat") as stat:
		fields = stat.read().rsplit(")", 1)[1].split()
	return int(fields[11]) + int(fields[12])


@pytest.mark.slow
@pytest.mark.parametrize("window_s", [6, pytest.param(60, marks=pytest.mark.long)])
def test_an_idle_process_hardly_wakes(puppet, env, wait_for, backend, window_s):
	actor = puppet(env(MIN_MB=0, SETTLE_MS=1000))
	fragment(actor)
	wait_for(lambda: rss_kb(actor.pid) < 20_000, 15)
	# The tick stretches step by step to its 5 s.
	time.sleep(12)
	switches, ticks = thread_switches(actor.pid), cpu_ticks(actor.pid)
	time.sleep(window_s)

	assert thread_switches(actor.pid) - switches <= window_s // 4 + 1  # and a lock or a file that it waited for
	assert cpu_ticks(actor.pid) - ticks <= 1


@pytest.mark.slow
def test_growth_wakes_it_from_its_long_sleep(puppet, env, wait_for, stats, backend):
	settings = env(MIN_MB=0, SETTLE_MS=1000, SLACK_MB=32, IDLE_MS=300)
	actor = puppet(settings)
	fragment(actor)
	wait_for(lambda: rss_kb(actor.pid) < 20_000, 15)
	wait_for(lambda: stats(actor.pid, settings)["tick_ms"] > 1500, 20)

	fragment(actor)

	wait_for(lambda: rss_kb(actor.pid) < 30_000, 8)


def test_a_fall_after_a_rest_is_seen_by_the_next_tick(puppet, env, wait_for, mt_dir):
	"""What is freed into jemalloc's hands moves no page: it shows in the threads' own counters alone."""
	actor = puppet(env(MIN_MB=0, TICK_MS=1200, SETTLE_MS=3600000, MT_ALLOCATOR="jemalloc"))
	assert actor.number("alloc 15 8000000 8000000") == 15
	time.sleep(3)
	for _ in range(2):
		assert actor.number("live") > 100_000_000  # adds up all threads: nobody has moved in between

	actor.tell("keep 0")

	wait_for(lambda: stats_raw.figures(mt_dir, actor.pid)["heap_live_bytes"] < 20_000_000, 5)


def test_profile_prints_one_line_for_each_cleanup(puppet, env, awake, control):
	settings = env(**QUIET, PROFILE=1)
	actor = puppet(settings)
	awake(actor.pid, settings)
	fragment(actor)
	control(settings, "trim", actor.pid)

	status, said = actor.end()

	assert status == 0
	lines = [line for line in said.splitlines() if line]
	assert len(lines) == 1 and lines[0].startswith("mtshim[") and "request" in lines[0], said


def test_without_profile_it_says_nothing(puppet, env, awake, control):
	settings = env(**QUIET)
	actor = puppet(settings)
	awake(actor.pid, settings)
	fragment(actor)
	control(settings, "trim", actor.pid)

	assert actor.end() == (0, "")


def test_the_log_goes_to_a_file(puppet, env, awake, control, tmp_path):
	settings = env(**QUIET, PROFILE=1, LOG_LEVEL="info", LOG=tmp_path / "log-%p")
	actor = puppet(settings)
	awake(actor.pid, settings)
	fragment(actor)
	control(settings, "trim", actor.pid)

	assert actor.end() == (0, "")
	text = (tmp_path / f"log-{actor.pid}").read_text()
	assert "request" in text and len(text.splitlines()) >= 2


def test_only_and_exclude_choose_programs(puppet, env, mt_dir, run, compile_c):
	program = compile_c("puppet.c").name
	for settings, threads in (({"ONLY": "python*,perl"}, 1), ({"EXCLUDE": "pup*,x"}, 1), ({"ONLY": "pup*"}, 2),
	                          ({"EXCLUDE": "perl"}, 2), ({"ONLY": "pup*", "EXCLUDE": program}, 1)):
		actor = puppet(env(MIN_MB=0, **settings))
		actor.tell("alloc 20000 2000 2000")
		end = time.monotonic() + (3 if threads == 2 else 1)
		while time.monotonic() < end and actor.number("status Threads:") != threads:
			time.sleep(0.05)
		assert actor.number("status Threads:") == threads, settings
		assert actor.end()[0] == 0


def test_settings_change_live(puppet, env, awake, control, wait_for, stats, backend):
	settings = env(**QUIET)
	actor = puppet(settings)
	awake(actor.pid, settings)
	fragment(actor)
	time.sleep(1)
	assert rss_kb(actor.pid) > 50_000 or stats(actor.pid, settings)["purge_count"] == 0

	for setting in ("slack_pct=0", "settle_ms=300", "slack_mb=1"):
		assert control(settings, "set", actor.pid, setting).returncode == 0
	wait_for(lambda: rss_kb(actor.pid) < 20_000, 15)
	assert control(settings, "set", actor.pid, "settle_ms=1").returncode != 0
	assert control(settings, "set", actor.pid, "allocator=system").returncode != 0
	assert control(settings, "set", actor.pid, "no_such=1").returncode != 0


def test_two_cleanups_at_once_do_not_both_count_what_goes_back(run, env, compile_c):
	"""Each measured the same fall of resident memory: purged_bytes and the results of mt_trim were up to twice the truth."""
	done = run([compile_c("trims_at_once.c")], env(ALLOCATOR="jemalloc", BUDGET_PCT=0))
	fell, returned, purged = map(int, done.stdout.split())

	assert (done.returncode, done.stderr) == (0, "") and fell > 200
	assert fell * 0.9 < returned < fell * 1.1 and fell * 0.9 < purged < fell * 1.1, done.stdout


def test_a_sandbox_that_answers_system_calls_by_a_signal_does_so_on_the_librarys_thread_too(run, env, compile_c):
	"""It was killed by SIGSYS: blocked, such a signal ends the process (Chromium's filters trap)."""
	done = run([compile_c("trapped_calls.c")], env())

	assert (done.returncode, done.stdout) == (0, "well\n")


BLOCKS = r"""
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGSYS})
if sys.argv[1] == "thread":
    signal.raise_signal(signal.SIGSYS)
held = [bytes(1000) for _ in range(40_000)]
if sys.argv[1] == "process":
    os.kill(os.getpid(), signal.SIGSYS)
print(signal.sigtimedwait({signal.SIGSYS}, 5).si_signo == signal.SIGSYS)
"""


@pytest.mark.parametrize("to", ["thread", "process"])
def test_a_sigsys_that_the_program_blocks_and_waits_for_reaches_it(run, env, to):
	"""The start of the library's thread had it open, and the thread afterwards: the program died."""
	done = run([PYTHON, "-c", BLOCKS, to], env(MT_MIN_MB="16"))

	assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_a_program_may_change_its_ids_after_one_of_its_threads_has_grown(run, env):
	"""The library's thread, started in that one, had libc's own signal for it blocked, and setresuid waited for ever."""
	done = run([PYTHON, "-c", "import os, threading; held = []; one = threading.Thread(target=lambda: held.extend(bytes(1000) for _ in range(60_000))); "
	            "one.start(); one.join(); os.setresuid(*os.getresuid()); print('well')"], env(MT_MIN_MB="16"), timeout=20)

	assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr
