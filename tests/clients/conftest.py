"""A client is a real program. With the shim it must print the same and have the same exit code as without."""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

import leftovers
from places import BUILT, PYTHON

NOBODY = 65534


# A worker that starts at the first malloc and purges all the time.
BUSY = {"MIN_MB": 0, "TICK_MS": 20, "IDLE_MS": 20, "SLACK_MB": 1, "SLACK_PCT": 0, "SETTLE_MS": 200, "BUDGET_PCT": 50}


@pytest.fixture(params=["threshold", "busy"])
def settings(request, env):
	"""Runs the test twice: with the defaults, and with a busy worker. Not with the defaults on libc's malloc, unless in the long form:
	the worker purges it in the other one, and does nothing else in this one."""
	return env(**BUSY) if request.param == "busy" else env()


def pytest_collection_modifyitems(items):
	for item in items:
		values = item.callspec.params if hasattr(item, "callspec") else {}
		if (values.get("settings"), values.get("backend")) == ("threshold", "system"):
			item.add_marker(pytest.mark.long)


@pytest.fixture
def busy(env):
	"""busy(ALLOCATOR="system"): as env(), with a busy worker."""
	return lambda **settings: env(**BUSY, **settings)


@pytest.fixture
def needs():
	def look(*programs):
		for program in programs:
			if shutil.which(program) is None:
				pytest.skip(f"{program} is not installed")
	return look


@pytest.fixture
def same(request, run, bare, env):
	"""same(cmd): runs it without the shim, and with it as `settings` and `backend` have it; status, stdout and (unless told otherwise)
	stderr must agree. Returns the last run."""
	ways = [{"ALLOCATOR": "jemalloc"}, {"ALLOCATOR": "jemalloc", **BUSY}, {"ALLOCATOR": "system", **BUSY}]
	if request.config.option.markexpr.startswith("long"):
		ways.append({"ALLOCATOR": "system"})

	def compare(cmd, timeout=120, stderr=True, clean=lambda text: text, prepare=lambda: None, **options):
		def result(environment):
			prepare()
			done = run(cmd, environment, timeout=timeout, **options)
			return done, (done.returncode, clean(done.stdout), clean(done.stderr) if stderr else "")
		expected, wanted = result(bare)
		for way in ways:
			got, seen = result(env(**way))
			assert seen == wanted, f"{expected.stderr}\n--- with the shim, {way}:\n{got.stderr}"
		return got
	return compare


@pytest.fixture
def without_times():
	return lambda text: re.sub(r"\d+\.\d+|0x[0-9a-f]+", "N", text)


@pytest.fixture
def files_of_the_dead():
	"""files_of_the_dead(mt_dir): names of files there whose process has ended."""
	def look(mt_dir):
		names = (path.name for path in pathlib.Path(mt_dir).iterdir())
		return sorted(name for name in names if not pathlib.Path("/proc", re.match(r"\d*", name)[0] or "none").exists())
	return look


@pytest.fixture
def ordinary(env, shim, public):
	"""An ordinary user for programs that refuse to run as root: .user for Popen, .folder and .mt_dir that are theirs, .env(...)
	as the fixture env."""
	class Ordinary:
		user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}

		def __init__(self):
			self.folder, self.mt_dir = (pathlib.Path(tempfile.mkdtemp(prefix=leftovers.prefix(), dir=parent))
			                            for parent in ("/tmp", "/dev/shm"))
			if self.user:
				os.chown(self.folder, NOBODY, NOBODY)
				os.chown(self.mt_dir, NOBODY, NOBODY)

		def env(self, **settings):
			return dict(env(**settings), LD_PRELOAD=str(public(shim)), MT_DIR=str(self.mt_dir))

	one = Ordinary()
	yield one
	for folder in (one.folder, one.mt_dir):
		shutil.rmtree(folder, ignore_errors=True)


def from_pypi(names, limit_s):
	"""A python3 with the packages of a file of this folder and none of the machine's, installed once; skips the test where
	they are not to be had within that many seconds."""
	def pip(*words):
		try:
			return subprocess.run([PYTHON, "-m", "pip", *map(str, words)], capture_output=True, text=True, timeout=limit_s, check=False)
		except subprocess.TimeoutExpired:
			return subprocess.CompletedProcess(words, 124, "", f"pip took more than {limit_s} s")

	names = pathlib.Path(__file__).with_name(names)
	version = subprocess.run([PYTHON, "--version"], capture_output=True, check=True).stdout
	folder = BUILT.parent / "pypi" / hashlib.sha256(names.read_bytes() + version).hexdigest()[:12]
	python = folder / "bin" / "python3"
	if folder.exists():
		return python
	folder.parent.mkdir(parents=True, exist_ok=True)
	fresh = pathlib.Path(tempfile.mkdtemp(prefix="fresh-", dir=folder.parent))
	try:
		subprocess.run([PYTHON, "-m", "venv", "--without-pip", fresh], check=True, timeout=60)
		target = next(fresh.glob("lib/python3*/site-packages"))
		done = pip("install", "--quiet", "--no-deps", "--only-binary=:all:", "--no-compile", "--no-cache-dir", "--disable-pip-version-check",
		           "--retries=1", "--timeout=10", "--target", target, "-r", names)
		if done.returncode != 0:
			pytest.skip("packages from PyPI are not to be had: " + (done.stderr.strip().splitlines() or ["no pip"])[-1])
		try:
			fresh.rename(folder)
		except OSError:
			assert folder.exists(), "another test has installed them meanwhile"
	finally:
		shutil.rmtree(fresh, ignore_errors=True)
	return python


@pytest.fixture(scope="session")
def pypi_python():
	return from_pypi("pypi.txt", 120)


@pytest.fixture(scope="session")
def numba_cuda_python():
	"""350 MB."""
	return from_pypi("pypi_numba.txt", 240)
