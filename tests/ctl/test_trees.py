"""Whole process trees: what they hold together, what forked workers share and what they have copied, shared memory, and
families that change while one looks."""
import importlib.util
import json
import os
import re
import signal
import subprocess
import time

import pytest

PYTHON = "/usr/bin/python3"
MB = 1 << 20

# Runs what it is told, a line at a time; each line is answered by what it has left in `answer`.
ACTOR = r'''
import gc, mmap, os, signal, subprocess, sys, time
gc.disable()
answer, kept = "done", []
def fork(work):
    """A worker that does it and then sleeps; its pid is answered."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        work()
        os.write(writer, b"x")
        while True:
            signal.pause()
    os.read(reader, 1)
    return pid
def write(place, count):
    """Writes to every page."""
    for at in range(0, count, mmap.PAGESIZE):
        place[at] = 1
print("ready", flush=True)
for line in sys.stdin:
    exec(line)
    print(answer, flush=True)
'''


class Actor:
	def __init__(self, process):
		self.process = process
		self.pid = process.pid
		assert process.stdout.readline() == "ready\n", process.stderr.read()

	def tell(self, line):
		self.process.stdin.write(line + "\n")
		self.process.stdin.flush()
		return self.process.stdout.readline().strip()

	def fork(self, work):
		return int(self.tell(f"answer = fork(lambda: ({work}))"))


@pytest.fixture
def actor(spawn):
	def start(environment, *lines):
		one = Actor(spawn([PYTHON, "-c", ACTOR], environment))
		for line in lines:
			one.tell(line)
		return one
	return start


@pytest.fixture
def tree(control):
	"""tree(pid, env): mtctl's object for the tree, its processes by their pid."""
	def look(pid, environment):
		done = control(environment, "ps", "--tree", pid, "--json")
		assert done.returncode == 0, done.stderr
		seen = json.loads(done.stdout)
		seen["processes"] = {one["pid"]: one for one in seen["processes"]}
		return seen
	return look


def near(bytes_, expected_mb, slack_mb=8):
	return abs(bytes_ - expected_mb * MB) < slack_mb * MB


@pytest.mark.parametrize("carries", ["shim", "plain"])
def test_a_worker_that_writes_to_half_of_what_it_shares_has_copied_half(actor, tree, env, bare, carries):
	environment = env() if carries == "shim" else dict(bare, MT_DIR=env()["MT_DIR"])
	one = actor(environment, "kept = bytearray(160 << 20); write(kept, len(kept))")
	idle, busy = one.fork("None"), one.fork("write(kept, 80 << 20)")

	seen = tree(one.pid, environment)
	members = seen["processes"]

	assert members[busy]["forked"] and members[idle]["forked"] and not members[one.pid]["forked"]
	assert near(members[busy]["cow_copied_bytes"], 80) and near(members[busy]["cow_shared_bytes"], 80, 20)
	assert near(members[idle]["cow_copied_bytes"], 0) and near(members[idle]["cow_shared_bytes"], 160, 20)
	assert members[one.pid]["cow_copied_bytes"] is None
	assert near(seen["total"]["pss_bytes"], 240, 40), "160 once, and 80 of them twice"
	assert seen["total"]["rss_bytes"] > 480 * MB
	assert seen["total"]["forks_count"] == 2


def test_what_a_worker_allocates_by_itself_is_no_copy(actor, tree, env):
	environment = env()
	one = actor(environment, "kept = bytearray(100 << 20); write(kept, len(kept))")
	worker = one.fork("kept.__iadd__(b'') and [globals().update(own=bytearray(100 << 20)), write(own, len(own))]")

	seen = tree(one.pid, environment)["processes"][worker]

	assert near(seen["cow_copied_bytes"], 0) and near(seen["cow_shared_bytes"], 100, 20)
	assert seen["private_bytes"] > 100 * MB


def test_what_parent_and_worker_have_each_put_at_one_address_is_no_copy(actor, tree, env):
	environment = env()
	one = actor(environment, "kept = bytearray(40 << 20); write(kept, len(kept))")
	own = "own = bytearray(os.urandom(1 << 20) * 60)"
	worker = one.fork(f"exec({own!r}, globals())")
	one.tell(own)

	seen = tree(one.pid, environment)["processes"][worker]

	assert near(seen["cow_copied_bytes"], 0) and near(seen["cow_shared_bytes"], 40, 20)
	assert seen["private_bytes"] > 60 * MB


