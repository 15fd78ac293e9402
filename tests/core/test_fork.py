"""fork under a busy heap and a busy worker: nothing hangs, and the child is a process of its own."""
import glob
import re

import pytest

# A worker that looks every 10 ms and purges whatever it finds holds its locks as often as it can.
BUSY = {"MIN_MB": 0, "TICK_MS": 10, "IDLE_MS": 10, "SLACK_MB": 0, "SLACK_PCT": 0, "BUDGET_PCT": 100, "SETTLE_MS": 100}


@pytest.mark.slow
def test_a_hundred_forks_of_a_busy_process(run, env, compile_c, backend):
	got = run([compile_c("fork_storm.c"), 100], env(**BUSY), timeout=240)

	assert got.stdout == "100 of 100 children, 4 of 4 spawned\n", got.stderr
	assert got.returncode == 0


@pytest.mark.slow
def test_forks_of_a_sleeping_process(run, env, compile_c, backend):
	got = run([compile_c("fork_storm.c"), 100, 4], env(MIN_MB=100000), timeout=120)

	assert got.stdout == "100 of 100 children, 4 of 4 spawned\n", got.stderr


@pytest.mark.parametrize("allocator", ["auto", "system"])
@pytest.mark.parametrize("way", ["timer", "supervisor", "raw", "returns", "flags"])
def test_a_handler_may_fork_in_a_program_of_one_thread(run, env, compile_c, way, allocator):
	"""libc promises it where there is one thread, and the program has one: glibc's tst-mallocfork2, a supervisor's SIGCHLD handler."""
	got = run([compile_c("fork_in_handler.c"), way, 1], env(**BUSY, ALLOCATOR=allocator), timeout=60)

	assert got.returncode == 0 and got.stdout.endswith(" children, 0 failed\n"), got.stdout + got.stderr


@pytest.mark.parametrize("allocator", ["auto", "system"])
def test_a_fork_in_a_handler_does_not_wait_for_the_call_that_it_interrupts(run, env, compile_c, allocator):
	"""_Fork in a handler that interrupted the end of _Fork waited a second for the lock of its own thread."""
	got = run([compile_c("fork_in_handler.c"), "raw", 3], env(**BUSY, ALLOCATOR=allocator), timeout=60)

	longest, = re.findall(r"longest call: (\d+) ms", got.stderr)
	assert int(longest) < 900, got.stdout + got.stderr


@pytest.mark.parametrize("allocator", ["auto", "system"])
def test_fork_handlers_may_allocate_trim_fork_and_start_threads(run, env, compile_c, allocator):
	got = run([compile_c("busy_atfork.c"), 1], env(**BUSY, ALLOCATOR=allocator), timeout=60)

	assert got.returncode == 0 and re.fullmatch(r"\d+ forks, 0 failed\n", got.stdout), got.stdout + got.stderr


@pytest.mark.parametrize("allocator", ["auto", "system"])
def test_a_fork_beside_streams_that_allocate_passes(run, env, compile_c, allocator):
	"""libc takes its list of streams before the locks of malloc: glibc's tst-malloc-fork-deadlock."""
	got = run([compile_c("fork_beside_streams.c"), 2], env(MIN_MB=0, ALLOCATOR=allocator), timeout=60)

	assert got.returncode == 0, got.stdout + got.stderr


@pytest.mark.long
def test_ten_thousand_forks(run, env, compile_c, backend):
	got = run([compile_c("fork_storm.c"), 10000], env(**BUSY), timeout=3000)

	assert got.stdout == "10000 of 10000 children, 400 of 400 spawned\n", got.stderr


PURGE_AND_FORK = r'''
import ctypes, os, threading
shim = ctypes.CDLL(None)
shim.mt_trim.restype = ctypes.c_int64
def hoard(mib):
    held = [bytearray(4 << 20) for _ in range(mib // 4)]
    del held
def purge():
    for _ in range(8):
        hoard(200)
        shim.mt_trim(0)
worker = threading.Thread(target=purge)
worker.start()
children, kept = 0, 0
while worker.is_alive():
    child = os.fork()
    if child == 0:
        shim.mt_trim(0)
        hoard(64)
        os._exit(0 if shim.mt_trim(0) > 40 << 20 else 1)
    kept += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    children += 1
print("of", children, "children", kept, "could not purge")
'''


@pytest.mark.slow
def test_a_child_forked_during_a_purge_can_purge(run, env):
	"""jemalloc marks an arena while it purges it, without a lock that fork would wait for: the mark was for ever in the child."""
	got = run(["/usr/bin/python3", "-c", PURGE_AND_FORK], env(ALLOCATOR="jemalloc", BUDGET_PCT=0), timeout=300)

	assert re.fullmatch(r"of \d+ children 0 could not purge\n", got.stdout), got.stdout + got.stderr


