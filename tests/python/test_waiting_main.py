"""Collections in programs whose main thread waits for ever, while threads do the work: as boto3's pool and most WSGI servers."""
import os
import pathlib
import re
import time

import pytest

from places import helper
from test_python import python

PROGRAM = helper("waiting_main.py")
PYTHON = "/usr/bin/python3"
WAYS = ["join", "sleep", "pause", "lock", "select"]
GARBAGE = 24_000
GARBAGE_BYTES = 40_000_000
VERSIONS = ["system", "3.9", "3.10", "3.12", "3.13", "3.14"]
# A call that keeps the GIL all the time.
HOLD = "__import__('ctypes').PyDLL(None).usleep({})"


def rss(pid):
	return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def interpreter(version):
	return PYTHON if version == "system" else python(version)


class Server:
	def __init__(self, process):
		self.process = process
		self.pid = process.pid
		assert process.stdout.readline() == "ready\n", process.stderr.read()

	def seen(self):
		"""How many finalizers have run, and whether one ran on the main thread."""
		self.process.stdin.write("\n")
		self.process.stdin.flush()
		dead, on_main = self.process.stdout.readline().split()
		return int(dead), on_main == "True"


@pytest.fixture
def server(spawn, awake):
	def start(settings, way, prepare="", version="system"):
		one = Server(spawn([interpreter(version), PROGRAM, way, prepare], settings))
		awake(one.pid, settings)
		return one
	return start


@pytest.mark.parametrize("way", WAYS)
def test_a_trim_frees_what_a_pool_has_left(server, env, control, wait_for, way, backend):
	settings = env(MIN_MB=0)
	one = server(settings, way)
	before = rss(one.pid)

	control(settings, "trim", one.pid)

	wait_for(lambda: rss(one.pid) < before - GARBAGE_BYTES, 15)
	assert one.seen()[0] == GARBAGE


@pytest.mark.parametrize("version", VERSIONS)
def test_a_trim_of_a_server_at_rest_answers_with_what_it_has_freed(server, env, control, version):
	settings = env(MIN_MB=0)
	one = server(settings, "pause", version=version)
	before = rss(one.pid)
	time.sleep(4)

	done = control(settings, "trim", one.pid)

	assert "gc collected" in done.stdout, done.stdout + done.stderr
	assert rss(one.pid) < before - GARBAGE_BYTES
	assert control(settings, "trim", one.pid).stdout.count("gc collected 0 objects") == 1


def test_a_main_thread_that_comes_back_collects_itself(server, env, control, wait_for):
	settings = env(MIN_MB=0)
	one = server(settings, "naps")

	for _ in range(3):
		control(settings, "trim", one.pid)

	wait_for(lambda: one.seen() == (GARBAGE, True), 15)


def test_finalizers_close_the_files_of_the_program(server, env, control, wait_for):
	settings = env(MIN_MB=0)
	one = server(settings, "lock", "for _ in range(100): Node(open('/dev/null'))")
	folder = pathlib.Path(f"/proc/{one.pid}/fd")
	assert len(list(folder.iterdir())) > 100

	control(settings, "trim", one.pid)

	wait_for(lambda: len(list(folder.iterdir())) < 20, 15)
	one.process.kill()
	assert "Bad file descriptor" not in one.process.stderr.read()


@pytest.mark.parametrize("off", ["gc.disable()", "gc.set_threshold(0)"])
def test_a_disabled_collector_stays_disabled(server, env, control, stats, wait_for, off):
	settings = env(MIN_MB=0)
	one = server(settings, "lock", off)

	control(settings, "trim", one.pid)

	wait_for(lambda: any(record["gc_state"] == "disabled" for record in stats(one.pid, settings)["records"]), 15)
	assert one.seen()[0] == 0


@pytest.mark.parametrize("version, how", [*((version, "") for version in VERSIONS), ("system", "; os._exit(0)"), ("system", "; raise SystemExit(0)")],
                         ids=[*VERSIONS, "_exit", "SystemExit"])
