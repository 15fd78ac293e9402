"""Rounds: the cadence is exact, a heavy cleanup stands for the light one of the same round, and what ends a round is
the user's choice."""
import os
import signal
import time

import pytest

from places import PYTHON

# Nothing but rounds may clean up.
ROUNDS_ONLY = {"MIN_MB": 0, "SLACK_MB": 100000, "SLACK_PCT": 100, "SETTLE_MS": 3600000, "BUDGET_PCT": 0}


@pytest.fixture
def rounds(puppet, env, awake, stats, wait_for):
	"""Ends a number of rounds by mt_round(), with more than the second between them that merges cleanups."""
	def play(count, pause=1.1, **settings):
		full = env(**ROUNDS_ONLY, **settings)
		actor = puppet(full)
		awake(actor.pid, full)
		for number in range(1, count + 1):
			actor.tell("call mt_round")
			wait_for(lambda: stats(actor.pid, full)["rounds_count"] == number, 5)
			time.sleep(pause)
		return stats(actor.pid, full)
	return play


@pytest.mark.parametrize("every, count, expected", [(0, 4, 0), (1, 3, 3), (2, 4, 2), (3, 6, 2)])
def test_cadence_of_light_cleanups(rounds, every, count, expected):
	seen = rounds(count, GC_ROUNDS=every)

	assert (seen["light_count"], seen["heavy_count"], seen["rounds_count"]) == (expected, 0, count)
	numbers = [record["round"] for record in seen["records"] if record["reason"] == "round"]
	assert numbers == [every * n for n in range(1, expected + 1)]
	assert all(record["level"] == "light" for record in seen["records"] if record["reason"] == "round")


def test_heavy_subsumes_light(rounds):
	seen = rounds(6, GC_ROUNDS=2, HEAVY_ROUNDS=3)

	levels = [(record["round"], record["level"]) for record in seen["records"] if record["reason"] == "round"]
	assert levels == [(2, "light"), (3, "heavy"), (4, "light"), (6, "heavy")]
	assert (seen["light_count"], seen["heavy_count"]) == (2, 2)


def test_empty_cache_makes_them_heavy(rounds):
	seen = rounds(2, GC_ROUNDS=1, CUDA_EMPTY_CACHE=1)

	assert (seen["light_count"], seen["heavy_count"]) == (0, 2)


def test_rounds_that_were_cleaned_up_for_before_the_worker_began_are_not_handled_again(puppet, env, awake, stats):
	"""Its first tick ran all of them once more."""
	full = env(**{**ROUNDS_ONLY, "MIN_MB": 100}, GC_ROUNDS=1)
	actor = puppet(full)
	for _ in range(5):
		actor.tell("call mt_round")
	actor.tell("alloc 20000 8000 9000")
	awake(actor.pid, full)
	time.sleep(2)

	assert stats(actor.pid, full)["light_count"] == 5


def test_rounds_in_quick_succession_are_all_counted(puppet, env, awake, stats, wait_for):
	full = env(**ROUNDS_ONLY, GC_ROUNDS=2)
	actor = puppet(full)
	awake(actor.pid, full)
	for _ in range(7):
		actor.tell("call mt_round")
	seen = wait_for(lambda: (lambda now: now if now["rounds_count"] == 7 else None)(stats(actor.pid, full)), 5)
	time.sleep(2.5)

	seen = stats(actor.pid, full)
	asked = {record["round"] for record in seen["records"] if record["reason"] == "round"}
	assert seen["rounds_count"] == 7
	assert asked <= {2, 4, 6} and 6 in asked
	assert 1 <= seen["light_count"] <= 3


def test_mtctl_ends_a_round(puppet, env, awake, stats, control, wait_for):
	full = env(**ROUNDS_ONLY, GC_ROUNDS=2)
	actor = puppet(full)
	awake(actor.pid, full)
	for number in range(1, 5):
		assert control(full, "round", actor.pid).returncode == 0
		wait_for(lambda: stats(actor.pid, full)["rounds_count"] == number, 5)
		time.sleep(1.1)

	assert stats(actor.pid, full)["light_count"] == 2


def test_the_signal_ends_a_round(puppet, env, awake, stats, wait_for):
	full = env(**ROUNDS_ONLY, GC_ROUNDS=2, ROUND="signal")
	actor = puppet(full)
	awake(actor.pid, full)
	for number in range(1, 5):
		os.kill(actor.pid, signal.SIGUSR1)
		wait_for(lambda: stats(actor.pid, full)["rounds_count"] == number, 5)
		time.sleep(1.1)

	numbers = [record["round"] for record in stats(actor.pid, full)["records"] if record["level"] == "light"]
	assert numbers == [2, 4]


