"""CPython 3.14 and later without the shim: `mtctl look --gc` and `mtctl sites --python` by sys.remote_exec()."""
import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess

import pytest

from json_schema import fits
from mtctl_helpers import MB, NO_ANSWER, NO_PROCESS, NOT_SHIMMED, PYTHON, USAGE, ctl, fake, plain  # noqa: F401 (fixtures)

# Commands from stdin are run between two steps; a reply is one line. Garbage is in cycles.
ACTOR = r'''
import gc, select, sys, time
gc.disable()
kept = []
def litter():
    for _ in range(80):
        cycle = [bytearray(b"x") * (1 << 20)]
        cycle.append(cycle)
def step():
    kept.append(str(time.time()) * 9)  # leak
litter()
print("ready", flush=True)
while True:
    if select.select([sys.stdin], [], [], 0.003)[0]:
        try:
            print(eval(sys.stdin.readline()), flush=True)
        except SyntaxError:
            break
    step()
'''
LEAK = next(number for number, text in enumerate(ACTOR.splitlines(), 1) if "# leak" in text)
TRACING = "__import__('_tracemalloc').is_tracing()"


def newest_python():
	"""An interpreter of 3.14 or later, or None."""
	found = [shutil.which("python3.14"), shutil.which("python3.15"), PYTHON,
	         *map(str, pathlib.Path("/root/.pyenv/versions").glob("3.1[4-9].*/bin/python3"))]
	for path in filter(None, found):
		said = subprocess.run([path, "-c", "import sys; print(hasattr(sys, 'remote_exec'))"], capture_output=True, text=True).stdout
		if said == "True\n":
			return path
	return None


@pytest.fixture(scope="session")
def python():
	found = newest_python()
	if not found:
		pytest.skip("no Python 3.14 or later (python3.14 in PATH)")
	return found


@pytest.fixture
def actor(steer, plain, python, tmp_path):
	"""actor(words of the command line, NAME=VALUE of the environment): the program above; .stderr is what it complains of."""
	path = tmp_path / "actor.py"
	path.write_text(ACTOR)

	def start(*words, **environment):
		with open(tmp_path / "stderr", "w") as stderr:
			one = steer([python, *words, path], dict(plain, **environment), stderr=stderr)
		assert one.process.stdout.readline() == "ready\n"
		one.stderr = tmp_path / "stderr"
		return one
	return start


def left(one):
	"""What a look has left in the program: its tracing, its callback, its complaints, its files."""
	files = list(pathlib.Path("/tmp").glob(f"mtctl-{one.pid}-*"))
	return one.tell(TRACING), one.tell("gc.callbacks"), one.stderr.read_text(), files


NOTHING_LEFT = ("False", "[]", "", [])


# ---- look --gc ----

def test_a_collection_without_the_shim_frees_garbage_and_says_its_cost_before(actor, ctl):
	one = actor()

	done = ctl("look", "--gc", one.pid, "--json")

	said = fits("look", done.stdout)["collection"]
	assert said["objects_count"] >= 80 and said["took_ns"] > 0
	assert said["rss_before_bytes"] - said["rss_after_bytes"] > 60 * MB
	assert "stops the program" in done.stderr and "sys.remote_exec()" in done.stderr
	assert left(one) == NOTHING_LEFT
	assert re.search(r"objects? of garbage freed in .*: RSS ", ctl("look", "--gc", one.pid).stdout)
	plainly = json.loads(ctl("look", one.pid, "--json").stdout)
	assert plainly["collection"] is None and plainly["allocator"]["name"] == "glibc"  # texts of mimalloc are in CPython's file


# ---- sites --python ----

def test_the_leaking_line_is_found_without_the_shim_and_nothing_is_left_behind(actor, ctl, tmp_path):
	one = actor("-X", "dev", "-X", "warn_default_encoding", "-W", "error")

	done = ctl("sites", one.pid, "--python", "--for=2", "--json", f"--pprof={tmp_path}/lines.pb.gz")

	assert done.returncode == 0, done.stderr
	seen = fits("sites --python", done.stdout)
	first = seen["lines"][0]
	assert (first["file"], first["line"], first["steady"]) == (f"{tmp_path}/actor.py", LEAK, True)
	assert seen["ended_early"] is None and not seen["own_tracemalloc"] and 0 < seen["longest_stop_ns"] <= seen["stopped_ns"]
	assert not any("mtctl" in frame["file"] for line in seen["lines"] for frame in line["stack"])
	assert f"{tmp_path}/actor.py:{LEAK}".encode() in gzip.decompress((tmp_path / "lines.pb.gz").read_bytes())
	assert done.stderr.index("does not carry the shim") < done.stderr.index("times as long")
	assert left(one) == NOTHING_LEFT


def test_a_program_s_own_tracing_is_read_and_goes_on(actor, ctl):
	one = actor(PYTHONTRACEMALLOC="5")

	done = ctl("sites", one.pid, "--python", "--for=1", "--json")

	seen = fits("sites --python", done.stdout)
	assert seen["own_tracemalloc"] and any(line["line"] == LEAK and line["growth_bytes"] > 0 for line in seen["lines"])
	assert "it runs tracemalloc itself" in done.stderr and one.tell(TRACING) == "True"


