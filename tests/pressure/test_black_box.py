"""What a process leaves behind that the kernel has killed at its limit, and what `mtctl last` tells of it."""
import contextlib
import ctypes
import importlib.util
import os
import re
import shutil
import struct
import subprocess
import time

import pytest

from json_schema import fits
from mtctl_helpers import NOTHING, USAGE
from mtctl_helpers import ctl, plain  # noqa: F401 (fixtures)
from places import helper
from pressed import MB, PYTHON
from pressed import limited  # noqa: F401 (a fixture)

PATIENT = helper("black_box.py")
GROWER = helper("grower.cc")
LIMIT_MB = 200
KILLED = -9


@pytest.fixture
def folder(tmp_path):
	return tmp_path / "last"


@pytest.fixture
def patient(run, spawn, shim, plain, limited, folder):
	"""patient(words..., stops=False, NAME=VALUE...): black_box.py at a limit; runs it to its end, or starts it."""
	def call(*words, stops=False, limit_mb=LIMIT_MB, **environment):
		group = limited(limit_mb)
		wanted = dict(plain, LD_PRELOAD=str(shim), **{"MT_LAST_DIR": str(folder), **environment})
		return (spawn if stops else run)([PYTHON, PATIENT, *words], wanted, preexec_fn=group.enter)
	return call


def line_of(way, source=PATIENT):
	lines = source.read_text().splitlines()
	return next(number for number, text in enumerate(lines, 1) if text.endswith(f" line: {way}"))


def files(folder):
	return sorted(folder.iterdir()) if folder.exists() else []


def told(ctl, folder):
	file, = folder.glob("*.last")  # a process that is killed while it writes leaves another name
	done = ctl("last", file, "--json")
	assert done.returncode == 0, done.stderr
	one, = fits("last", done.stdout)["processes"]
	return one


@pytest.mark.parametrize("way, rate", [("lists", 200), ("strings", 60), ("numpy", 100), ("thread", 100),
                                       *(pytest.param(way, rate, marks=pytest.mark.long)
                                         for way in ("lists", "strings", "numpy", "thread") for rate in (10, 1000)
                                         if (way, rate) != ("thread", 10))])
def test_a_program_that_is_killed_has_named_the_line_that_filled_it(patient, ctl, folder, way, rate):
	assert patient(way, rate).returncode == KILLED

	one = told(ctl, folder)
	assert one["fate"] in ("killed", "ended")  # the kernel's log may be out of reach
	assert one["filled_by"] == "live" and one["limit_bytes"] == LIMIT_MB * MB
	assert one["sites"][0]["stack"][0] == f"{PATIENT}:{line_of(way)}"
	assert sum(one["parts"].values()) == one["rss_bytes"] > 0.5 * LIMIT_MB * MB


@pytest.mark.skipif(importlib.util.find_spec("torch") is None,
                    reason="python3-torch is not installed (scripts/bootstrap)")
@pytest.mark.parametrize("rate", [100, *(pytest.param(rate, marks=pytest.mark.long) for rate in (30, 1000))])
@pytest.mark.parametrize("way", ["tensors", pytest.param("loader", marks=pytest.mark.long)])
def test_tensors_are_named_in_the_program_and_in_the_worker_of_a_data_loader(patient, ctl, folder, way, rate):
	"""The kernel kills the worker of the DataLoader, and PyTorch ends the program by an exception."""
	done = patient(way, rate, limit_mb=900)
	assert done.returncode == (KILLED if way == "tensors" else 1), done.stderr

	one = told(ctl, folder)
	assert one["filled_by"] == "live"
	assert one["sites"][0]["stack"][0] == f"{PATIENT}:{line_of(way)}"


@pytest.mark.parametrize("way, rate", [("small", 100), ("large", 100), ("zeroed", 60), ("grown", 60), ("rows", 100), ("array", 60),
                                       *(pytest.param(way, 1000, marks=pytest.mark.long)
                                         for way in ("small", "large", "zeroed", "grown", "rows", "array"))])
