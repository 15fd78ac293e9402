"""Fixtures of all tests; conftest.py imports them: the built shim, environments with it, helpers in C, and processes.

Each process that a test starts leads its own session. It is killed with all its children when the test ends, or when its time is over:
a hang is a failure with output, never a ring that does not end.
"""
import fcntl
import functools
import gc
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

import leftovers
from places import BUILT, LIB, ROOT, helper
from public import public, public_folder  # noqa: F401 (fixtures)

# The code of the tests is compiled once for all processes of pytest. The tree has none of it, and programs under test have no cache there.
sys.pycache_prefix, sys.dont_write_bytecode = str(BUILT / "pycache"), False

# Variables of other tools that the shim reads, or that change the programs under test.
# pytest imports readline, and a new one sets COLUMNS and LINES for every child.
FOREIGN = ("COLUMNS", "LINES", "LD_PRELOAD", "MALLOC_CONF", "MALLOC_ARENA_MAX", "PYTHONMALLOC", "PYTHONDEVMODE", "WORLD_SIZE",
           "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
           "NVFLARE_CLIENT_MEMORY_GC_ROUNDS", "NVFLARE_CLIENT_MEMORY_PROFILE", "NVFLARE_CUDA_EMPTY_CACHE")


# Thousands of tests are collected in each process, and stay: Python's gc would look at all of them again and again.
gc.disable()


def pytest_collection_finish():
	gc.freeze()
	gc.enable()


def pytest_sessionstart(session):
	if not hasattr(session.config, "workerinput"):
		leftovers.sweep()


def _built(path, what):
	if not path.exists():
		pytest.fail(f"{path} is not there: build {what} first (make)", pytrace=False)
	return path


@pytest.fixture(scope="session")
def shim():
	"""libmtshim.so. MTSHIM_LIBRARY names another one, for example an installed or an instrumented one."""
	return _built(pathlib.Path(os.environ.get("MTSHIM_LIBRARY", ROOT / "build" / "libmtshim.so")).resolve(), "the shim")


@pytest.fixture(scope="session")
def mtctl():
	return _built(pathlib.Path(os.environ.get("MTSHIM_MTCTL", ROOT / "build" / "mtctl")).resolve(), "mtctl")


@pytest.fixture(scope="session")
def bare(tmp_path_factory):
	"""An environment without the shim and without any setting of it. The user's state folder is one of the tests."""
	kept = {name: value for name, value in os.environ.items()
	        if not name.startswith("MT_") and not name.startswith("MTSHIM_") and name not in FOREIGN}
	return dict(kept, XDG_STATE_HOME=str(tmp_path_factory.mktemp("state")))


@pytest.fixture
def mt_dir():
	"""A private MT_DIR, in memory as the default one is."""
	base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
	path = pathlib.Path(tempfile.mkdtemp(prefix=leftovers.prefix(), dir=base))
	yield path
	shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(params=["jemalloc", "system"])
def backend(request):
	"""Runs the test once for each backend; env() then sets MT_ALLOCATOR."""
	return request.param


@pytest.fixture
def env(request, shim, bare, mt_dir):
	"""env(MIN_MB=0, ...): an environment with the shim loaded and MT_MIN_MB=0 set."""
	def make(**settings):
		result = dict(bare, LD_PRELOAD=str(shim), MT_DIR=str(mt_dir))
		if "backend" in request.fixturenames:
			result["MT_ALLOCATOR"] = request.getfixturevalue("backend")
		for name, value in settings.items():
			result[name if name.startswith("MT_") else "MT_" + name] = str(value)
		return result
	return make


@pytest.fixture
def fakecuda():
	"""fakecuda(env, version=None, **settings): env with the stand-in for libcuda.so.1 where the loader finds it; version
	is a directory of build/tests/fakecuda, the newest without; settings are its own (MEMORY_MB=64, ...)."""
	def make(env, version=None, **settings):
		path = BUILT / "fakecuda" / (version or "")
		_built(path / "libcuda.so.1", "the stand-in for libcuda")
		result = dict(env, LD_LIBRARY_PATH=str(path))
		for name, value in settings.items():
			result["FAKECUDA_" + name] = str(value)
		return result
	return make