def test_ctrl_c_ends_a_look_with_what_is_known(actor, mtctl, plain, spawn, wait_for):
	one = actor()
	watcher = spawn([mtctl, "sites", one.pid, "--python", "--for=60", "--json"], plain)
	wait_for(lambda: one.tell(TRACING) == "True", 20)

	watcher.send_signal(signal.SIGINT)

	assert fits("sites --python", watcher.communicate(timeout=30)[0])["ended_early"] == "on request"
	assert left(one) == NOTHING_LEFT


def test_tracing_ends_where_mtctl_is_killed(actor, mtctl, plain, spawn, wait_for):
	one = actor()
	watcher = spawn([mtctl, "sites", one.pid, "--python", "--for=60", "--json"], plain)
	wait_for(lambda: one.tell(TRACING) == "True", 20)

	watcher.kill()

	wait_for(lambda: left(one) == NOTHING_LEFT, 20)


def test_a_process_that_ends_during_a_look_is_said(actor, mtctl, plain, spawn, wait_for):
	one = actor()
	watcher = spawn([mtctl, "sites", one.pid, "--python", "--for=60"], plain, stderr=subprocess.PIPE)
	wait_for(lambda: one.tell(TRACING) == "True", 20)

	one.process.kill()
	one.process.wait()

	_, said = watcher.communicate(timeout=30)
	assert watcher.returncode == NO_PROCESS and said.endswith("the process has ended during the look\n"), said
	assert list(pathlib.Path("/tmp").glob(f"mtctl-{one.pid}-*")) == []


@pytest.mark.slow
def test_a_collection_ends_tracing_where_the_interpreter_is_killed_too(actor, mtctl, plain, spawn, wait_for):
	one = actor()
	watcher = spawn([mtctl, "sites", one.pid, "--python", "--for=1", "--json"], plain)
	wait_for(lambda: one.tell(TRACING) == "True", 20)

	helpers = subprocess.run(["pgrep", "-P", str(watcher.pid)], capture_output=True, text=True, check=True).stdout.split()
	for pid in [watcher.pid, *map(int, helpers)]:
		os.kill(pid, signal.SIGKILL)

	wait_for(lambda: one.tell("gc.collect() and None") is not None and one.tell(TRACING) == "False", 40)
	assert one.tell("gc.callbacks") == "[]"
	for folder in pathlib.Path("/tmp").glob(f"mtctl-{one.pid}-*"):
		shutil.rmtree(folder)  # nobody else is left to do it


# ---- where it cannot be done ----

def test_a_main_thread_that_waits_is_an_answer_and_no_harm(actor, ctl):
	one = actor()
	assert one.tell("print('waits', flush=True) or sys.stdin.readline().strip()") == "waits"

	for words in (["look", "--gc", one.pid], ["sites", one.pid, "--python", "--for=1"]):
		done = ctl(*words)
		assert done.returncode == NO_ANSWER and "has waited in a system call for 2 s" in done.stderr, done.stderr

	assert one.tell("is back") == "is back"
	assert left(one) == NOTHING_LEFT


@pytest.mark.parametrize("words, environment, reason", [([], {"PYTHON_DISABLE_REMOTE_DEBUG": "1"}, "PYTHON_DISABLE_REMOTE_DEBUG"),
                                                       (["-X", "disable-remote-debug"], {}, "not enabled in the remote process")])
def test_a_program_that_forbids_it_is_left_alone_and_the_reason_is_said(actor, ctl, words, environment, reason):
	one = actor(*words, **environment)

	for asked in (["look", "--gc", one.pid], ["sites", one.pid, "--python", "--for=1"]):
		done = ctl(*asked)
		assert (done.returncode, done.stdout) == (NOT_SHIMMED, "") and reason in done.stderr, done.stderr
	assert left(one) == NOTHING_LEFT


def test_what_is_no_python_or_an_older_one_is_refused(ctl, spawn, plain, fake):
	old = next((path for path in (PYTHON, *pathlib.Path("/root/.pyenv/versions").glob("3.1[0-3].*/bin/python3"))
	            if subprocess.run([path, "-c", "import sys; sys.exit(sys.version_info >= (3, 14))"]).returncode == 0), None)
	programs = [(["/bin/sleep", "100"], "it runs no CPython")]
	if old:
		programs.append(([old, "-c", "print('ready', flush=True)\ninput()"], "is older than 3.14"))
	for command, reason in programs:
		process = spawn(command, plain, stdin=subprocess.PIPE)
		assert command[0] == "/bin/sleep" or process.stdout.readline() == "ready\n"
		for words in (["look", "--gc"], ["sites", "--python"]):
			done = ctl(*words, process.pid)
			assert (done.returncode, done.stdout) == (NOT_SHIMMED, "") and reason in done.stderr, done.stderr
	assert ctl("look", "--gc", fake()).returncode == USAGE


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can chroot")
def test_a_process_with_other_files_is_refused(ctl, python, plain, spawn):
	process = spawn(["unshare", "--mount", python, "-c", "print('ready', flush=True)\ninput()"], plain, stdin=subprocess.PIPE)
	assert process.stdout.readline() == "ready\n"

	done = ctl("sites", "--python", process.pid)

	assert done.returncode == NOT_SHIMMED and "it sees other files than mtctl" in done.stderr, done.stderr