def test_a_program_without_python_has_named_the_function_that_filled_it(run, shim, plain, limited, folder, compile_c, ctl, way, rate):
	"""new is called by libstdc++'s operator new: its caller counts."""
	wanted = dict(plain, LD_PRELOAD=str(shim), MT_LAST_DIR=str(folder))
	assert run([compile_c("grower.cc"), way, rate], wanted, preexec_fn=limited(LIMIT_MB).enter).returncode == KILLED

	one = told(ctl, folder)
	assert one["filled_by"] == "live"
	assert one["sites"][0]["stack"][0].startswith(f"{way}(unsigned long) at grower.cc:{line_of(way, GROWER)}")


def test_a_program_that_was_built_anew_since_it_was_killed_is_named_by_its_place(run, shim, plain, limited, folder, compile_c, ctl, tmp_path):
	program = tmp_path / "grower"
	shutil.copy(compile_c("grower.cc"), program)
	wanted = dict(plain, LD_PRELOAD=str(shim), MT_LAST_DIR=str(folder))
	assert run([program, "large", 100], wanted, preexec_fn=limited(LIMIT_MB).enter).returncode == KILLED
	time.sleep(1.1)  # the time of the last look is compared in seconds
	program.write_text("another program")

	assert re.fullmatch(rf"{program}\+0x[0-9a-f]+", told(ctl, folder)["sites"][0]["stack"][0])


@pytest.mark.parametrize("way, part, rate", [("mapped", "other", 60), ("shared", "files", 60),
                                             *(pytest.param(way, part, rate, marks=pytest.mark.long)
                                               for way, part in (("mapped", "other"), ("shared", "files")) for rate in (10, 30))])
def test_memory_past_malloc_is_named_as_what_it_is(patient, ctl, folder, way, part, rate):
	assert patient(way, rate).returncode == KILLED

	assert told(ctl, folder)["filled_by"] == part


def test_a_program_that_comes_back_leaves_nothing(patient, wait_for, folder):
	process = patient("strings", 100, 160, stops=True)
	assert process.stdout.readline() == "full\n"
	wait_for(lambda: files(folder))

	process.stdin.write("free\n")
	assert process.stdout.readline() == "freed\n"
	wait_for(lambda: not files(folder))

	process.stdin.close()
	assert process.wait(20) == 0 and not files(folder)


@pytest.mark.parametrize("end", ["exit", "_exit"])
def test_a_program_that_ends_in_order_near_its_limit_leaves_nothing(patient, wait_for, folder, end):
	process = patient("strings", 100, 160, stops=True)
	assert process.stdout.readline() == "full\n"
	wait_for(lambda: files(folder))

	if end == "_exit":
		process.stdin.write("_exit\n")
	process.stdin.close()
	assert process.wait(20) == 0 and not files(folder)


def test_a_forked_child_does_not_take_its_parents_file_along(patient, wait_for, folder):
	process = patient("strings", 100, 160, stops=True)
	assert process.stdout.readline() == "full\n"
	wait_for(lambda: files(folder))

	process.stdin.write("fork\n")
	assert process.stdout.readline() == "forked\n"
	assert files(folder)


