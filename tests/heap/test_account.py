"""Live bytes are exact: to the byte, across threads, their ends, and frees by others."""
import re

import pytest

DIFFERENCE = re.compile(r"^live (-?\d+) own (-?\d+) difference (-?\d+)$")


@pytest.mark.parametrize("settings", [{}, {"MIN_MB": 0, "TICK_MS": 10, "SLACK_MB": 0, "IDLE_MS": 10, "BUDGET_PCT": 100}],
                         ids=["asleep", "busy-worker"])
def test_two_hundred_threads_end_at_the_exact_byte(run, env, compile_c, backend, settings):
	got = run([compile_c("account_exact.c")], env(**settings), timeout=120)

	seen = DIFFERENCE.match(got.stdout.strip())
	assert seen, f"exit {got.returncode}: {got.stdout}{got.stderr}"
	assert abs(int(seen[2])) > 20 << 20, "the program itself holds something"
	assert int(seen[3]) == 0
	assert got.returncode == 0


@pytest.mark.long
def test_twenty_generations_of_threads_end_at_the_exact_byte(run, env, compile_c, backend):
	got = run([compile_c("account_exact.c"), 20], env(MIN_MB=0), timeout=900)

	assert got.returncode == 0, got.stdout + got.stderr


def test_live_bytes_follow_one_thread(puppet, env, backend):
	actor = puppet(env())
	start = actor.number("live")
	assert actor.number("alloc 1000 1000 1000") == 1000
	full = actor.number("live")
	actor.tell("keep 4")
	quarter = actor.number("live")
	actor.tell("keep 0")

	assert 1000 * 1000 <= full - start < 1000 * 1300
	assert quarter - start == (full - start) // 4
	assert actor.number("live") == start


def test_live_bytes_of_a_child_are_its_own(puppet, env, backend):
	actor = puppet(env())
	actor.tell("alloc 1000 1000 1000")
	parent = actor.number("live")

	child = int(actor.tell("fork live"))
	assert actor.process.stdout.readline() == "0\n"

	assert abs(child - parent) < 4096, "a child holds what its parent held"
	assert int(actor.tell("fork keep 0")) == 0
	assert actor.process.stdout.readline() == "0\n"
	assert actor.number("live") == parent, "what a child frees is not the parent's"


def test_counters_agree_with_the_stats_file(puppet, env, awake, stats, backend):
	settings = env(MIN_MB=0)
	actor = puppet(settings)
	actor.tell("alloc 10000 2000 2000")
	awake(actor.pid, settings)
	own = actor.number("live")

	seen = stats(actor.pid, settings)

	assert seen["heap_allocated_bytes"] - seen["heap_freed_bytes"] == seen["heap_live_bytes"]
	assert abs(seen["heap_live_bytes"] - own) < 65536
	assert seen["heap_live_peak_bytes"] >= 20_000_000 * 0.9


def test_reset_peak(puppet, env, awake, stats, control, wait_for, backend):
	settings = env(MIN_MB=0)
	actor = puppet(settings)
	actor.tell("alloc 10000 5000 5000")
	awake(actor.pid, settings)
	wait_for(lambda: stats(actor.pid, settings)["heap_live_peak_bytes"] > 50_000_000)
	actor.tell("keep 0")

	assert control(settings, "reset-peak", actor.pid).returncode == 0

	wait_for(lambda: stats(actor.pid, settings)["heap_live_peak_bytes"] < 10_000_000)
