"""Root's mtctl among the processes of others: it finds their files, asks nobody that it was not told to ask, and is not kept waiting."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import time
import urllib.request

import pytest

from people import needs_root, person, stage  # noqa: F401 (fixtures)

pytestmark = needs_root
MB = 1 << 20


@pytest.fixture
def roots_folder():
	"""The default folder of root's own files, as the first shimmed program of root makes it."""
	place = pathlib.Path("/dev/shm/mtshim-0")
	with contextlib.suppress(FileExistsError):
		place.mkdir(mode=0o700)
	yield place
	with contextlib.suppress(OSError):
		place.rmdir()


@pytest.fixture
def serve(stage):
	"""serve(): root's server; get(path) of it answers a text."""
	def start():
		server = stage.spawn([stage.mtctl, "serve", "--listen=127.0.0.1:0", "--open", "--interval=0"], stage.bare)
		address = server.stdout.readline().split("#")[0].strip()

		def get(path, timeout=30):
			with urllib.request.urlopen(address + path, timeout=timeout) as answer:
				return answer.read().decode()
		return get
	return start


# ---- where their files are ----

def test_roots_own_folder_hides_the_files_of_nobody_else(person, wait_for, roots_folder, serve):
	"""Of a process without MT_DIR, as most are: its files are in the folder of its user, and not in root's."""
	owner, root = person(1), person(uid=0)
	pid = owner.puppet(wait_for).pid

	listed = {one["pid"]: one for one in json.loads(root.ctl("ps", "--json").stdout)["processes"]}
	exported = root.ctl("export").stdout
	said = root.ctl("doctor", pid).stdout

	assert (listed[pid]["state"], listed[pid].get("error")) == ("awake", None)
	assert json.loads(root.ctl("stat", pid, "--json").stdout)["pid"] == pid
	assert f'mtshim_up{{pid="{pid}"' in exported and f'mtshim_heap_live_bytes{{pid="{pid}"' in exported
	assert "directory of user" not in said and "allocator: " in said
	assert f'mtshim_heap_live_bytes{{pid="{pid}"' in serve()("metrics")


def test_root_that_may_not_look_into_others_says_so_and_calls_nobody_asleep(person, stage, wait_for):
	"""As in a container, whose root has no CAP_SYS_PTRACE. A kernel may still show it the maps."""
	pid = person(1).puppet(wait_for).pid
	limited = ["setpriv", "--bounding-set=-sys_ptrace,-perfmon", "--inh-caps=-sys_ptrace,-perfmon"]

	listed = subprocess.run([*limited, stage.mtctl, "ps"], env=stage.bare, capture_output=True, text=True)

	assert not any(line.split()[:2] == [str(pid), "asleep"] for line in listed.stdout.splitlines()), listed.stdout
	assert f"process {pid} " in listed.stderr or "are left out: " in listed.stderr


def test_an_mt_dir_of_roots_own_shows_what_is_in_it_and_a_pid_is_found_everywhere(person, wait_for, roots_folder, stage):
	owner, root = person(1), person(uid=0)
	pid = owner.puppet(wait_for).pid
	named = stage.place / "named"
	named.mkdir(mode=0o700)

	def listed(**environment):
		return {one["pid"]: one["state"] for one in json.loads(root.ctl("ps", "--json", **environment).stdout)["processes"]}

	assert pid not in listed(MT_DIR=named) and listed(MT_DIR="")[pid] == "awake"
	assert root.ctl("stat", pid, "--json", MT_DIR=named).returncode == 0


BEGAN_AS_ROOT = """
import os, sys
held = [bytes(3000) for _ in range(20000)]
print("ready", flush=True)
uid = int(sys.stdin.readline())
os.setgid(uid); os.setuid(uid)
print("changed", flush=True)
sys.stdin.read()
"""


@pytest.mark.alone  # it asks everybody for a cleanup
@pytest.mark.parametrize("named", [False, True], ids=["default-folder", "MT_DIR"])
def test_a_process_that_began_as_roots_and_changed_its_user_is_found_by_root(person, wait_for, roots_folder, stage, named):
	"""It has no files as who it is now. Those that it made as root are its own, and root alone looks there."""
	owner, root = person(1), person(uid=0)
	folder = stage.memory / "named" if named else roots_folder
	settings = root.shimmed(**({"DIR": folder} if named else {}))
	process = stage.spawn(root.words(["/usr/bin/python3", "-c", BEGAN_AS_ROOT], **settings), stage.bare)
	assert process.stdout.readline() == "ready\n", process.stderr.read()
	pid = process.pid
	wait_for(lambda: list(folder.glob(f"{pid}-*.control")), 15, "its files")
	process.stdin.write(f"{owner.uid}\n")
	process.stdin.flush()
	assert process.stdout.readline() == "changed\n"

	listed = {one["pid"]: one for one in json.loads(root.ctl("ps", "--json").stdout)["processes"]}
	seen = json.loads(root.ctl("stat", pid, "--json", "--cached").stdout)
	trimmed = root.ctl("trim", "--all-users", "--light", "--timeout=0.5")
	said = root.ctl("doctor", pid).stdout
	begun = time.monotonic()
	alone = root.ctl("trim", pid, "--light", "--timeout=0.5")

	assert time.monotonic() - begun < 10 and alone.returncode == 4 and "it has changed its user" in alone.stderr
	assert listed[pid]["state"] == "awake" and seen["pid"] == pid
	assert f"process {pid} " in trimmed.stdout + trimmed.stderr
	assert not [line for line in (trimmed.stdout + trimmed.stderr).splitlines() if f"process {pid} " in line and "asleep" in line]
	assert "asleep" not in said and "directory of user" not in said and "allocator: " in said


