"""Python's own allocator, its environment, and its garbage collector, steered from outside."""
import json
import pathlib
import time

import pytest

from pressed import PYTHON, rss_kb

PYENV = pathlib.Path("/root/.pyenv/versions")


def python(version):
	found = sorted(map(str, PYENV.glob(f"{version}.*/bin/python3")))
	if not found:
		pytest.skip(f"no Python {version} in {PYENV}")
	return found[-1]


# pymalloc or malloc? The arenas of pymalloc are in what sys._debugmallocstats prints.
WHICH = r'''
import os, sys
sys.stdout.flush()
sys._debugmallocstats()
print("environ", os.environ.get("PYTHONMALLOC"), "dev", sys.flags.dev_mode)
'''


def uses_pymalloc(run, settings, *options):
	got = run([PYTHON, *options, "-c", WHICH], settings)
	assert got.returncode == 0, got.stderr
	return "arenas allocated total" in got.stderr, got.stdout.strip()


def test_bare_python_uses_pymalloc(run, bare):
	assert uses_pymalloc(run, bare) == (True, "environ None dev False")


def test_auto_moves_small_objects_into_jemalloc(run, env):
	assert uses_pymalloc(run, env(ALLOCATOR="jemalloc")) == (False, "environ None dev False")


def test_auto_leaves_pymalloc_over_libc(run, env):
	assert uses_pymalloc(run, env(ALLOCATOR="system")) == (True, "environ None dev False")


def test_off_leaves_pymalloc(run, env):
	assert uses_pymalloc(run, env(ALLOCATOR="jemalloc", PYTHON_MALLOC="off")) == (True, "environ None dev False")


def test_on_works_over_libc_too(run, env):
	assert uses_pymalloc(run, env(ALLOCATOR="system", PYTHON_MALLOC="on")) == (False, "environ None dev False")


def test_what_the_user_set_is_kept(run, env):
	settings = dict(env(ALLOCATOR="jemalloc"), PYTHONMALLOC="pymalloc")

	assert uses_pymalloc(run, settings) == (True, "environ pymalloc dev False")


def test_an_isolated_python_ignores_it(run, env):
	assert uses_pymalloc(run, env(ALLOCATOR="jemalloc"), "-I") == (True, "environ None dev False")


@pytest.mark.parametrize("how", ["option", "variable"])
def test_dev_mode_keeps_its_debug_hooks(run, env, bare, how):
	"""Dev mode checks every free: an overrun buffer must be told, with the shim as without."""
	script = ("import ctypes\n"
	          "api = ctypes.pythonapi\n"
	          "api.PyMem_Malloc.restype = ctypes.c_void_p\n"
	          "api.PyMem_Free.argtypes = [ctypes.c_void_p]\n"
	          "block = api.PyMem_Malloc(16)\n"
	          "ctypes.memset(block + 16, 1, 4)\n"
	          "api.PyMem_Free(block)\n")
	options = ["-X", "dev"] if how == "option" else []
	more = {"PYTHONDEVMODE": "1"} if how == "variable" else {}

	expected = run([PYTHON, *options, "-c", script], dict(bare, **more))
	got = run([PYTHON, *options, "-c", script], dict(env(ALLOCATOR="jemalloc"), **more))

	assert "bytes written past the end" in expected.stderr or "at tail" in expected.stderr
	assert got.returncode == expected.returncode
	assert "at tail" in got.stderr or "bytes written past the end" in got.stderr


