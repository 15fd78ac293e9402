"""Containers and their like: without /proc, /dev/shm, /tmp or /sys, in a user or pid namespace of their own."""
import re
import shutil
import subprocess
import tempfile

import pytest

BUSY = {"MIN_MB": 0, "TICK_MS": 10, "IDLE_MS": 10, "SLACK_MB": 0, "SLACK_PCT": 0, "BUDGET_PCT": 100}
WORK = ["/usr/bin/python3", "-c",
        "import os, signal, threading, time\n"
        "def work():\n"
        "    for _ in range(10):\n"
        "        held = [bytes(3000) for _ in range(3000)]\n"
        "        del held\n"
        "threads = [threading.Thread(target=work) for _ in range(2)]\n"
        "[thread.start() for thread in threads]\n"
        "[thread.join() for thread in threads]\n"
        "os.kill(os.getpid(), signal.SIGUSR1)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    work()\n"
        "    os._exit(7)\n"
        "time.sleep(0.5)\n"
        "print('well', os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"]

# Each is a command for the shell of a mount namespace of its own.
MISSING = {
	"proc": "mount -t tmpfs -o ro none /proc",
	"dev-shm": "mount -t tmpfs -o ro,mode=555 none /dev/shm",
	"dev": "mount -t tmpfs -o ro none /dev",
	"tmp": "mount -t tmpfs -o ro none /tmp",
	"sys": "mount -t tmpfs -o ro none /sys",
}
MISSING["everything"] = " && ".join(MISSING[name] for name in ("proc", "dev", "tmp", "sys"))


def without(what):
	if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
		pytest.skip("may not make a mount namespace here")
	return ["unshare", "-m", "--propagation", "private", "sh", "-c", MISSING[what] + ' && LD_PRELOAD=$SHIM exec "$@"', "sh"]


@pytest.fixture
def only_inside():
	"""only_inside(settings): the shim for the program alone, not for what builds its container. A copy of it: the container may
	lack the folder that this tree lies in."""
	with tempfile.TemporaryDirectory(prefix="mtshim-test-", dir="/var/tmp") as folder:
		def settings_of(settings):
			return dict(settings, LD_PRELOAD="", SHIM=shutil.copy(settings["LD_PRELOAD"], folder))
		yield settings_of


@pytest.mark.parametrize("what", MISSING)
def test_a_program_works_where_something_is_missing(run, env, backend, what, only_inside):
	"""With its files where they would be by default, and not where a test would like them."""
	settings = only_inside(env(**BUSY))
	del settings["MT_DIR"]

	got = run([*without(what), *WORK], settings, timeout=40)

	assert (got.returncode, got.stdout) == (0, "well 7\n"), got.stderr
	# The parent and the child may each say that they have no files.
	lines = got.stderr.splitlines()
	assert len(lines) <= 2 and all("running without stats file" in line for line in lines), got.stderr


def test_a_thread_works_on_after_main_left_where_there_is_no_proc(run, env, compile_c, backend, only_inside):
	"""Without /proc nobody can be counted: the process was ended under the thread's feet."""
	got = run([*without("proc"), compile_c("ends.c"), "blind"], only_inside(env(**BUSY)), timeout=30)

	assert (got.returncode, got.stdout) == (0, "worked to its end\n"), got.stderr


@pytest.mark.parametrize("flags", [["-U", "-r"], ["-U"]], ids=["mapped", "unmapped"])
def test_a_program_works_in_a_user_namespace(run, env, backend, flags):
	"""Unmapped, it is nobody, and owns nothing that it finds. Neither is given to a process of more than one thread: the
	worker, which unshare itself has here, is in the way."""
	if subprocess.run(["unshare", *flags, "true"], capture_output=True).returncode != 0:
		pytest.skip("may not make a user namespace here")

	got = run(["unshare", *flags, *WORK], env(**BUSY), timeout=40)

	assert (got.returncode, got.stdout) == (0, "well 7\n"), got.stderr
	assert len(got.stderr.splitlines()) <= 2, got.stderr