def test_the_sums_are_the_sums_of_the_members(actor, tree, env):
	environment = env()
	one = actor(environment, "kept = bytearray(40 << 20); write(kept, len(kept))")
	for _ in range(3):
		one.fork("write(kept, 10 << 20)")

	seen = tree(one.pid, environment)

	assert len(seen["processes"]) == seen["total"]["processes_count"] == 4 and seen["total"]["unknown_count"] == 0
	for name in ("rss_bytes", "pss_bytes", "private_bytes", "shm_bytes", "cow_shared_bytes", "cow_copied_bytes"):
		assert seen["total"][name] == sum(member[name] or 0 for member in seen["processes"].values()), name


def test_spawned_and_exec_children_are_in_the_tree_and_share_nothing(actor, tree, env, wait_for):
	environment = env()
	one = actor(environment, "kept = bytearray(60 << 20); write(kept, len(kept))")
	one.tell("chain = subprocess.Popen(['/bin/sh', '-c', 'exec /bin/sh -c \"cat; true\"'], stdin=subprocess.PIPE)")
	one.tell("import multiprocessing as mp; child = mp.get_context('spawn').Process(target=time.sleep, args=(60,))")
	one.tell("child.start()")

	def look():
		members = tree(one.pid, environment)["processes"].values()
		return members if {"python3", "sh", "cat"} <= {one["comm"] for one in members} and len(members) >= 5 else None
	members = list(wait_for(look, 15, "the tree"))

	cat = next(member for member in members if member["comm"] == "cat")
	assert cat["depth"] == 2 and next(member for member in members if member["pid"] == cat["parent"])["comm"] == "sh"
	assert not any(member["forked"] for member in members if member["pid"] != one.pid)
	one.tell("child.kill(), chain.kill()")


def test_shared_memory_counts_once(actor, tree, env, control):
	environment = env()
	one = actor(environment, "kept = mmap.mmap(-1, 64 << 20); write(kept, len(kept))")
	workers = [one.fork("write(kept, len(kept))") for _ in range(3)]

	seen = tree(one.pid, environment)

	assert near(seen["total"]["shm_bytes"], 64, 2)
	assert all(near(seen["processes"][pid]["shm_bytes"], 16, 1) for pid in workers)
	assert seen["total"]["rss_bytes"] > 4 * 64 * MB
	text = control(environment, "ps", "--tree", one.pid).stdout
	assert text.splitlines()[0].split() == ["PID", "STATE", "RSS", "PSS", "PRIVATE", "SHARED", "COPIED", "SHM", "COMMAND"]
	assert "RSS adds up to" in text and "3 forked" in text


def test_a_tree_is_trimmed_and_its_total_told(actor, env, control, tree, awake):
	environment = env(MIN_MB=0, MT_BUDGET_PCT=0)
	fill = "kept = [bytes(1000) for _ in range(100000)]"
	one = actor(environment)
	worker = one.fork(f"exec({fill!r}, globals()), time.sleep(0.3), kept.clear()")
	one.tell(f"{fill}; kept.clear()")
	for pid in (one.pid, worker):
		awake(pid, environment)
	before = tree(one.pid, environment)["total"]["pss_bytes"]

	got = control(environment, "trim", "--tree", one.pid, "--light")
	after = tree(one.pid, environment)["total"]["pss_bytes"]

	assert got.returncode == 0, got.stdout + got.stderr
	last = got.stdout.splitlines()[-1]
	told = re.fullmatch(r"the whole tree: PSS ([\d.]+) MB -> ([\d.]+) MB \((-[\d.]+) MB\), 2 processes", last)
	assert told, got.stdout
	assert abs(float(told[1]) - before / MB) < 10 and abs(float(told[2]) - after / MB) < 10
	assert float(told[3]) < -100, "both have given back theirs"


def test_trim_answers_in_json(actor, env, control, awake):
	environment = env(MIN_MB=0)
	one = actor(environment)
	awake(one.pid, environment)

	seen = json.loads(control(environment, "trim", "--tree", one.pid, "--json", "--light").stdout)

	assert [(answer["pid"], answer["record"]["level"]) for answer in seen["processes"]] == [(one.pid, "light")]
	assert seen["before"]["processes_count"] == seen["after"]["processes_count"] == 1
	assert seen["before"]["pss_bytes"] > MB and seen["before"]["cow_copied_bytes"] is None
	alone = json.loads(control(environment, "trim", one.pid, "--json").stdout)
	assert list(alone) == ["processes"] and alone["processes"][0]["record"]["reason"] == "request"