@pytest.mark.parametrize("before", [True, False], ids=["shim first", "shim last"])
def test_hooks_of_a_preloaded_library_stay(run, env, compile_c, before):
	"""As Scalene's, which ended in SIGSEGV."""
	hooks = str(compile_c("python_hooks.c", "-shared", "-fPIC"))
	settings = env(ALLOCATOR="jemalloc", LOG_LEVEL="info")
	libraries = [settings["LD_PRELOAD"], hooks]
	settings["LD_PRELOAD"] = ":".join(libraries if before else reversed(libraries))
	script = ("import ctypes\n"
	          "rows = [{'row': [number]} for number in range(20_000)]\n"
	          "print(ctypes.CDLL(None).hooks_are_there())\n")

	got = run([PYTHON, "-c", script], settings)

	assert (got.returncode, got.stdout) == (0, "1\n"), got.stderr
	assert got.stderr.count("the program or a library has its own functions in Python's allocators") == 1


MEMRAY = {
	"memray run": ["{folder}/bin/memray", "run"],
	"python3 -m memray": ["-m", "memray", "run"],
	"python3 -X utf8 -um memray": ["-X", "utf8", "-um", "memray"],
	"pytest --memray": ["{folder}/pytest", "tests", "--memray"],
}
NOT_MEMRAY = {
	"a script with that argument": ["{folder}/pytest", "memray"],
	"code with that argument": ["-c", WHICH, "memray"],
}


@pytest.mark.parametrize("how", [*MEMRAY, *NOT_MEMRAY])
def test_memray_is_left_pymalloc(run, env, tmp_path, how):
	"""It hooks nothing before Python has started, and recorded each object: 1,503,682 allocations instead of 262."""
	for path in ("bin/memray", "memray/__main__.py", "pytest"):
		(tmp_path / path).parent.mkdir(exist_ok=True)
		(tmp_path / path).write_text(WHICH)
	settings = {**env(ALLOCATOR="jemalloc", LOG_LEVEL="info"), "PYTHONPATH": str(tmp_path)}
	words = [word.replace("{folder}", str(tmp_path)) for word in {**MEMRAY, **NOT_MEMRAY}[how]]

	got = run([PYTHON, *words], settings)

	assert got.returncode == 0, got.stderr
	assert ("arenas allocated total" in got.stderr) == (how in MEMRAY)
	assert got.stderr.count("memray records allocations") == (how in MEMRAY)


def test_children_without_the_shim_are_untouched(run, env):
	script = ("import os, subprocess, sys\n"
	          "environment = {k: v for k, v in os.environ.items() if k != 'LD_PRELOAD'}\n"
	          "child = subprocess.run([sys.executable, '-c', 'import sys; sys._debugmallocstats()'],\n"
	          "                       env=environment, capture_output=True, text=True)\n"
	          "print('PYTHONMALLOC' in environment, 'arenas allocated total' in child.stderr)\n")

	got = run([PYTHON, "-c", script], env(ALLOCATOR="jemalloc"))

	assert got.stdout == "False True\n", got.stderr


def test_getenv_answers_the_rest_as_libc_does(run, env):
	script = ("import ctypes, os\n"
	          "lib = ctypes.CDLL(None)\n"
	          "lib.getenv.restype = ctypes.c_char_p\n"
	          "lib.setenv(b'MY_OWN', b'set later', 1)\n"
	          "print(lib.getenv(b'MY_OWN'), lib.getenv(b'HOME_OF_NOBODY'), lib.getenv(b'PYTHONMALLOCS'),\n"
	          "      lib.getenv(b'PYTHONMALLO'), lib.getenv(b''))\n")

	got = run([PYTHON, "-c", script], env(ALLOCATOR="jemalloc"))

	assert got.stdout == "b'set later' None None None None\n", got.stderr


def test_a_program_that_is_no_python_gets_no_answer(run, env):
	got = run(["perl", "-e", "print $ENV{PYTHONMALLOC} // 'unset'"], env(ALLOCATOR="jemalloc", PYTHON_MALLOC="on"))

	assert got.stdout == "unset"


# ---- the garbage collector ----

# Cycles that only a collection frees, counted by finalizers; then waits, a line of stdin at a time.
CYCLES = r'''
import gc, sys
dead = 0
class Node:
    def __init__(self):
        self.me = self
        self.load = bytearray(1000)
    def __del__(self):
        global dead
        dead += 1
gc.collect()
gc.freeze()
{prepare}
for _ in range(500):
    Node()
print("ready", flush=True)
for line in sys.stdin:
    exec(line)
    print(dead, flush=True)
'''