def test_the_worker_is_back_after_it_stepped_aside(run, env, backend):
	"""A program of a certain size that asks for a user namespace: it is given one, and has a worker again."""
	script = ("import ctypes, os, time\n"
	          "held = [bytes(2000) for _ in range(30000)]\n"
	          "threads = lambda: len(os.listdir('/proc/self/task'))\n"
	          "end = time.monotonic() + 10\n"
	          "while threads() < 2 and time.monotonic() < end: time.sleep(0.01)\n"
	          "before = threads()\n"
	          "print(before, ctypes.CDLL(None).unshare(0x10000000))\n"
	          "while threads() < 2 and time.monotonic() < end: time.sleep(0.01)\n"
	          "print(threads())\n")
	if subprocess.run(["unshare", "-U", "true"], capture_output=True).returncode != 0:
		pytest.skip("may not make a user namespace here")

	got = run(["/usr/bin/python3", "-c", script], env(), timeout=30)

	assert (got.returncode, got.stdout) == (0, "2 0\n2\n"), got.stderr


@pytest.mark.parametrize("flag, what", [(0x200, "cwd"), (0x20000, "ns/mnt"), (0x40000000, "ns/net")], ids=["directory", "mounts", "network"])
def test_the_worker_leaves_what_the_program_no_longer_shares(run, env, backend, flag, what):
	"""It stayed behind: the old directory could not be unmounted, the old namespace lived on."""
	script = ("import ctypes, os, sys, time\n"
	          "held = [bytes(2000) for _ in range(30000)]\n"
	          "threads = lambda: os.listdir('/proc/self/task')\n"
	          "end = time.monotonic() + 10\n"
	          "while len(threads()) < 2 and time.monotonic() < end: time.sleep(0.01)\n"
	          "print(len(threads()), ctypes.CDLL(None).unshare(int(sys.argv[1])))\n"
	          "os.chdir('/proc')\n"
	          "while len(threads()) < 2 and time.monotonic() < end: time.sleep(0.01)\n"
	          "print(len(threads()), len({os.readlink(f'/proc/self/task/{thread}/{sys.argv[2]}') for thread in threads()}))\n")
	if subprocess.run(["unshare", "-m", "-n", "true"], capture_output=True).returncode != 0:
		pytest.skip("may not make a namespace here")

	got = run(["/usr/bin/python3", "-c", script, flag, what], env(), timeout=30)

	assert (got.returncode, got.stdout) == (0, "2 0\n2 1\n"), got.stderr


@pytest.mark.parametrize("pause_s", [0.2, 0.01])
def test_a_program_that_unshares_again_and_again_gets_its_memory_back(run, env, pause_s):
	"""Each worker began its window again: 150 MB stayed for good."""
	script = ("import ctypes, re, sys, time\n"
	          "held = [bytearray(2000) for _ in range(75000)]\n"
	          "del held\n"
	          "end = time.monotonic() + 12\n"
	          "rss = lambda: int(re.search(r'VmRSS:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
	          "while rss() > 60_000 and time.monotonic() < end:\n"
	          "    assert ctypes.CDLL(None).unshare(0x200) == 0\n"
	          "    time.sleep(float(sys.argv[1]))\n"
	          "print(rss() < 60_000)\n")

	got = run(["/usr/bin/python3", "-c", script, pause_s], env(), timeout=40)

	assert (got.returncode, got.stdout) == (0, "True\n"), got.stderr


def test_ids_change_on_a_small_stack(run, env, backend, compile_c):
	"""The worker's rights were compared on the program's stack: 8.9 kB."""
	got = run([compile_c("ids_small_stack.c"), 2], env(), timeout=30)

	assert (got.returncode, got.stdout) == (0, "2\n"), got.stderr


def test_a_program_joins_a_time_namespace(run, env, backend):
	"""As nsenter -T does. Where there is a worker the kernel refuses it with another error than the other namespaces."""
	script = ("import ctypes, os, time\n"
	          "held = [bytes(2000) for _ in range(30000)]\n"
	          "threads = lambda: len(os.listdir('/proc/self/task'))\n"
	          "end = time.monotonic() + 10\n"
	          "while threads() < 2 and time.monotonic() < end: time.sleep(0.01)\n"
	          "libc = ctypes.CDLL(None, use_errno=True)\n"
	          "assert libc.unshare(0x80) == 0\n"
	          "namespace = os.open('/proc/self/ns/time_for_children', os.O_RDONLY)\n"
	          "print(threads(), libc.setns(namespace, 0x80), os.strerror(ctypes.get_errno()))\n")
	if subprocess.run(["unshare", "-T", "true"], capture_output=True).returncode != 0:
		pytest.skip("may not make a time namespace here")

	got = run(["/usr/bin/python3", "-c", script], env(), timeout=30)

	assert got.returncode == 0 and got.stdout.startswith("2 0 "), got.stdout + got.stderr


