"""The files in MT_DIR are the one thing that others can put a hand on: whatever they do, the program goes on."""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest

WORK = ["/usr/bin/python3", "-c",
        "import time\nheld = [bytes(3000) for _ in range(20000)]\nend = time.monotonic() + 1\n"
        "while time.monotonic() < end: bytes(5000)\nprint('well')"]


def make_file(path):
	path.rmdir()
	path.write_text("a file")


def make_symlink(path):
	target = path.with_name(path.name + "-target")
	path.rename(target)
	path.symlink_to(target)


def make_foreign(path):
	os.chown(path, 65534, 65534)


def make_open(path):
	path.chmod(0o777)


HOSTILE = {"file": make_file, "symlink": make_symlink, "foreign": make_foreign, "mode-0777": make_open}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_directory_that_is_not_ours_is_not_used(run, env, mt_dir, what):
	if what == "foreign" and os.geteuid() != 0:
		pytest.skip("needs root")
	HOSTILE[what](mt_dir)
	try:
		got = run(WORK, env(MIN_MB=0))

		assert (got.returncode, got.stdout) == (0, "well\n"), got.stderr
		assert len(got.stderr.splitlines()) == 1 and str(mt_dir) in got.stderr
		if mt_dir.is_dir():
			assert list(mt_dir.iterdir()) == []
	finally:
		if mt_dir.is_symlink() or mt_dir.is_file():
			leftover = mt_dir.with_name(mt_dir.name + "-target")
			mt_dir.unlink()
			if leftover.exists():
				assert list(leftover.iterdir()) == []
				leftover.rmdir()


@pytest.mark.parametrize("path", ["/proc/no/such/dir", "/dev/null", "/sys/mtshim", "relative/no", "/proc/" + "x" * 240])
def test_a_directory_that_cannot_be_made(run, env, path):
	got = run(WORK, env(MIN_MB=0, DIR=path), cwd="/proc")

	assert (got.returncode, got.stdout) == (0, "well\n"), got.stderr
	assert len(got.stderr.splitlines()) == 1


def test_a_directory_that_is_missing_is_made(run, env, mt_dir, puppet, awake):
	settings = env(MIN_MB=0, DIR=mt_dir / "fresh")
	actor = puppet(settings)
	actor.tell("alloc 100 1000 1000")
	awake(actor.pid, settings)

	assert (mt_dir / "fresh").stat().st_mode & 0o777 == 0o700


@pytest.fixture
def full_tmpfs(mt_dir):
	"""An MT_DIR on a file system without a free byte."""
	if os.geteuid() != 0:
		pytest.skip("needs root to mount")
	if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "tmpfs", str(mt_dir)],
	                  capture_output=True).returncode != 0:
		pytest.skip("may not mount here")
	try:
		with open(mt_dir / "filler", "wb", buffering=0) as filler:
			while filler.write(b"x" * 4096) == 4096:
				pass
	except OSError:
		pass
	yield mt_dir
	subprocess.run(["umount", "-l", str(mt_dir)], check=True)


def test_a_full_file_system(run, env, full_tmpfs, backend):
	got = run(WORK, env(MIN_MB=0, TICK_MS=10))

	assert (got.returncode, got.stdout) == (0, "well\n"), got.stderr
	assert len(got.stderr.splitlines()) <= 1


def test_a_file_system_that_fills_up_later(puppet, env, mt_dir, awake, backend):
	if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(mt_dir)],
	                                       capture_output=True).returncode != 0:
		pytest.skip("may not mount here")
	try:
		settings = env(MIN_MB=0, TICK_MS=10)
		actor = puppet(settings)
		actor.tell("alloc 20000 2000 2000")
		awake(actor.pid, settings)
		with pytest.raises(OSError), open(mt_dir / "filler", "wb", buffering=0) as filler:
			while filler.write(b"x" * 4096):
				pass
		for _ in range(10):
			actor.tell("keep 2")
			actor.tell("alloc 5000 2000 2000")
			actor.tell("churn 100")
		assert actor.tell("hello") == "hello"
		assert actor.end()[0] == 0
	finally:
		subprocess.run(["umount", "-l", str(mt_dir)], check=True)


def truncate(file):
	os.truncate(file, 0)


def shorten(file):
	os.truncate(file, 7)


def noise(file):
	size = file.stat().st_size
	with open(file, "r+b") as out:
		out.write(os.urandom(max(size, 4096)))


def ones(file):
	size = file.stat().st_size
	with open(file, "r+b") as out:
		out.write(b"\xff" * max(size, 4096))


def delete(file):
	file.unlink()


def symlink(file):
	target = file.parent / "victim"
	target.write_text("precious")
	target.chmod(0o600)
	file.unlink()
	file.symlink_to(target)


def directory(file):
	file.unlink()
	file.mkdir()