class Cycles:
	def __init__(self, process):
		self.process = process
		self.pid = process.pid
		assert process.stdout.readline() == "ready\n", process.stderr.read()

	def tell(self, line):
		self.process.stdin.write(line + "\n")
		self.process.stdin.flush()
		return int(self.process.stdout.readline())

	def keep_busy(self, seconds):
		"""Sends it short naps, so that it comes by its bytecodes often, and does not wait for them."""
		self.naps = int(seconds * 100) + 1
		self.process.stdin.write("import time\n" + "time.sleep(0.01)\n" * (self.naps - 1))
		self.process.stdin.flush()

	def wait_until_idle(self):
		for _ in range(self.naps):
			self.process.stdout.readline()


@pytest.fixture
def cycles(spawn, awake):
	def start(settings, prepare="gc.set_threshold(100000)"):
		one = Cycles(spawn([PYTHON, "-c", CYCLES.replace("{prepare}", prepare)], settings))
		awake(one.pid, settings)
		return one
	return start


def last_record(stats, pid, settings, reason):
	found = [record for record in stats(pid, settings)["records"] if record["reason"] == reason]
	return found[-1] if found else None


def poll(actor, wait_for, expected):
	"""Pending calls run between bytecodes of the main thread: it has to be running some."""
	return wait_for(lambda: actor.tell("pass") >= expected, 10)


@pytest.mark.parametrize("backend_name", ["jemalloc", "system"])
def test_a_light_trim_collects(cycles, env, control, stats, wait_for, backend_name):
	settings = env(MIN_MB=0, ALLOCATOR=backend_name)
	actor = cycles(settings)
	assert actor.tell("pass") == 0
	actor.keep_busy(3)

	done = control(settings, "trim", actor.pid, "--light")

	assert done.returncode in (0, 1), done.stdout + done.stderr
	actor.wait_until_idle()
	assert poll(actor, wait_for, 500)
	seen = stats(actor.pid, settings)
	assert seen["gc_count"] == 1 and seen["gc_collected_count"] >= 500
	assert last_record(stats, actor.pid, settings, "request")["gc_state"] == "done"


def test_a_light_trim_returns_what_the_collection_has_freed(cycles, env, control):
	"""The heap is purged before the collection and after it, and nothing else purges here."""
	settings = env(MIN_MB=0, BUDGET_PCT=0, SETTLE_MS=3_600_000)
	actor = cycles(settings)
	actor.tell("for i in range(100): Node().load = bytearray(b'x' * (1 << 20))")
	before = rss_kb(actor.pid)
	actor.keep_busy(3)

	control(settings, "trim", actor.pid, "--light")

	actor.wait_until_idle()
	assert before > 100_000
	assert rss_kb(actor.pid) < before - 80_000


@pytest.mark.parametrize("off", ["gc.disable()", "gc.set_threshold(0)", "gc.set_threshold(0, 10, 10)"])
def test_a_collector_that_the_program_has_switched_off_is_respected(cycles, env, control, stats, off):
	settings = env(MIN_MB=0)
	actor = cycles(settings, off)
	actor.keep_busy(3)

	control(settings, "trim", actor.pid)

	actor.wait_until_idle()
	assert actor.tell("pass") == 0
	assert last_record(stats, actor.pid, settings, "request")["gc_state"] == "disabled"
	assert stats(actor.pid, settings)["gc_count"] == 0


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.12", "3.13", "3.14"])
def test_a_first_threshold_of_zero_is_respected_by_each_python(run, env, version):
	"""mt_trim by the program itself: a cleanup that collects."""
	script = ("import ctypes, gc, sys\n"
	          "collected = []\n"
	          "trim = ctypes.PyDLL(None).mt_cleanup_memory\n"
	          "gc.callbacks.append(lambda phase, info: collected.append(phase))\n"
	          "def after(*thresholds):\n"
	          "    gc.set_threshold(*thresholds)\n"
	          "    collected.clear()\n"
	          "    trim(1)\n"
	          "    return 'stop' in collected\n"
	          "print(after(0), after(700), after(0, 5, 5), after(1, 0, 0), after(1 << 30))\n")

	got = run([python(version), "-c", script], env(MIN_MB=0), timeout=30)

	assert (got.returncode, got.stdout) == (0, "False True False True True\n"), got.stderr