def test_the_timer_ends_rounds(puppet, env, awake, stats, wait_for):
	full = env(**ROUNDS_ONLY, GC_ROUNDS=2, ROUND="timer:1")
	actor = puppet(full)
	awake(actor.pid, full)
	start, begin = stats(actor.pid, full)["rounds_count"], time.monotonic()
	time.sleep(3.4)
	seen, passed = stats(actor.pid, full), time.monotonic() - begin

	assert abs(seen["rounds_count"] - start - passed) <= 1.5
	assert seen["light_count"] == seen["rounds_count"] // 2


def test_auto_sees_rounds_in_the_heap(puppet, env, awake, stats, wait_for):
	"""A drop of live bytes after a peak is the end of a round."""
	# A drop counts only where what it leaves is worth a purge.
	full = env(**{**ROUNDS_ONLY, "SLACK_MB": 16, "SLACK_PCT": 0}, GC_ROUNDS=1, ROUND="auto")
	actor = puppet(full)
	awake(actor.pid, full)
	for _ in range(4):
		actor.tell("alloc 20000 5000 5000")
		time.sleep(1)
		actor.tell("keep 0")
		time.sleep(1.5)

	seen = stats(actor.pid, full)
	assert seen["rounds_count"] == 4
	assert seen["light_count"] == 4


def end_rounds(actor, full, stats, wait_for, numbers):
	"""Ends rounds, each seen by itself (rounds that fall into one second are one); the step after each."""
	steps = []
	for number in numbers:
		actor.tell("call mt_round")
		wait_for(lambda: stats(actor.pid, full)["rounds_count"] == number, 5)
		time.sleep(1.15)
		steps.append(stats(actor.pid, full)["gc_rounds_step"])
	return steps


def round_records(stats, actor, full):
	return [(record["round"], record["level"]) for record in stats(actor.pid, full)["records"] if record["reason"] == "round"]


@pytest.mark.slow
def test_auto_cleans_up_more_rarely_while_nothing_grows_and_at_once_when_it_does(puppet, env, awake, stats, wait_for):
	full = env(**ROUNDS_ONLY, GC_ROUNDS="auto")
	actor = puppet(full)
	awake(actor.pid, full)
	wait_for(lambda: stats(actor.pid, full)["gc_rounds_step"] == 1)

	flat = end_rounds(actor, full, stats, wait_for, range(1, 11))
	actor.tell("alloc 20000 3000 3000")
	grown = end_rounds(actor, full, stats, wait_for, [11])

	assert flat == [1, 1, 1, 2, 2, 2, 2, 5, 5, 5]
	assert grown == [1]
	assert round_records(stats, actor, full) == [(number, "light") for number in (1, 2, 3, 4, 6, 10, 11)]


def test_auto_is_a_number_to_all_other_settings(puppet, env, awake, stats, control, wait_for):
	full = dict(env(**ROUNDS_ONLY, GC_ROUNDS="auto", HEAVY_ROUNDS=3), WORLD_SIZE="4")
	actor = puppet(full)
	awake(actor.pid, full)

	assert end_rounds(actor, full, stats, wait_for, range(1, 6)) == [1, 1, 1, 2, 2]
	assert round_records(stats, actor, full) == [(1, "light"), (2, "light"), (3, "heavy"), (4, "light")]
	assert control(full, "set", actor.pid, "gc_rounds=1").returncode == 0
	assert control(full, "set", actor.pid, "cuda_empty_cache=1").returncode == 0
	assert end_rounds(actor, full, stats, wait_for, [6, 7]) == [None, None]
	assert control(full, "set", actor.pid, "gc_rounds=auto").returncode == 0
	assert end_rounds(actor, full, stats, wait_for, [8]) == [1], "from the first rung again"
	assert round_records(stats, actor, full)[4:] == [(6, "heavy"), (7, "heavy"), (8, "heavy")]


def test_rounds_that_fall_together_are_one_to_the_ladder(puppet, env, awake, stats, wait_for):
	full = env(**ROUNDS_ONLY, GC_ROUNDS="auto")
	actor = puppet(full)
	awake(actor.pid, full)

	for _ in range(200):
		actor.tell("call mt_round")
	wait_for(lambda: stats(actor.pid, full)["rounds_count"] == 200, 5)
	time.sleep(1.5)

	assert stats(actor.pid, full)["gc_rounds_step"] == 1


def test_a_process_too_small_for_a_worker_cleans_up_after_each_round_of_auto(puppet, env):
	actor = puppet(env(MIN_MB=10000, GC_ROUNDS="auto", PROFILE=1))
	for _ in range(3):
		actor.tell("call mt_round")
	actor.process.stdin.close()
	said = actor.process.stderr.read()

	assert said.count("cleanup reason=round level=light") == 3, said


@pytest.mark.parametrize("preset, wanted", [
	("client", {"arena_max": "2", "gc_rounds": "1", "cuda_empty_cache": "on"}),
	("csfl", {"gc_rounds": "5", "heavy_rounds": "10", "warn_pct": "85", "crit_pct": "90"}),
	("none", {})])
