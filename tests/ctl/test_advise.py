"""mtctl advise on real processes: what it says has its reason in what they did, and is silent once it is followed."""
import json
import re

import pytest

from mtctl_helpers import NO_PROCESS, NOTHING, NOT_SHIMMED, PYTHON, USAGE
from mtctl_helpers import ctl, fake, plain  # noqa: F401 (fixtures)

GARBAGE = """
import gc, select, sys
gc.set_threshold(10 ** 9)
class Node: pass
def round():
	for _ in range(200):
		node = Node()
		node.self, node.data = node, bytearray(100000)
round()
print("ready", flush=True)
while True: # in Python every now and then, as a trainer is: else no collection could run
	if select.select([0], [], [], 0.02)[0]:
		if not sys.stdin.readline():
			break
		round()
		print("done", flush=True)
"""


def advice(ctl, pid):
	got = ctl("advise", pid, "--json")
	assert got.returncode == 0, got.stderr
	return {one["topic"]: one for one in json.loads(got.stdout)["advice"]}


def test_a_server_whose_threads_have_spread_over_arenas(spawn, env, compile_c, awake, ctl):
	settings = env(MIN_MB=0, BUDGET_PCT=0, MT_ALLOCATOR="jemalloc")
	server = spawn([compile_c("advise_server.c")], settings)
	assert server.stdout.readline() == "ready\n"
	awake(server.pid, settings)

	told = advice(ctl, server.pid)["arenas"]

	assert re.match(r"(8|9|10) threads have spread over \d+ arenas, .* at the peak of \d+\.\d MB in RSS \d+\.\d MB were live",
	                told["reason"])
	assert re.fullmatch(r"MT_MALLOC_CONF=narenas(:1|_ratio:0\.5)", told["environment"]) and told["command"] is None


def test_the_same_server_with_one_arena_has_nothing_to_change(spawn, env, compile_c, awake, ctl):
	settings = env(MIN_MB=0, BUDGET_PCT=0, MT_ALLOCATOR="jemalloc", MT_MALLOC_CONF="narenas:1")
	server = spawn([compile_c("advise_server.c")], settings)
	assert server.stdout.readline() == "ready\n"
	awake(server.pid, settings)

	assert "arenas" not in advice(ctl, server.pid)
	assert "\nnothing to change\n" in ctl("advise", server.pid).stdout


def test_a_python_whose_rounds_leave_garbage(spawn, env, awake, ctl):
	settings = env(MIN_MB=0, MT_ALLOCATOR="jemalloc")
	trainer = spawn([PYTHON, "-c", GARBAGE], settings)
	assert trainer.stdout.readline() == "ready\n"
	awake(trainer.pid, settings)
	before = advice(ctl, trainer.pid)
	for _ in range(2):
		trainer.stdin.write("round\n")
		assert trainer.stdout.readline() == "done\n"
		ctl("round", trainer.pid)
		ctl("trim", trainer.pid, "--light")

	told = advice(ctl, trainer.pid)["rounds"]

	assert "rounds" not in before
	assert re.match(r"2 collections that were asked for freed [\d,]+ objects in cycles and \d+\.\d MB; 2 rounds were marked",
	                told["reason"])
	assert told["environment"] == "MT_GC_ROUNDS=1"
	program, *words = told["command"].split()
	assert program == "mtctl" and ctl(*words).stdout == "gc_rounds: 0 -> 1\n"
	assert "rounds" not in advice(ctl, trainer.pid)


def test_the_text_says_what_to_paste_now_and_at_a_start(fake, ctl):
	pid = fake(values={"heap_idle_bytes": 200 << 20, "budget_balance_ns": 0, "uptime_ms": 60000, "rss_bytes": 300 << 20},
	           held_mb=400, settings={"slack_mb": ["64", "default"], "slack_pct": ["10", "default"], "budget_pct": ["3", "default"]})

	got = ctl("advise", pid).stdout

	assert "budget: 200.0 MB are reusable, and the budget of 3 % is spent\n" in got
	assert f"  now          mtctl set {pid} budget_pct=5\n  at a start   MT_BUDGET_PCT=5\n" in got


def test_a_finding_that_no_setting_mends_is_in_doctor_as_in_stat_and_counted_by_advise(fake, ctl):
	pid = fake(values={"uptime_ms": 600000, "purge_count": 300, "purged_bytes": 30000 << 20, "refault_count": 30000 * 256,
	                   "purge_cost_ns": 6 * 10**9, "refault_cost_ns": 6 * 10**9, "budget_balance_ns": 10**9},
	           settings={"idle_ms": ["500", "default"], "budget_pct": ["3", "default"]})

	stat, doctor, advise = (ctl(word, pid).stdout for word in ("stat", "doctor", "advise"))

	assert "within MT_BUDGET_PCT=3" in stat, stat
	assert "within MT_BUDGET_PCT=3" in doctor, doctor
	assert f"nothing to change\n\n1 finding more: mtctl doctor {pid}\n" in advise, advise


def test_hostile_text_is_neither_shown_nor_pasted(fake, ctl, plain):
	oom = {"number": 1, "asked_bytes": 1 << 28, "framework_idle_bytes": 1 << 31}
	hostile = dict(plain, PYTORCH_CUDA_ALLOC_CONF="a:1\x1b[31m;$(id)\n\u00e9")
	pid = fake(environment=hostile, cuda="account", ooms=[oom], values={"gpu_alloc_count": 1, "gpu_devices_count": 1})

	for words in (["advise", pid], ["advise", pid, "--json"]):
		got = ctl(*words)
		assert got.returncode == 0 and "$(id)" not in got.stdout
		assert not re.search("[^\x20-\x7e\n]", got.stdout + got.stderr)
	harmless = fake(cuda="account", ooms=[oom], values={"gpu_alloc_count": 1, "gpu_devices_count": 1})
	assert "split" in advice(ctl, harmless)


@pytest.mark.parametrize("words, code", [([], USAGE), (["1", "2"], USAGE), (["abc"], NO_PROCESS), (["--no-such"], USAGE)])
def test_wrong_uses(ctl, words, code):
	assert ctl("advise", *words).returncode == code


def test_a_process_that_sleeps_or_has_no_shim(fake, ctl, spawn, bare):
	assert ctl("advise", fake(awake=False)).returncode == NOTHING
	assert ctl("advise", spawn(["/bin/sleep", "60"], bare).pid).returncode == NOT_SHIMMED