def test_a_main_thread_in_a_system_call_is_named_at_once_and_the_heap_still_trimmed(cycles, env, control, stats, wait_for):
	settings = env(MIN_MB=0, SLACK_MB=100000, SETTLE_MS=3600000)
	actor = cycles(settings)
	actor.tell("held = [bytes(5000) for _ in range(10000)]")
	actor.tell("del held")
	# PyDLL keeps the interpreter's lock: no bytecode runs, so no pending call does.
	actor.process.stdin.write("import ctypes; print('off', flush=True); ctypes.PyDLL(None).usleep(4500000)\n")
	actor.process.stdin.flush()
	assert actor.process.stdout.readline() == "off\n"
	time.sleep(0.2)

	began = time.monotonic()
	done = control(settings, "trim", actor.pid, timeout=30)
	done_s = time.monotonic() - began

	assert done.returncode in (0, 1), done.stdout + done.stderr
	assert "the main thread is in a system call" in done.stdout
	record = last_record(stats, actor.pid, settings, "request")
	assert record["gc_state"] == "blocked" and done_s < 1
	assert record["rss_after_bytes"] < record["rss_before_bytes"] - 20_000_000
	assert stats(actor.pid, settings)["gc_late_count"] == 1
	actor.process.stdout.readline()
	# The collection is made up for, once the thread is back, and leaves a record of its own.
	assert poll(actor, wait_for, 500)
	wait_for(lambda: last_record(stats, actor.pid, settings, "late_gc"), 10)


def test_an_automatic_purge_runs_no_gc(cycles, env, stats, wait_for):
	settings = env(MIN_MB=0, SLACK_MB=1, SLACK_PCT=0, IDLE_MS=100, SETTLE_MS=1000)
	actor = cycles(settings)
	actor.tell("held = [bytes(5000) for _ in range(20000)]")
	actor.tell("del held")

	wait_for(lambda: stats(actor.pid, settings)["purge_count"] > 0, 15)

	assert actor.tell("pass") == 0
	assert stats(actor.pid, settings)["gc_count"] == 0


def test_a_python_that_ends_during_trims(run, env, bare):
	"""A pending call queued while Python shuts down must not hang or crash it."""
	script = ("import ctypes, threading\n"
	          "trim = ctypes.CDLL(None).mt_round\n"
	          "for _ in range(20):\n"
	          "    trim()\n"
	          "held = [bytearray(1000) for _ in range(10000)]\n"
	          "print('done')\n")
	for _ in range(10):
		got = run([PYTHON, "-c", script], env(MIN_MB=0, GC_ROUNDS=1, TICK_MS=10), timeout=30)
		assert (got.returncode, got.stdout) == (0, "done\n"), got.stderr


def test_stats_are_json_whatever_the_program_is_called(spawn, env, awake, tmp_path, control):
	"""The name of a program is hostile text."""
	settings = env(MIN_MB=0)
	odd = tmp_path / "a\"b\x1b[31m\n<é>"
	odd.symlink_to(PYTHON)
	process = spawn([str(odd), "-c", "import time; time.sleep(60)"], settings)
	awake(process.pid, settings)

	raw = control(settings, "stat", process.pid).stdout
	assert "\x1b" not in raw
	json.loads(control(settings, "stat", process.pid, "--json").stdout)