def test_a_preset_is_its_settings_and_told_as_such(puppet, env, awake, control, preset, wanted):
	full = env(MIN_MB=0, PRESET=preset)
	actor = puppet(full)

	seen = awake(actor.pid, full)["settings"]

	told = {one["name"]: one["value"] for one in seen if one["origin"] == f"preset {preset}"}
	assert told == wanted
	assert not [one for one in seen if one["origin"].startswith("preset") and one["name"] not in wanted]


@pytest.mark.parametrize("allocator", ["jemalloc", "system"])
def test_a_presets_arenas_are_honoured_by_either_allocator(run, env, allocator):
	"""Sixteen threads that allocate at the same time, in 2 arenas."""
	script = ("import ctypes, threading\n"
	          "libc = ctypes.CDLL(None)\n"
	          "libc.malloc.restype = ctypes.c_void_p\n"
	          "libc.malloc.argtypes = [ctypes.c_size_t]\n"
	          "blocks, barrier = [], threading.Barrier(16)\n"
	          "def work():\n"
	          "    barrier.wait()\n"
	          "    blocks.extend(libc.malloc(5000) for _ in range(200))\n"
	          "    barrier.wait()\n"
	          "threads = [threading.Thread(target=work) for _ in range(16)]\n"
	          "[thread.start() for thread in threads]; [thread.join() for thread in threads]\n"
	          "count = ctypes.c_uint()\n"
	          "if " + repr(allocator) + " == 'jemalloc':\n"
	          "    libc.mallctl(b'opt.narenas', ctypes.byref(count), ctypes.byref(ctypes.c_size_t(4)), None, ctypes.c_size_t(0))\n"
	          "    print(count.value)\n"
	          "else:\n"
	          "    heap = next(line.split()[0].split('-') for line in open('/proc/self/maps') if '[heap]' in line)\n"
	          "    first, end = int(heap[0], 16), int(heap[1], 16)\n"
	          "    print(len({0 if first <= block < end else block >> 26 for block in blocks}))\n")

	got = run(["/usr/bin/python3", "-c", script], env(ALLOCATOR=allocator, PRESET="client"))
	many = run(["/usr/bin/python3", "-c", script], env(ALLOCATOR=allocator, ARENA_MAX=16))

	assert (got.stdout, int(many.stdout) > 2) == ("2\n", True), (got, many)


def test_exit_cleanup_runs_once_at_the_end(run, env, compile_c):
	script = ("class Node:\n"
	          "    def __init__(self): self.me = self\n"
	          "import gc; gc.set_threshold(100000)\n"
	          "held = [bytes(1000) for _ in range(50000)]\n"
	          "del held\n"
	          "import time; time.sleep(0.5)\n")

	got = run(["/usr/bin/python3", "-c", script], env(**ROUNDS_ONLY, EXIT_CLEANUP=1, PROFILE=1))
	without = run(["/usr/bin/python3", "-c", script], env(**ROUNDS_ONLY, PROFILE=1))

	assert (got.returncode, without.returncode) == (0, 0)
	assert sum("exit" in line for line in got.stderr.splitlines()) == 1, got.stderr
	assert "exit" not in without.stderr


def test_names_of_other_tools_are_understood(puppet, env, awake, control):
	full = dict(env(**ROUNDS_ONLY), NVFLARE_CLIENT_MEMORY_GC_ROUNDS="3", NVFLARE_CUDA_EMPTY_CACHE="1")
	actor = puppet(full)
	seen = awake(actor.pid, full)

	settings = {setting["name"]: setting for setting in seen["settings"]}
	assert settings["gc_rounds"]["value"] == "3"
	assert settings["gc_rounds"]["origin"] == "NVFLARE_CLIENT_MEMORY_GC_ROUNDS"
	assert settings["cuda_empty_cache"]["value"] in ("1", "on", "true")


def test_our_own_name_wins_over_the_others(puppet, env, awake):
	full = dict(env(**ROUNDS_ONLY, GC_ROUNDS=5), NVFLARE_CLIENT_MEMORY_GC_ROUNDS="3")
	actor = puppet(full)

	settings = {setting["name"]: setting for setting in awake(actor.pid, full)["settings"]}

	assert (settings["gc_rounds"]["value"], settings["gc_rounds"]["origin"]) == ("5", "environment")


@pytest.mark.parametrize("preset, ends_one, expected", [("client", False, 1), ("client", True, 0), ("none", False, 0)])
def test_a_preset_says_at_the_end_where_no_round_has_ended(run, env, preset, ends_one, expected):
	text = f"import ctypes; kept = bytearray(64 << 20); {ends_one} and ctypes.CDLL(None).mt_round()"

	done = run([PYTHON, "-c", text], env(MIN_MB=0, PRESET=preset, LOG_LEVEL="info"))

	assert done.returncode == 0
	assert done.stderr.count(f"info: MT_PRESET={preset} cleans up by rounds, and no round has ended: ") == expected