def fifo(file):
	file.unlink()
	os.mkfifo(file, 0o600)


def unreadable(file):
	file.chmod(0)


def enlarge(file):
	os.truncate(file, 1 << 30)


ATTACKS = [truncate, shorten, noise, ones, delete, symlink, directory, fifo, unreadable, enlarge]


@pytest.mark.slow
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
@pytest.mark.parametrize("which", ["stats", "control"])
def test_a_file_under_attack_while_in_use(puppet, env, mt_dir, awake, control, which, attack):
	"""Every few milliseconds the worker writes one and reads the other; a mapped one would be SIGBUS."""
	settings = env(MIN_MB=0, TICK_MS=10, SLACK_MB=1, IDLE_MS=10)
	actor = puppet(settings)
	actor.tell("alloc 20000 2000 2000")
	awake(actor.pid, settings)
	file = next(file for file in mt_dir.iterdir() if file.suffix == "." + which)

	attack(file)

	for _ in range(5):
		actor.tell("keep 2")
		actor.tell("alloc 3000 2000 2000")
		actor.tell("churn 60")
		os.kill(actor.pid, 10)
	asked = control(settings, "trim", actor.pid, timeout=60)
	assert asked.returncode in (0, 1, 2, 3), f"mtctl was killed: {asked.returncode} {asked.stderr}"
	shown = control(settings, "stat", actor.pid, "--json", timeout=60)
	assert shown.returncode >= 0, "mtctl was killed"
	assert actor.tell("hello") == "hello"
	if attack is symlink:
		assert (mt_dir / "victim").read_text() == "precious"
	status, said = actor.end()
	assert status == 0
	assert len(said.splitlines()) <= 2, said


@pytest.mark.slow
def test_a_storm_of_attacks(puppet, env, mt_dir, awake):
	settings = env(MIN_MB=0, TICK_MS=10, SLACK_MB=1, IDLE_MS=10)
	actor = puppet(settings)
	actor.tell("alloc 20000 2000 2000")
	awake(actor.pid, settings)
	end = time.monotonic() + 4
	number = 0
	while time.monotonic() < end:
		for file in list(mt_dir.iterdir()):
			try:
				[truncate, noise, shorten, ones, delete][number % 5](file)
			except (OSError, ValueError):
				pass
			number += 1
		os.kill(actor.pid, 10)
		if number % 7 == 0:
			actor.tell("churn 5")

	assert actor.tell("hello") == "hello"
	assert actor.end()[0] == 0


def test_a_program_that_closes_every_descriptor(run, env, backend):
	"""Daemons do. The shim keeps none, and must not write into a number that now means something else."""
	script = ("import os, time\n"
	          "os.closerange(3, 4096)\n"
	          "fds = [os.open('/tmp', os.O_TMPFILE | os.O_RDWR, 0o600) for _ in range(50)]\n"
	          "held = [bytes(3000) for _ in range(20000)]\n"
	          "time.sleep(1)\n"
	          "os.kill(os.getpid(), 10)\n"
	          "time.sleep(1)\n"
	          "print(fds[0], sum(os.fstat(fd).st_size for fd in fds), len(os.listdir('/proc/self/fd')))\n")

	got = run(["/usr/bin/python3", "-c", script], env(MIN_MB=0, TICK_MS=10))

	assert (got.returncode, got.stdout) == (0, "3 0 54\n"), got.stderr


def test_a_program_in_a_chroot_without_proc(run, env, mt_dir, tmp_path):
	if os.geteuid() != 0:
		pytest.skip("needs root")
	script = ("import os, time\n"
	          f"os.chroot({str(tmp_path)!r}); os.chdir('/')\n"
	          "held = [bytes(3000) for _ in range(20000)]\n"
	          "time.sleep(1)\n"
	          "print('well')\n")

	got = run(["/usr/bin/python3", "-c", script], env(TICK_MS=10))

	assert (got.returncode, got.stdout) == (0, "well\n"), got.stderr
	assert list(pathlib.Path(tmp_path).iterdir()) == []


# ---- file systems that may keep a thread waiting ----

def test_there_are_no_files_but_in_memory_and_mtctl_says_so(puppet, env, control):
	"""mtctl called such a process asleep, and its trim found nothing to do: it does not know."""
	settings = env(MIN_MB=0, DIR="/sys/mtshim") # no disk is needed for what is not memory
	actor = puppet(settings)
	actor.tell("alloc 100 1000 1000")
	elsewhere = dict(settings, MT_DIR="/dev/shm/mtshim-of-nobody")

	asked = control(elsewhere, "stat", actor.pid)
	looked = control(elsewhere, "doctor", actor.pid)
	about_here = control(settings, "doctor")

	assert asked.returncode == 2 and "MT_DIR=/sys/mtshim is not on a file system in memory" in asked.stderr
	assert "MT_DIR=/sys/mtshim is not on a file system in memory" in looked.stdout
	assert "/sys/mtshim: not on a file system in memory" in about_here.stdout
	status, said = actor.end()
	assert status == 0 and len(said.splitlines()) == 1 and "/sys/mtshim is not on a file system in memory" in said