GROW_IN_CHILD = r'''
import os, sys, time
def threads():
    return len(os.listdir("/proc/self/task"))
def grow():
    held = [b"x" * (100_000 + n) for n in range(600)]
    end = time.monotonic() + 10
    while threads() < 2 and time.monotonic() < end:
        bytearray(1_000_000)
        time.sleep(0.02)
    return held
first = grow()
print("parent", threads(), flush=True)
child = os.fork()
if child == 0:
    print("child at birth", threads(), flush=True)
    second = grow()
    files = [name for name in os.listdir(os.environ["MT_DIR"]) if name.startswith(f"{os.getpid()}-")]
    end = time.monotonic() + 10
    while len(files) < 2 and time.monotonic() < end:
        time.sleep(0.05)
        files = [name for name in os.listdir(os.environ["MT_DIR"]) if name.startswith(f"{os.getpid()}-")]
    print("child grown", threads(), "files", len(files), flush=True)
    os._exit(0)
_, status = os.waitpid(child, 0)
print("status", status, "parent", threads())
'''


def test_the_childs_worker_restarts_when_it_grows(run, env, backend):
	got = run(["/usr/bin/python3", "-c", GROW_IN_CHILD], env(), timeout=60)

	assert got.stdout.splitlines() == ["parent 2", "child at birth 1", "child grown 2 files 2", "status 0 parent 2"]
	assert got.returncode == 0, got.stderr


def test_the_parents_files_survive_a_childs_end(puppet, env, awake, stats, mt_dir, wait_for):
	settings = env(MIN_MB=0)
	actor = puppet(settings)
	actor.tell("alloc 1000 2000 2000")
	awake(actor.pid, settings)
	actor.tell("fork alloc 100 100 100")
	actor.process.stdout.readline()

	assert sorted(re.sub(r".*\.", "", file.name) for file in mt_dir.iterdir() if file.name.startswith(f"{actor.pid}-")) \
		== ["control", "stats"]
	assert stats(actor.pid, settings)["rss_bytes"] > 0


FORK_AND_ASK = r'''
import os, signal, time
end, children = time.monotonic() + 4, 0
while time.monotonic() < end:
    if children % 50 == 0:
        os.kill(os.getpid(), signal.SIGUSR1)
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    children += 1
    time.sleep(0.01)
print(children > 100)
'''


def test_a_library_behind_us_that_locks_in_sigaction_and_in_fork_hangs_nobody(run, env, compile_c, shim):
	"""The worker asked for the signal's handler with the lock held that every fork waits for."""
	behind = compile_c("sigaction_behind.c", "-shared", "-fPIC")

	got = run(["/usr/bin/python3", "-c", FORK_AND_ASK], dict(env(MIN_MB=0), LD_PRELOAD=f"{shim}:{behind}"), timeout=60)

	assert got.stdout == "True\n", got.stderr


def test_a_child_forked_while_the_worker_looks_at_the_loaded_objects_can_look_too(run, env, compile_c, shim, fakecuda):
	"""dl_iterate_phdr holds a lock of libc's that fork neither waits for nor makes again."""
	behind = compile_c("phdr_behind.c", "-shared", "-fPIC")
	settings = fakecuda(env(MIN_MB=0, TICK_MS=10, CUDA="pool", CUDA_DECAY_MS=300))
	settings["LD_PRELOAD"] = f"{shim}:{behind}"

	got = run([compile_c("cuda_fork_walks.c"), 60], settings, timeout=120)

	assert got.stdout == "60 of 60\n", got.stderr


@pytest.mark.parametrize("end", ["exit", "_exit"])
def test_a_forked_child_that_may_touch_no_file_ends_in_peace(run, env, compile_c, backend, end):
	"""It has no files of ours, and has been no other program that might have left some."""
	assert run([compile_c("sandboxed_child.c"), end], env()).stdout == "exit 7\n"


@pytest.mark.parametrize("call", ["_exit", "_Exit", "setrlimit", "prlimit", "unshare", "setgroups", "copy"])
@pytest.mark.parametrize("megabytes", [0, 40])
def test_a_child_without_thread_local_data_may_call_what_touches_none(run, env, bare, compile_c, call, megabytes):
	"""Chromium's sandbox makes one: it died of SIGSEGV in _exit, since getpid saved errno."""
	program = [compile_c("no_tls_child.c"), call, megabytes]

	assert run(program, bare).stdout == "exit 7\n"
	assert run(program, env()).stdout == "exit 7\n"


def test_a_thread_may_fork_before_it_has_ever_allocated(run, env, compile_c, backend):
	"""jemalloc came to know the thread in its fork handler, and we waited for a lock that fork had taken for us before."""
	got = run([compile_c("fork_first.c")], env(MIN_MB=0), timeout=60)

	assert got.stdout == "20 of 20\n", got.stderr


