"""Many processes of one user, or one with many mappings, made to cost root's mtctl as much as can be: what they cost together is bounded,
and no wait for one of them is a wait of somebody else's. The processes are those of hostile_crowd.c."""
import contextlib
import functools
import os
import re
import shutil
import signal
import subprocess
import threading
import time
import urllib.request

import pytest

from mtctl_helpers import PYTHON
from people import fake_of, home_of, needs_root, person, stage  # noqa: F401 (fixtures)

# Runs a command, and prints the peak of its RSS in kB. A peak begins with the RSS of the process that called exec, which is a small one here.
PEAK_OF = ("import resource, subprocess, sys\nsubprocess.run(sys.argv[1:])\n"
           "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)")

pytestmark = [needs_root, pytest.mark.slow, pytest.mark.xdist_group("crowd")]  # one at a time: they keep the processors busy
MB = 1 << 20


@functools.cache
def before_others():
	"""The words that run a command before all other tests' processes: what is measured is how long it waits, not how busy the machine is."""
	words = ["chrt", "--fifo", "1"]
	return words if subprocess.run([*words, "true"], capture_output=True).returncode == 0 else []


@pytest.fixture
def crowd(stage, compile_c):
	"""crowd(owner, count, trick, *arguments, **environment): their first process."""
	program = stage.place / "crowd"
	shutil.copyfile(compile_c("hostile_crowd.c"), program)
	program.chmod(0o755)

	def start(owner, count, trick, *arguments, **environment):
		process = stage.spawn(owner.words([program, stage.shim, count, trick, *arguments], **environment), stage.bare)
		if process.stdout.readline() != "ready\n":
			pytest.skip(f"not here: {process.stderr.read()[-200:]}")
		return process
	return start


@pytest.fixture
def serve(stage):
	def start():
		server = stage.spawn([*before_others(), stage.mtctl, "serve", "--listen=127.0.0.1:0", "--open", "--interval=0"], stage.bare)
		address = server.stdout.readline().split("#")[0].strip()

		def get(path):
			begun = time.monotonic()
			with urllib.request.urlopen(address + path, timeout=60) as answer:
				return answer.read().decode(), time.monotonic() - begun
		return server, get
	return start


def took(person, *words):
	"""What root's mtctl says, and how long that takes."""
	root, begun = person(uid=0), time.monotonic()
	got = root.run(*before_others(), root.stage.mtctl, *words)
	return got, time.monotonic() - begun


def took_within(bound_s, person, *words):
	"""The same, until it is quick enough: three attempts, since other tests run beside it."""
	for _ in range(3):
		got, seconds = took(person, *words)
		if seconds < bound_s:
			break
	return got, seconds


# ---- a memory that is locked ----

def test_a_process_that_locks_its_memory_keeps_roots_listings_waiting_for_a_second_alone(person, crowd):
	"""Its readers in /proc wait for as long as it likes: 3 s at a time here. What it says of itself is not known then; who it is, is."""
	pid = crowd(person(1), 10, "hold").pid

	listed, listed_s = took_within(5, person, "ps")
	exported, exported_s = took_within(5, person, "export")

	line = next(line for line in listed.stdout.splitlines() if line.split()[0] == str(pid))
	assert "unresponsive" in line.split()[1:3], "behind a rank, where a process of another test has one"
	assert line.endswith(" crowd")
	assert f"process {pid} (crowd): does not answer" in listed.stderr
	assert 'state="unresponsive"' in exported.stdout
	assert max(listed_s, exported_s) < 5  # 30 s, when each was waited for


def test_a_command_about_a_process_that_locks_its_memory_says_so_in_seconds(person, crowd):
	pid = crowd(person(1), 1, "hold").pid

	silent = 0
	for words in (["doctor", pid], ["stat", pid], ["trim", pid]):
		for _ in range(3):  # there are moments between, in which it answers
			got, seconds = took(person, *words)
			assert seconds < 6, words  # it is given 2 s
			assert got.returncode != 4 or "does not answer" in got.stderr, words
			silent += got.returncode == 4
			if got.returncode == 4:
				break
	assert silent


def test_a_server_answers_others_while_it_looks_at_processes_that_lock_their_memory(person, crowd, serve):
	"""And it ends at once: SIGTERM does not wait for the look."""
	crowd(person(1), 10, "hold")
	server, get = serve()

	def ask():
		with contextlib.suppress(OSError):
			get("metrics")
	waiting = threading.Thread(target=ask)
	waiting.start()
	time.sleep(0.2)

	_, health_s = get("healthz")
	server.send_signal(signal.SIGTERM)
	begun = time.monotonic()
	server.wait(20)

	assert (health_s < 0.5, time.monotonic() - begun < 1) == (True, True)
	waiting.join()


def test_who_did_not_answer_is_not_asked_again_for_a_minute(person, crowd, serve):
	crowd(person(1), 2, "hold")
	_, get = serve()

	_, first_s = get("metrics")
	last_s = first_s
	for _ in range(4):  # there are moments between, in which one of them answers and is asked again
		time.sleep(last_s * 4.5)  # for so long the answer is shared
		text, last_s = get("metrics")
		if last_s < first_s / 1.5:
			break

	assert re.search(r'mtshim_processes{state="unresponsive"} [1-9]', text)
	assert first_s < 3  # 6 s, when each was waited for
	assert last_s < first_s / 1.5  # as much again, when they were asked again: a wait is a second