@pytest.fixture(scope="session")
def compile_c():
	"""compile_c(name, *flags): compiles a helper (C, or C++ by its name) of any folder of tests/ into build/tests, again only
	when it, another file among the flags, a header beside it, in tests/lib or in tests/fakecuda, or the flags have changed.
	Of tests that run at once one compiles, and the others wait for it. A process of pytest looks once whether it has changed. Returns the program."""
	@functools.cache
	def compile_one(path, *flags):
		source = helper(path)
		is_cxx = source.suffix in (".cc", ".cpp", ".cxx")
		command = ["g++", "-std=c++17"] if is_cxx else ["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror"]
		# A compiler that knows malloc may remove the calls that are tested.
		command += ["-O1", "-g", "-D_GNU_SOURCE", "-pthread", "-fno-builtin", f"-I{ROOT / 'shim'}", f"-I{LIB}"]
		key = hashlib.sha256("\0".join([*command, *map(str, flags)]).encode()).hexdigest()[:8]
		target = BUILT / f"{source.stem}-{key}"
		headers = (header for folder in (source.parent, LIB, ROOT / "tests" / "fakecuda") for header in folder.glob("*.[hd]*"))
		written = max(file.stat().st_mtime for file in (source, *headers, *filter(pathlib.Path.is_file, map(pathlib.Path, flags))))
		with open(source) as lock:
			fcntl.flock(lock, fcntl.LOCK_EX)
			if target.exists() and target.stat().st_mtime > written:
				return target
			BUILT.mkdir(parents=True, exist_ok=True)
			fresh = target.with_name(f"{target.name}.{os.getpid()}")
			done = subprocess.run([*command, "-o", fresh, source, *flags], capture_output=True, text=True)
			if done.returncode != 0:
				pytest.fail(f"{source.name} does not compile:\n{done.stderr}", pytrace=False)
			fresh.rename(target)
		return target
	return compile_one


def _kill_session(process):
	try:
		os.killpg(process.pid, signal.SIGKILL)
	except ProcessLookupError:
		pass


def _cut(text, most=4000):
	return text if len(text) <= most else text[:most // 2] + "\n[...]\n" + text[-most // 2:]


@pytest.fixture
def run():
	"""run(cmd, env, timeout): runs to the end and returns a CompletedProcess with text. A run that takes longer fails."""
	def run_one(cmd, env=None, timeout=180, **options):
		feed = options.pop("input", None)
		process = subprocess.Popen([str(word) for word in cmd], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
		                           stdin=subprocess.PIPE if feed is not None else subprocess.DEVNULL,
		                           start_new_session=True, text=True, errors="replace", **options)
		try:
			out, err = process.communicate(feed, timeout=timeout)
		except subprocess.TimeoutExpired:
			_kill_session(process)
			out, err = process.communicate()
			pytest.fail(f"{cmd[0]} was not done after {timeout} s\nstdout: {_cut(out)}\nstderr: {_cut(err)}")
		finally:
			_kill_session(process)
		return subprocess.CompletedProcess(cmd, process.returncode, out, err)
	return run_one


@pytest.fixture
def spawn():
	"""spawn(cmd, env, **Popen options): a process with pipes, killed with its children when the test ends."""
	started = []

	def spawn_one(cmd, env=None, **options):
		options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True,
		           "bufsize": 1, **options}
		process = subprocess.Popen([str(word) for word in cmd], env=env, start_new_session=True, **options)
		started.append(process)
		return process

	yield spawn_one
	for process in started:
		_kill_session(process)
		process.wait()
		for pipe in (process.stdin, process.stdout, process.stderr):
			if pipe is not None:
				try:
					pipe.close()
				except BrokenPipeError:
					pass