@pytest.fixture
def unusable(mt_dir):
	"""unusable[what]: a path that the library refuses as MT_DIR, and the reason as mtctl gives it."""
	(mt_dir / "open").mkdir(mode=0o755)
	return {"disk": ("/sys/mtshim", "is not on a file system in memory (tmpfs)"),
	        "open": (mt_dir / "open", "is open to others (mode 700 is wanted)"),
	        "nowhere": (mt_dir / "no" / "such", "cannot be made: the directory above it does not exist")}


@pytest.mark.parametrize("what", ["disk", "open", "nowhere"])
def test_mtctl_calls_nobody_asleep_whose_directory_the_library_refused(puppet, env, control, unusable, what):
	path, reason = unusable[what]
	actor = puppet(env(MIN_MB=0, DIR=path))
	actor.tell("alloc 100 1000 1000")
	reason = f"awake or asleep is not known: its MT_DIR={path} {reason}"

	listed = control(env(DIR=""), "ps", "--json")
	asked = {words: control(env(), *words.split(), actor.pid) for words in ("stat", "stat --json", "trim", "trim --json", "doctor")}
	metrics = control(env(DIR=""), "export").stdout

	assert {one["pid"]: one["state"] for one in json.loads(listed.stdout)["processes"]}[actor.pid] == "refused"
	assert reason in listed.stderr
	assert [got.returncode for got in asked.values()] == [2, 2, 2, 2, 1]
	for words, got in asked.items():
		assert reason in got.stdout + got.stderr and "asleep:" not in got.stdout + got.stderr, words
	assert reason in json.loads(asked["trim --json"].stdout)["processes"][0]["error"]
	assert re.search(rf'mtshim_up{{pid="{actor.pid}",[^}}]*}} 0\n', metrics)
	actor.end()


def test_an_empty_mt_dir_is_none(puppet, env, control):
	"""Also where the process stands on a disk."""
	actor = puppet(env(MIN_MB=1000, DIR=""))

	asked = control(env(), "stat", actor.pid)

	assert asked.returncode == 1 and "asleep: it has no files" in asked.stderr
	actor.end()


@pytest.fixture
def frozen(mt_dir):
	"""A disk is mounted on MT_DIR; frozen() freezes it, and frozen(end=True) lets it go on."""
	image = mt_dir.with_name(mt_dir.name + "-image")
	with open(image, "wb") as file:
		file.truncate(4 << 20)
	made = shutil.which("mkfs.ext4") and shutil.which("fsfreeze") and \
		subprocess.run(["mkfs.ext4", "-q", image], capture_output=True).returncode == 0 and \
		subprocess.run(["mount", "-o", "loop", image, mt_dir], capture_output=True).returncode == 0
	if not made:
		image.unlink()
		pytest.skip("may not mount a disk here")
	mt_dir.chmod(0o700)
	yield lambda end=False: subprocess.run(["fsfreeze", "-u" if end else "-f", mt_dir], check=True)
	subprocess.run(["umount", "-l", mt_dir], check=True)
	image.unlink()


def test_a_disk_that_stops_does_not_stop_a_program_that_has_it_as_mt_dir(spawn, env, frozen, backend):
	"""The file was written under a lock that fork waits for, and the process could not even end."""
	script = ("import os, sys, time\n"
	          "held = [bytes(3000) for _ in range(20000)]\n"
	          "time.sleep(0.2)\n"
	          "print('awake', flush=True)\n"
	          "sys.stdin.readline()\n"
	          "end = time.monotonic() + 1.2\n"
	          "while time.monotonic() < end:\n"
	          "    held = [bytes(3000) for _ in range(5000)]\n"
	          "    child = os.fork()\n"
	          "    if child == 0: os._exit(0)\n"
	          "    os.waitpid(child, 0)\n"
	          "print('well', flush=True)\n")
	process = spawn(["/usr/bin/python3", "-c", script], env(MIN_MB=0, TICK_MS=10))
	assert process.stdout.readline() == "awake\n"
	frozen()
	process.stdin.write("go\n")
	process.stdin.flush()

	with concurrent.futures.ThreadPoolExecutor(1) as pool:
		said = pool.submit(process.stdout.readline)
		try:
			assert said.result(timeout=8) == "well\n" and process.wait(timeout=8) == 0
		except concurrent.futures.TimeoutError:
			pytest.fail("the program stands still with the disk")
		finally:
			frozen(end=True)
