"""mtctl ps with many processes: it believes a stats file without reading maps only where what the process runs now has
written it, and it stays quick."""
import json
import os
import resource
import subprocess
import time

import pytest

from mtctl_helpers import DONE, NOTHING, files_of
from mtctl_helpers import ctl, fake, plain  # noqa: F401 (fixtures)


def listed(ctl, **environment):
	return {one["pid"]: one for one in json.loads(ctl("ps", "--json", **environment).stdout)["processes"]}


def is_awake(mt_dir, pid):
	return any(file.name.startswith(f"{pid}-") and file.stat().st_size for file in mt_dir.glob("*.stats"))


@pytest.fixture
def sleeper(spawn, env, mt_dir, wait_for):
	"""A real shimmed process that is awake."""
	def start(*words, **settings):
		process = spawn(list(words) or ["/bin/sleep", "60"], env(MIN_MB=0, **settings))
		wait_for(lambda: is_awake(mt_dir, process.pid), what="stats file")
		return process
	return start


def test_a_real_process_is_awake_with_its_command_line(sleeper, ctl):
	process = sleeper()

	mine = listed(ctl)[process.pid]

	assert (mine["state"], mine["command"], mine["comm"]) == ("awake", "/bin/sleep 60", "sleep")
	assert mine["heap_live_bytes"] > 0 and mine["ppid"] == os.getpid()


def test_a_process_that_has_execed_a_program_without_the_shim_is_no_longer_listed(sleeper, ctl, mt_dir, wait_for):
	"""Same pid, same start, and the file of the program before is still there."""
	process = sleeper("/bin/sh", "-c", "read line; exec /usr/bin/env -u LD_PRELOAD /bin/sleep 60")
	before = listed(ctl)[process.pid]["state"]

	process.stdin.write("go\n")
	wait_for(lambda: open(f"/proc/{process.pid}/comm").read() == "sleep\n")

	assert before == "awake" and is_awake(mt_dir, process.pid)
	assert process.pid not in listed(ctl)


def test_where_the_stack_lies_at_no_random_place_the_process_is_asked(sleeper, ctl, mt_dir, wait_for):
	"""There an exec may put it at the same place again."""
	process = sleeper("/usr/bin/setarch", "-R", "/bin/sh", "-c", "read line")
	head = files_of(process.pid, mt_dir, "stats").read_bytes()
	field = open(f"/proc/{process.pid}/stat").read().rpartition(")")[2].split()[25]

	assert int(field).to_bytes(8, "little") not in head[:16384]
	wait_for(lambda: listed(ctl)[process.pid]["state"] == "awake")  # on a busy machine it may not answer at once


def test_a_file_of_another_program_of_the_same_process_says_nothing_of_this_one(fake, ctl):
	pid = fake(stack_start=4096)

	assert listed(ctl)[pid]["state"] == "asleep"


def test_a_process_that_has_execed_what_does_not_wake_up_is_asleep_and_nobody_waits_for_it(sleeper, ctl, mt_dir, wait_for):
	"""It was shown as awake, with the figures of the program before, and trim waited for half a minute."""
	process = sleeper("/bin/sh", "-c", "read line; export MT_EXCLUDE=sleep; exec /bin/sleep 60")
	assert listed(ctl)[process.pid]["state"] == "awake"

	process.stdin.write("go\n")
	wait_for(lambda: open(f"/proc/{process.pid}/comm").read() == "sleep\n")

	assert is_awake(mt_dir, process.pid), "the files are still there"
	wait_for(lambda: listed(ctl)[process.pid]["state"] == "asleep")
	begin = time.monotonic()
	got = ctl("trim", process.pid)
	assert got.returncode == DONE and "asleep" in got.stdout and time.monotonic() - begin < 5
	got = ctl("stat", process.pid)
	assert got.returncode == NOTHING and "before its exec" in got.stderr


def test_the_file_of_another_under_its_name_makes_no_process_shimmed(spawn, bare, ctl, mt_dir, fake):
	pid = fake()
	data, name = files_of(pid, mt_dir, "stats").read_bytes(), files_of(pid, mt_dir, "stats").name
	other = spawn(["/bin/sleep", "60"], bare)
	start = open(f"/proc/{other.pid}/stat").read().rpartition(")")[2].split()[19]

	forged = mt_dir / f"{other.pid}-{start}-{name.split('-')[2]}"
	forged.write_bytes(data)
	forged.chmod(0o600)

	assert other.pid not in listed(ctl)


def test_where_the_files_lie_elsewhere_the_process_is_asked(sleeper, ctl):
	process = sleeper()

	assert listed(ctl, MT_DIR="")[process.pid]["state"] == "awake"


def test_a_file_in_a_directory_that_others_may_write_is_refused(sleeper, ctl, mt_dir):
	process = sleeper()
	mt_dir.chmod(0o777)

	assert listed(ctl)[process.pid]["state"] == "refused"


def test_a_name_may_hold_parentheses_and_newlines(spawn, env, mt_dir, wait_for, ctl, tmp_path):
	program = tmp_path / "a) R 1\n(b"
	program.symlink_to("/bin/sleep")
	process = spawn([program, "60"], env(MIN_MB=0))
	wait_for(lambda: is_awake(mt_dir, process.pid))

	mine = listed(ctl)[process.pid]

	assert (mine["comm"], mine["ppid"], mine["state"]) == ("a) R 1?(b", os.getpid(), "awake")


def test_files_of_another_version_do_not_hold_up_the_list(fake, ctl):
	"""Each used to be read again for 50 ms, in the hope that it was only half written."""
	def look():
		"""The list, and the shortest of five times: one undisturbed, on a busy machine."""
		took = []
		for _ in range(5):
			begin = time.monotonic()
			found = listed(ctl)
			took.append(time.monotonic() - begin)
		return found, min(took)
	_, without_s = look()
	pids = [fake(version=77) for _ in range(10)]

	found, with_s = look()

	assert {found[pid]["state"] for pid in pids} == {"refused"}
	assert with_s - without_s < 0.45


@pytest.mark.alone
def test_a_hundred_processes_take_little_time(spawn, env, mtctl, plain, mt_dir, wait_for, tmp_path):
	"""A bound for a busy machine (`make bench-ps` has the figure for 1,000); and less than where each of them has to be asked."""
	herd = spawn(["/bin/sh", "-c", "for i in $(seq 100); do sleep 60 & done; wait"], env(MIN_MB=0))
	wait_for(lambda: len(list(mt_dir.glob("*.stats"))) >= 100, timeout=30)

	def cpu_of_one(folder):
		before = resource.getrusage(resource.RUSAGE_CHILDREN)
		subprocess.run([mtctl, "ps"], env=dict(plain, MT_DIR=str(folder)), stdout=subprocess.DEVNULL, check=True)
		after = resource.getrusage(resource.RUSAGE_CHILDREN)
		return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

	near, asked = zip(*[(cpu_of_one(mt_dir), cpu_of_one(tmp_path)) for _ in range(8)])
	assert herd.poll() is None and min(near) < 0.1 and min(near) < min(asked)