def test_a_worker_that_comes_back_goes_on_with_its_files(run, env, mt_dir, backend):
	"""It made them again: what it had recorded was lost, and with each time one more mapping stayed in the process."""
	script = ("import ctypes, os, signal, time\n"
	          "held = [bytes(2000) for _ in range(30000)]\n"
	          "folder = os.environ['MT_DIR']\n"
	          "files = lambda: sorted((name, os.stat(f'{folder}/{name}').st_ino) for name in os.listdir(folder))\n"
	          "comm = lambda thread: open(f'/proc/self/task/{thread}/comm').read()\n"
	          "ours = lambda: [thread for thread in os.listdir('/proc/self/task') if comm(thread) == 'mtshim\\n']\n"
	          "def wait_for(what):\n"
	          "    end = time.monotonic() + 20\n"
	          "    while not what() and time.monotonic() < end: time.sleep(0.01)\n"
	          "wait_for(lambda: len(files()) == 2)\n"
	          "was, thread = files(), ours()\n"
	          "for _ in range(5):\n"
	          "    wait_for(ours)\n"
	          "    assert ctypes.CDLL(None).unshare(1) == -1\n"
	          "wait_for(ours)\n"
	          "print(was == files(), thread != ours(), sum('.control' in line for line in open('/proc/self/maps')))\n")

	got = run(["/usr/bin/python3", "-c", script], env(**BUSY), timeout=60)

	assert (got.returncode, got.stdout) == (0, "True True 1\n"), got.stderr


def test_two_first_processes_do_not_share_their_files(spawn, env, mt_dir, wait_for):
	"""Both are pid 1, in pid namespaces of their own, with one MT_DIR: as two containers with one /dev/shm are."""
	if subprocess.run(["unshare", "-p", "-f", "--mount-proc", "true"], capture_output=True).returncode != 0:
		pytest.skip("may not make a pid namespace here")
	script = ("import sys, time\nheld = [bytes(3000) for _ in range(20000)]\nprint('here', flush=True)\nsys.stdin.read()\n"
	          "print('well', flush=True)\n")
	both = [spawn(["unshare", "-p", "-f", "--mount-proc", "/usr/bin/python3", "-c", script], env(MIN_MB=0)) for _ in range(2)]
	for process in both:
		assert process.stdout.readline() == "here\n"

	def files():
		return [file for file in mt_dir.iterdir() if file.name.startswith("1-")]

	wait_for(lambda: len(files()) == 4, 10, "two files of each")

	spaces = {re.fullmatch(r"1-\d+-(\d+)\.(?:stats|control)", file.name)[1] for file in files()}
	assert len(spaces) == 2
	both[0].stdin.close()
	assert both[0].stdout.readline() == "well\n" and both[0].wait(timeout=10) == 0
	wait_for(lambda: len(files()) == 2, 10, "those of the other")
	both[1].stdin.close()
	assert both[1].wait(timeout=10) == 0
	assert list(mt_dir.iterdir()) == []


def test_a_first_process_does_not_die_of_its_own_signal(run, env, backend):
	"""As pid 1 it survives what it means to die of, and goes on."""
	if subprocess.run(["unshare", "-p", "-f", "--mount-proc", "true"], capture_output=True).returncode != 0:
		pytest.skip("may not make a pid namespace here")
	script = ("import os, signal\nsignal.signal(signal.SIGUSR1, signal.SIG_DFL)\nsignal.raise_signal(signal.SIGUSR1)\n"
	          "held = [bytes(3000) for _ in range(20000)]\nprint('well')\n")

	got = run(["unshare", "-p", "-f", "--mount-proc", "/usr/bin/python3", "-c", script], env(**BUSY), timeout=30)

	assert (got.returncode, got.stdout, got.stderr) == (0, "well\n", "")