# ---- what a process that forks finds in itself: Python 3.12 and later warn of every thread ----

FORK_AND_COUNT = r'''
import ctypes, os, sys, threading, time
held = [bytearray(1000) for _ in range(60000)]
time.sleep(0.3)
if "thread" in sys.argv:
    threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
def count():
    stream = ctypes.c_void_p(libc.fopen(b"/proc/self/stat", b"r"))
    text = os.read(libc.fileno(stream), 1000)
    libc.fclose(stream)
    return int(text.split()[19])
theirs, ours = os.pipe()
# Not os.fork: Python 3.12 and later count the threads after it, so that they are the first to read the file.
if not ctypes.PyDLL(None).fork():
    os.write(ours, str(count()).encode())
    os._exit(0)
parent = count()
child = os.read(theirs, 10).decode()
print(f"parent {parent}, child {child}; kernel {open('/proc/self/stat').read().split()[19]}, later {count()}", flush=True)
os._exit(0)
'''


def test_our_threads_do_not_count_where_python_asks_after_its_fork(run, env, backend):
	counted = run(["/usr/bin/python3", "-c", FORK_AND_COUNT], env(), timeout=20)

	assert counted.stdout == "parent 1, child 1; kernel 2, later 2\n", counted.stderr


def test_a_thread_of_the_program_counts_after_its_fork(run, env):
	counted = run(["/usr/bin/python3", "-c", FORK_AND_COUNT, "thread"], env(), timeout=20)

	assert counted.stdout.startswith("parent 2, child 1;"), counted.stderr


def test_a_program_that_is_not_python_reads_the_kernels_own_count(run, env, compile_c):
	assert run([compile_c("thread_count.c")], env(), timeout=20).stdout == "parent 2, child 1; kernel 2, later 2\n"


def test_the_programs_stream_of_that_file_is_one_like_any_other(run, env):
	script = ("import ctypes, os, time; held = [bytearray(1000) for _ in range(60000)]; time.sleep(0.3)\n"
	          "libc = ctypes.CDLL(None); libc.fopen.restype = ctypes.c_void_p\n"
	          "def ask(flags):\n"
	          "\tif not (child := ctypes.PyDLL(None).fork()): os._exit(0)\n"
	          "\tos.waitpid(child, 0)\n"
	          "\twanted = os.dup(0); os.close(wanted)\n"
	          "\tstream = ctypes.c_void_p(libc.fopen(b'/proc/self/stat', flags))\n"
	          "\tfd = libc.fileno(stream)\n"
	          "\tprint(fd == wanted, os.get_inheritable(fd), os.read(fd, 1000).split()[0] == str(os.getpid()).encode(),\n"
	          "\t      os.pread(fd, 1000, 0).split()[19])\n"
	          "\tlibc.fclose(stream)\n"
	          "\treturn len(os.listdir('/proc/self/fd'))\n"
	          "print(ask(b'r') == ask(b're') == ask(b'r'))\n")
	got = run(["/usr/bin/python3", "-c", script], env(), timeout=20)

	assert got.stdout == ("True True True b'1'\nTrue False True b'1'\nTrue True True b'1'\nTrue\n"), got.stderr


LATE_PYTHONS = [path for version in ("3.12", "3.13", "3.14") for path in
                [*glob.glob(f"/usr/bin/python{version}"), *glob.glob(f"/root/.pyenv/versions/{version}.*/bin/python3")][:1]]

FORK_AND_WARN = r'''
import multiprocessing, os, subprocess, sys, threading, time
held = [bytearray(1000) for _ in range(60000)]
time.sleep(0.3)
if not (child := os.fork()):
    os._exit(0)
os.waitpid(child, 0)
one = multiprocessing.get_context("fork").Process(target=time.sleep, args=(0,))
one.start()
one.join()
subprocess.run(["true"], preexec_fn=os.getpid, check=True)
print("quiet so far", file=sys.stderr)
threading.Thread(target=time.sleep, args=(1,)).start()
if not (child := os.fork()):
    os._exit(0)
os.waitpid(child, 0)
'''


@pytest.mark.skipif(not LATE_PYTHONS, reason="no Python of 3.12 or later is installed")
@pytest.mark.parametrize("python", LATE_PYTHONS)
def test_python_warns_of_no_thread_but_the_programs(python, run, env, tmp_path, backend):
	script = tmp_path / "fork_and_warn.py"
	script.write_text(FORK_AND_WARN)
	got = run([python, "-W", "always", script], env(), timeout=30)
	quiet, warned = got.stderr.split("quiet so far\n")

	assert got.returncode == 0 and "multi-threaded" not in quiet
	assert "multi-threaded" in warned