def test_a_program_may_end_while_the_thread_waits_for_the_interpreter(server, env, control, version, how):
	settings = env(MIN_MB=0)
	one = server(settings, HOLD.format(3_500_000) + how, "import os", version)

	control(settings, "trim", one.pid)

	out, err = one.process.communicate(timeout=30)
	assert (one.process.returncode, err) == (0, "")
	assert out == ("" if how else "done\n")


def test_the_worker_goes_on_while_a_thread_holds_the_interpreter(server, env, control, wait_for):
	settings = env(MIN_MB=0)
	one = server(settings, "lock", f"threading.Timer(1, lambda: {HOLD.format(7_000_000)}).start()")
	time.sleep(1.5)
	control(settings, "trim", one.pid)
	time.sleep(2)  # from now on a thread of ours waits, too

	began = time.monotonic()
	done = control(settings, "set", one.pid, "MT_SLACK_MB=17")

	assert done.returncode == 0 and time.monotonic() - began < 3, done.stdout + done.stderr
	wait_for(lambda: one.seen() == (GARBAGE, False), 20)


FORKS = r"""
import os
def fork(number):
    for _ in range(15):
        pid = os.fork()
        if pid == 0:
            gc.collect()
            os._exit(0 if threading.active_count() == 1 else 1)
        assert os.waitpid(pid, 0)[1] == 0
        time.sleep(0.1)
    Node.forked = number
threading.Timer(1, fork, [15]).start()
"""


def test_forks_beside_it_leave_whole_children(server, env, control, wait_for):
	settings = env(MIN_MB=0)
	one = server(settings, "while not hasattr(Node, 'forked'): threading.Event().wait(2.5)", FORKS)

	for _ in range(8):
		control(settings, "trim", one.pid)
		time.sleep(0.3)

	out, err = one.process.communicate("", timeout=60)
	assert (one.process.returncode, err) == (0, "") and out.endswith("done\n")


@pytest.mark.parametrize("flag", [0x10000000, 0x00020000], ids=["user", "mount"])
def test_a_namespace_that_takes_one_thread_is_still_made(run, env, bare, flag):
	script = ("import ctypes\n"
	          "libc = ctypes.CDLL(None)\n"
	          "held = [bytes(1000) for _ in range(40_000)]\n"
	          f"print(libc.unshare({flag}), len(held))\n")
	expected = run([PYTHON, "-c", script], bare)

	got = run([PYTHON, "-c", script], env(MIN_MB=0))

	assert (got.stdout, got.stderr) == (expected.stdout, "")


def threads_of_ours(pid):
	names = [path.read_text().strip() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/comm")]
	return sorted(name for name in names if name.startswith("mtshim"))


def test_a_program_of_one_thread_gets_no_second_one_of_ours(spawn, env, awake):
	settings = env(MIN_MB=0)
	process = spawn([PYTHON, "-c", "held = [bytearray(2000) for _ in range(20_000)]\nprint('ready', flush=True)\ninput()"], settings)
	assert process.stdout.readline() == "ready\n"
	awake(process.pid, settings)

	assert threads_of_ours(process.pid) == ["mtshim"]


def test_the_thread_that_sleeps_is_one_and_goes_with_the_process(server, env):
	one = server(env(MIN_MB=0), "input")

	assert threads_of_ours(one.pid) == ["mtshim", "mtshim-gc"]
	out, err = one.process.communicate("", timeout=30)
	assert (one.process.returncode, out, err) == (0, "done\n", "")


def test_diagnose_says_how_much_may_be_garbage_where_gc_cannot_run(server, env, control):
	settings = env(MIN_MB=0)
	one = server(settings, "lock", f"threading.Timer(1, lambda: {HOLD.format(12_000_000)}).start()")

	done = control(settings, "diagnose", one.pid, "--for", "4s", "--gc")

	# in the headline, or among the evidence where a busy machine has the memory grow within the look
	told = r"up to [0-9.]+ MB may be garbage: gc could not run|may be garbage +up to [0-9.]+ MB; gc could not run"
	assert re.search(told, done.stdout), done.stdout + done.stderr