# ---- what each costs alone ----

def test_stats_files_that_are_invalid_are_waited_for_together(person, crowd):
	"""One may be half written, and is read again. Each for itself took 50 ms."""
	pid = crowd(person(1), 60, "stats").pid

	got, seconds = took_within(2.9, person, "ps")

	assert f"process {pid} (crowd): refused: the stats file is cut short" in got.stderr and got.stdout.count("refused") >= 60
	assert seconds < 2.9  # 3 s, when each was waited for


def test_environments_as_long_as_can_be_cost_a_listing_of_many_a_second_at_most(person, crowd):
	"""8 MB of each are read, which are nothing but NULs: 60 ms each, when every one of these was taken for a variable."""
	pid = crowd(person(1), 60, "env").pid

	got, seconds = took_within(3, person, "ps")

	assert str(pid) in got.stdout
	assert seconds < 3  # alone it takes one, and took five


def test_many_mappings_with_long_paths_cost_doctor_no_more_memory_than_usual(person, crowd, stage):
	"""5,000 of 31 kB each are 155 MB of maps. The library is behind them, and is found."""
	folder = stage.place / "long"
	folder.mkdir()
	owner = person(1)
	os.chown(folder, owner.uid, owner.uid)
	pid = crowd(owner, 1, "maps", folder).pid

	done = subprocess.run([*before_others(), PYTHON, "-c", PEAK_OF, stage.mtctl, "doctor", str(pid)], env=stage.bare, capture_output=True, text=True)

	assert "asleep: it holds less anonymous memory than MT_MIN_MB" in done.stdout
	assert int(done.stderr.split()[-1]) * 1024 < 100 * MB
	listed, seconds = took_within(2, person, "ps", "--pids")
	assert str(pid) in listed.stdout and seconds < 2


def chain_of_links(folder):
	"""A path that the kernel follows through 40 links, each of them 4 kB of "d/../"."""
	(folder / "d").mkdir()
	for number in range(39):
		os.symlink("d/../" * 810 + ("d" if number == 38 else f"l{number + 1}"), folder / f"l{number}")
	return folder / "l0" / "x"


# For all processes together; beyond it they are refused, and not looked at again for a while.
FOLLOWED_MOST_S = 1


def test_an_mt_dir_that_takes_long_to_follow_is_followed_once(person, crowd, stage, serve):
	folder = stage.place / "chain"
	folder.mkdir()
	path, begun = chain_of_links(folder), time.monotonic()
	os.path.exists(path)
	takes_long = 30 * (time.monotonic() - begun) > 2 * FOLLOWED_MOST_S
	crowd(person(1), 30, "none", MT_DIR=path)
	_, get = serve()

	_, first_s = get("metrics")
	for _ in range(3):  # other tests run beside it
		time.sleep(first_s * 4.5)
		text, second_s = get("metrics")
		if second_s < first_s / 3:
			break

	if not takes_long:  # a fast machine follows all of them within that time
		assert second_s < 2 * FOLLOWED_MOST_S
		return
	assert second_s < first_s / 3
	# On a busy machine the time for all of them may be over before the last one's path is followed.
	assert re.search(r'mtshim_processes{state="refused"} [1-9]', text)


@pytest.mark.parametrize("way", ["directly", "by_a_link"])
def test_an_mt_dir_that_leads_through_proc_is_refused_without_a_wait(person, crowd, stage, way):
	"""To look up a name in /proc/PID/map_files is to wait for the memory of that process."""
	owner = person(1)
	holder = crowd(owner, 1, "hold").pid
	folder = stage.place / "links"
	folder.mkdir()
	os.symlink(f"/proc/{holder}/map_files/100000000-100001000", folder / "on")
	path = folder / "on/x" if way == "by_a_link" else f"/proc/{holder}/map_files/100000000-100001000/x"
	pid = crowd(owner, 5, "none", MT_DIR=path).pid

	got, seconds = took_within(3, person, "ps")

	assert seconds < 3
	assert f"process {pid} (crowd): {str(path)[:150]}: refused: it leads through /proc" in got.stderr


def test_a_cgroup_that_leads_through_proc_is_not_waited_for(person, crowd, fake_of, home_of):
	owner = person(1)
	holder = crowd(owner, 1, "hold").pid
	group = f"/proc/{holder}/map_files/100000000-100001000"
	pid = fake_of(owner, home_of(owner), settings={"cgroup": [group, "environment"]}, limit_source=f"{group}/memory.max",
	              values={"pressure_limit_bytes": 2000, "pressure_used_bytes": 1000}).pid

	for _ in range(5):
		got, seconds = took(person, "doctor", pid)
		assert seconds < 1.5
	assert str(pid) in got.stdout


def test_the_waits_for_the_mappings_of_one_process_add_up(person, crowd):
	"""Each of them is short, and there is one for each of many pieces of its smaps."""
	pid = crowd(person(1), 1, "repeat").pid

	_, listed_s = took_within(3, person, "ps", "--tree", pid)
	_, trimmed_s = took_within(3, person, "trim", "--timeout=2", "--tree", pid)

	assert listed_s < 3
	assert trimmed_s < 3