# ---- who is asked ----

@pytest.mark.alone
def test_trim_all_of_roots_asks_roots_own_and_all_users_asks_everybody(person, wait_for, stage):
	owner, root = person(1), person(uid=0)
	theirs, own = owner.puppet(wait_for).pid, root.puppet(wait_for, DIR=stage.memory / "roots").pid

	def asked(pid):
		return json.loads(root.ctl("stat", pid, "--json", "--cached").stdout)["requests_count"]

	first = root.ctl("trim", "--all", "--light")
	assert f"process {own} " in first.stdout and f"process {theirs} " not in first.stdout + first.stderr
	assert (asked(own), asked(theirs)) == (1, 0)

	second = root.ctl("trim", "--all-users", "--light")
	assert f"process {own} " in second.stdout and f"process {theirs} " in second.stdout
	assert (asked(own), asked(theirs)) == (2, 1)
	third = owner.ctl("trim", "--all-users", "--light")
	assert f"process {own} " not in third.stdout + third.stderr and f"process {theirs} " in third.stdout


# ---- who is not kept waiting ----


@pytest.fixture
def sparse(stage, compile_c):
	"""sparse(owner, mb, **settings): a shimmed process of the owner's which says that its environment is so long; its pid."""
	program = stage.place / "sparse"
	shutil.copyfile(compile_c("sparse_environment.c"), program)
	program.chmod(0o755)

	def start(owner, mb, **settings):
		process = stage.spawn(owner.words([program, mb], LD_PRELOAD=stage.shim, **settings), stage.bare)
		if process.stdout.readline() != "ready\n":
			pytest.skip(f"no PR_SET_MM_MAP here: {process.stderr.read()[-200:]}")
		return process.pid
	return start


def spent(stage, *words):
	"""What mtctl wrote, the most memory that it held, in bytes, and the time that it computed, in seconds."""
	process = subprocess.Popen([str(word) for word in (stage.mtctl, *words)], env=stage.bare, stdout=subprocess.PIPE, text=True)
	with process.stdout:
		out = process.stdout.read()
	_, _, usage = os.wait4(process.pid, 0)
	process.returncode = 0
	return out, usage.ru_maxrss * 1024, usage.ru_utime + usage.ru_stime


def test_an_environment_as_long_as_somebody_likes_costs_root_neither_time_nor_memory(person, stage, sparse, serve):
	"""Read whole, three of 1 GB took mtctl 1 GB, a minute for doctor, and 24 s of a server that answers nobody else meanwhile."""
	pids = [sparse(person(1), 1024) for _ in range(3)]
	get = serve()

	for words in (["ps"], ["export"], ["stat", pids[0]], ["doctor", pids[0]]):
		out, most, computed_s = spent(stage, *words)
		assert str(pids[0]) in out or words[0] == "stat", words
		assert most < 400 * MB, words  # the figure begins with what the test itself holds at its fork
		assert computed_s < 2, words
	begun = time.monotonic()
	for _ in range(5):
		assert f'pid="{pids[2]}"' in get("metrics")
		assert get("healthz")
	assert time.monotonic() - begun < 10


def test_doctor_names_twenty_wrong_settings_of_a_process_and_no_more(person, stage, wait_for):
	"""Each is looked up among all settings, for one that may have been meant: a million of them took minutes."""
	wrong = {f"MT_WRONG_{number}": "1" for number in range(500)}
	words = person(1).words(["sleep", "60"], LD_PRELOAD=stage.shim, MT_LOG_LEVEL="error", **wrong)
	pid = stage.spawn(words, dict(stage.bare), stderr=subprocess.DEVNULL).pid
	wait_for(lambda: pathlib.Path(stage.shim).name in pathlib.Path(f"/proc/{pid}/maps").read_text())

	out, *_ = spent(stage, "doctor", pid)

	assert out.count("MT_WRONG_") == 20 and "after these 20 are not checked" in out