def test_without_a_pid_all_shimmed_processes_and_their_children_are_shown(actor, env, bare, control):
	environment = env()
	one = actor(environment, "plain = subprocess.Popen(['/bin/cat'], stdin=subprocess.PIPE, env={}); answer = plain.pid")
	plain = int(one.tell("answer = plain.pid"))

	seen = {member["pid"]: member for member in json.loads(control(environment, "ps", "--tree", "--json").stdout)["processes"]}

	assert seen[plain]["state"] == "plain" and seen[plain]["parent"] == one.pid and seen[plain]["heap_live_bytes"] is None
	assert seen[one.pid]["parent"] is None and os.getpid() not in seen


LOADER = r'''
import sys, torch
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __init__(self):
        self.rows = torch.ones(60 << 18)
    def __len__(self):
        return 1 << 20
    def __getitem__(self, place):
        return self.rows[place * 16:place * 16 + 16] + 1
if __name__ == "__main__":
    batches = iter(DataLoader(Rows(), batch_size=256, num_workers=4, multiprocessing_context=sys.argv[1]))
    for _ in range(20):
        batch = next(batches)
    print("ready", flush=True)
    sys.stdin.read()
'''


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch")
def test_the_workers_of_a_data_loader_are_named_with_what_they_share(spawn, tree, env, tmp_path):
	(tmp_path / "loader.py").write_text(LOADER)
	environment = env()
	loader = spawn([PYTHON, tmp_path / "loader.py", "fork"], environment)
	assert loader.stdout.readline() == "ready\n", loader.stderr.read()

	seen = tree(loader.pid, environment)
	workers = [member for member in seen["processes"].values() if member["forked"]]

	assert len(workers) == 4
	assert all(worker["cow_shared_bytes"] > 60 * MB for worker in workers)
	assert seen["total"]["pss_bytes"] < seen["total"]["rss_bytes"] / 2
	assert seen["total"]["rss_bytes"] > 5 * 60 * MB


def test_of_another_users_processes_only_the_size_is_known(actor, env, bare, mtctl, public):
	if os.geteuid() != 0:
		pytest.skip("only root can be another user for the test")
	one = actor(env(), "kept = bytearray(40 << 20)")

	def ask(*words):
		return subprocess.run([public(mtctl), "ps", f"--tree={one.pid}", *words], env=bare, user=65534, group=65534,
		                      extra_groups=[], capture_output=True, text=True, cwd="/", timeout=30)
	seen = json.loads(ask("--json").stdout)
	text = ask().stdout

	assert seen["processes"][0]["pss_bytes"] is None and seen["processes"][0]["rss_bytes"] > 30 * MB
	assert seen["total"]["unknown_count"] == 1 and seen["total"]["pss_bytes"] == 0
	assert re.search(rf"{one.pid} +plain +[\d.]+ MB +- +- ", text) and "could not be read" in text


def test_families_may_change_while_one_looks(actor, env, control):
	environment = env()
	one = actor(environment)
	one.tell("stop = time.monotonic() + 4")
	one.process.stdin.write("while time.monotonic() < stop: subprocess.run(['/bin/sh', '-c', '/bin/true & /bin/true'])\n\n")
	one.process.stdin.flush()

	for _ in range(40):
		done = control(environment, "ps", "--tree", one.pid, "--json")
		assert done.returncode == 0, done.stderr
		seen = json.loads(done.stdout)
		assert seen["processes"][0]["pid"] == one.pid
		assert seen["total"]["processes_count"] == len(seen["processes"])


def test_a_process_that_is_gone_or_none_is_told(control, env, spawn, bare):
	process = spawn(["/bin/true"], bare)
	process.wait(timeout=10)

	assert control(env(), "ps", "--tree", process.pid).returncode == 3
	assert control(env(), "ps", "--tree", "0").returncode == 2
	assert control(env(), "ps", "--tree", "1", "2").returncode == 2
	assert control(env(), "ps", "1").returncode == 2


def test_a_stopped_process_can_be_looked_at(actor, env, tree):
	environment = env()
	one = actor(environment)
	os.kill(one.pid, signal.SIGSTOP)
	begin = time.monotonic()

	assert tree(one.pid, environment)["total"]["pss_bytes"] > MB
	assert time.monotonic() - begin < 5