def test_off_writes_nothing_and_so_does_a_folder_that_others_may_write(patient, folder):
	folder.mkdir()
	folder.chmod(0o777)
	assert patient("strings", 200).returncode == KILLED and not files(folder)

	folder.chmod(0o700)
	assert patient("strings", 200, MT_LAST_DIR="off").returncode == KILLED and not files(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
def test_a_full_disk_changes_nothing(patient, folder, spawn):
	folder.mkdir(mode=0o700)
	if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", folder], check=False).returncode != 0:
		pytest.skip("no file system can be mounted here")
	try:
		process = patient("strings", 100, 160, stops=True)
		assert process.stdout.readline() == "full\n"
		process.stdin.close()
		assert process.wait(20) == 0 and not files(folder)
	finally:
		subprocess.run(["umount", folder], check=True)


@pytest.fixture
def stalled(tmp_path):
	"""A folder whose file system never answers: a FUSE mount with nobody behind it."""
	libc, place = ctypes.CDLL(None, use_errno=True), tmp_path / "stalled"
	place.mkdir()
	try:
		device = os.open("/dev/fuse", os.O_RDWR)
	except OSError as error:
		pytest.skip(f"/dev/fuse: {error}")
	if libc.mount(b"nobody", str(place).encode(), b"fuse", 0, f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()) != 0:
		os.close(device)
		pytest.skip(f"no FUSE mount here: {os.strerror(ctypes.get_errno())}")
	yield place
	libc.umount2(str(place).encode(), 2)  # MNT_DETACH
	os.close(device)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a file system")
@pytest.mark.parametrize("by", ["path", "link", "relative"])
def test_a_folder_that_never_answers_holds_nobody(patient, stalled, ctl, tmp_path, by):
	"""Asking such a file system for its kind stopped the worker, and with it all cleanups."""
	link = tmp_path / "link"
	link.symlink_to(f"../{tmp_path.name}/{stalled.name}" if by == "relative" else stalled)
	process = patient("strings", 100, 160, stops=True, MT_LAST_DIR=str((stalled if by == "path" else link) / "last"))
	assert process.stdout.readline() == "full\n"

	assert ctl("trim", process.pid).returncode == 0

	process.stdin.close()
	assert process.wait(20) == 0


def test_without_a_setting_it_lies_in_the_users_state_folder(run, shim, plain, limited, ctl, tmp_path):
	state = tmp_path / "state"
	state.mkdir()
	kind = subprocess.run(["stat", "-f", "-c", "%T", state], capture_output=True, text=True).stdout.strip()
	if kind in ("overlayfs", "tmpfs", "nfs"):
		pytest.skip(f"the temporary folder is on {kind}, where nothing is written unasked")

	done = run([PYTHON, PATIENT, "strings", "200"], dict(plain, LD_PRELOAD=str(shim), XDG_STATE_HOME=str(state)),
	           preexec_fn=limited(LIMIT_MB).enter)

	assert done.returncode == KILLED
	listed = ctl("last", XDG_STATE_HOME=str(state))
	assert listed.returncode == 0 and "strings 200" in listed.stdout
	assert "filled by: memory in use by the program" in ctl("last", "black_box.py", XDG_STATE_HOME=str(state)).stdout
	assert ctl("last", "other.py", XDG_STATE_HOME=str(state)).returncode == NOTHING


def test_a_folder_keeps_twenty_files(patient, folder):
	folder.mkdir(mode=0o700)
	for number in range(25):
		old = folder / f"{4000000 + number}-1-1.last"
		old.write_bytes(b"old")
		os.utime(old, (number, number))

	assert patient("strings", 200).returncode == KILLED

	names = [file.name for file in files(folder)]
	assert len(names) == 20 and "4000024-1-1.last" in names and "4000000-1-1.last" not in names


def test_files_that_are_not_of_a_process_stay_in_the_folder(patient, folder):
	folder.mkdir(mode=0o700)
	own = [folder / f"epoch{number}.last" for number in range(25)] + [folder / "model.last.new", folder / "12-3.last"]
	for file in own:
		file.write_text("precious")

	assert patient("strings", 200).returncode == KILLED

	assert all(file.exists() for file in own) and len(files(folder)) == len(own) + 1


def test_a_thread_that_holds_the_loaders_lock_does_not_stop_the_worker(run, shim, plain, limited, folder, compile_c):
	"""The worker loaded libgcc_s at half of the limit, hung, and the program was killed."""
	library = compile_c("long_constructor.c", "-shared", "-fPIC")
	done = run([compile_c("loads_library.c"), library], dict(plain, LD_PRELOAD=str(shim), MT_LAST_DIR=str(folder)),
	           preexec_fn=limited(300).enter)

	assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr


def test_record_says_where_to_look(mtctl, run, shim, plain, limited, folder, tmp_path):
	group = limited(LIMIT_MB)
	done = run([mtctl, "record", "-q", "-o", tmp_path / "run.jsonl", "--", PYTHON, PATIENT, "strings", "100"],
	           dict(plain, MTSHIM_LIBRARY=str(shim), MT_LAST_DIR=str(folder)), preexec_fn=group.enter)

	assert done.returncode == KILLED
	assert "mtctl last" in done.stderr


@pytest.fixture
def on_a_terminal(mtctl, spawn, shim, plain, folder):
	"""on_a_terminal(command, **options): `mtctl run` of it with a terminal as stderr; its process, and all that came there."""
	def call(command, **options):
		terminal, there = os.openpty()
		process = spawn([mtctl, "run", "--", *command], dict(plain, MTSHIM_LIBRARY=str(shim), MT_LAST_DIR=str(folder)), stderr=there, **options)
		os.close(there)
		text = b""
		with contextlib.suppress(OSError):  # EIO: the last one has closed it
			while got := os.read(terminal, 4096):
				text += got
		os.close(terminal)
		return process, text.decode()
	return call


def test_run_says_on_a_terminal_where_to_look(on_a_terminal, limited):
	process, text = on_a_terminal([PYTHON, PATIENT, "strings", "100"], preexec_fn=limited(LIMIT_MB).enter)

	assert process.wait(20) == KILLED
	assert "killed with " in text and f"`mtctl last {process.pid}`" in text


def become_a_reaper():
	assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER


def test_nothing_of_run_stays_on_a_terminal_that_the_program_has_left(on_a_terminal):
	"""The reader of the terminal sees its end when the program has a session of its own, not when it ends."""
	begin = time.monotonic()
	on_a_terminal(["setsid", PYTHON, "-c", "import os, time; [os.close(at) for at in range(3)]; time.sleep(20)"])

	assert time.monotonic() - begin < 10


@pytest.mark.parametrize("prepare", [None, become_a_reaper], ids=["plain", "reaper"])
def test_a_program_under_run_has_no_child_that_it_does_not_know(on_a_terminal, prepare):
	process, text = on_a_terminal([PYTHON, "-c", "import os, time; time.sleep(0.3); os.wait()"], preexec_fn=prepare)

	assert process.wait(20) == 1 and "ChildProcessError" in text and "mtctl last" not in text


def test_the_page_has_the_memory_until_the_end_and_the_status_then_is_told(patient, ctl, folder, tmp_path):
	assert patient("strings", 60).returncode == KILLED
	page = tmp_path / "report.html"

	done = ctl("last", files(folder)[0], "-o", page)
	status = told(ctl, folder)["status"]
	text = ctl("last", files(folder)[0]).stdout

	assert done.returncode == 0, done.stderr
	assert "black_box.py" in page.read_text() and "<svg" in page.read_text()
	assert int(status["Threads"]) >= 1 and status["VmHWM"].endswith(" kB") and status["State"]
	assert re.search(r"^memory: RSS [\d.]+ MB, at most [\d.]+ MB, \d+ threads?", text, re.MULTILINE), text


def test_the_number_of_other_processes_says_whether_it_is_cut(patient, ctl, folder):
	assert patient("strings", 60).returncode == KILLED
	file, before = files(folder)[0], told(ctl, folder)
	data = file.read_bytes()
	words = list(struct.unpack(f"={len(data) // 8}Q", data))
	words[22] = 256  # processes_total (core/dump_layout.h), which the process counts no further
	words[-1] = 0xcbf29ce484222325
	for word in words[:-1]:
		words[-1] = (words[-1] ^ word) * 0x100000001b3 % 2**64

	file.write_bytes(struct.pack(f"={len(words)}Q", *words))

	after = told(ctl, folder)
	assert before["processes_count"] < 256 and not before["processes_count_is_cut"]
	assert after["processes_count"] == 256 and after["processes_count_is_cut"]


def _damaged(original, how):
	data = bytearray(original)
	if how == "short":
		return bytes(data[:len(data) // 2])
	data[{"magic": 0, "version": 8, "checksum": 3000}[how]] ^= 0xff
	return bytes(data)


def test_a_damaged_file_is_refused(patient, ctl, folder, tmp_path):
	assert patient("strings", 200).returncode == KILLED
	bad = tmp_path / "bad.last"

	for how in ("short", "magic", "version", "checksum"):
		bad.write_bytes(_damaged(files(folder)[0].read_bytes(), how))
		done = ctl("last", bad)
		assert done.returncode == USAGE and done.stdout == "", how