@pytest.fixture
def wait_for():
	"""wait_for(predicate, timeout): returns the first true value of predicate; fails after timeout seconds. Most predicates start mtctl:
	on a busy machine they are tried less often, so that many tests that wait do not keep the processors busy."""
	def wait(predicate, timeout=30, what=None):
		end = time.monotonic() + timeout
		while True:
			begin = time.monotonic()
			answer = predicate()
			if answer:
				return answer
			now = time.monotonic()
			if now > end:
				pytest.fail(f"not within {timeout} s: {what or predicate}")
			time.sleep(min(max(0.05, 4 * (now - begin)), 0.25))
	return wait


@pytest.fixture
def control(mtctl):
	"""control(env, *words): mtctl itself, never under the shim, with the MT_DIR of env."""
	def control_one(env, *words, timeout=120):
		plain = {name: value for name, value in env.items() if name != "LD_PRELOAD"}
		return subprocess.run([str(mtctl), *map(str, words)], env=plain, capture_output=True, text=True,
		                      timeout=timeout, errors="replace")
	return control_one


@pytest.fixture
def stats(control):
	"""stats(pid, env): what `mtctl stat PID --json` says, as a dictionary."""
	def stats_of(pid, env):
		done = control(env, "stat", pid, "--json")
		assert done.returncode == 0, f"mtctl stat {pid}: exit {done.returncode}\n{done.stdout}{done.stderr}"
		return json.loads(done.stdout)
	return stats_of


@pytest.fixture
def ticks(stats, wait_for):
	"""ticks(pid, env, count): waits until the worker thread has looked that many times more, which says more than time does: from
	50 ms on it waits a quarter longer each time, while nothing moves."""
	def wait(pid, env, count=8):
		begin = stats(pid, env)["ticks_count"]
		wait_for(lambda: stats(pid, env)["ticks_count"] >= begin + count, 60, f"{count} ticks")
	return wait


class Puppet:
	"""A C program (puppet.c) that runs commands from stdin, one a line."""

	def __init__(self, process):
		self.process = process
		self.pid = process.pid

	def tell(self, line):
		"""Sends one command and returns its result line. Fails with the program's stderr if it has ended."""
		try:
			self.process.stdin.write(line + "\n")
			self.process.stdin.flush()
		except BrokenPipeError:
			pass
		answer = self.process.stdout.readline()
		if not answer:
			status = self.process.wait(timeout=10)
			pytest.fail(f"the program died at {line!r}: status {status}\n{self.process.stderr.read()}")
		return answer.rstrip("\n")

	def number(self, line):
		return int(self.tell(line))

	def end(self):
		"""Closes its stdin, and returns its exit status and its stderr."""
		self.process.stdin.close()
		status = self.process.wait(timeout=30)
		return status, self.process.stderr.read()


@pytest.fixture
def steer(spawn):
	"""steer(cmd, env): any program that prints one line for each line of stdin; .env is its environment."""
	def start(cmd, env, **options):
		one = Puppet(spawn(cmd, env, **options))
		one.env = env
		return one
	return start


@pytest.fixture
def puppet(spawn, compile_c):
	def start(env, *flags, wrapper=(), **options):
		one = Puppet(spawn([*wrapper, compile_c("puppet.c", *flags)], env, **options))
		assert one.tell("hello") == "hello"
		# Its first malloc: with MIN_MB=0 the worker starts here.
		assert one.tell("alloc 1 100 100") == "1" and one.tell("keep 0") == "0"
		return one
	return start


@pytest.fixture
def awake(stats, wait_for, control):
	"""awake(pid, env): waits until the process is awake and has published; returns its first figures."""
	def wait(pid, env, timeout=60):
		def look():
			done = control(env, "stat", pid, "--json")
			try:
				return json.loads(done.stdout) if done.returncode == 0 else None
			except json.JSONDecodeError:
				return None
		def rss_known():
			seen = look()
			return seen if seen and seen.get("rss_bytes") else None
		return wait_for(rss_known, timeout, f"figures of process {pid}")
	return wait


# A run in the background of a script inherits SIGINT as ignored, and so would every program under test.
signal.signal(signal.SIGINT, signal.default_int_handler)
