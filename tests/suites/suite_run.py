"""Runs a unit of a suite once, without the shim or with it, and answers what it said.

Each run has folders of its own, is the leader of its own session, and is killed with all that it has started when it ends or
its time is over.
"""
import collections
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import leftovers
import suite_read

HERE = pathlib.Path(__file__).resolve().parent
NOBODY = 65534
TEXT_MAX = 64 << 20

# The shim really awake: in every process from its first allocation on, a look each 10 ms, a purge of whatever has been unused
# for that long at whatever it costs, and a line in a log for each.
HARSH = {"MIN_MB": 0, "TICK_MS": 10, "IDLE_MS": 10, "SLACK_MB": 0, "SLACK_PCT": 0, "SETTLE_MS": 100, "BUDGET_PCT": 100,
         "LOG_LEVEL": "info", "PROFILE": 1}
VARIANTS = {
	"bare": None,
	"jemalloc": {"ALLOCATOR": "jemalloc", **HARSH},
	"system": {"ALLOCATOR": "system", **HARSH},
	"default": {},
	# And Python's own collector, called from outside once a second.
	"rounds": {"ALLOCATOR": "jemalloc", "ROUND": "timer:1", "GC_ROUNDS": 1, **HARSH},
}


def keeps_log(variant):
	return "PROFILE" in (VARIANTS[variant] or {})


@dataclasses.dataclass(frozen=True)
class Unit:
	"""What is run at a time: a test file, a test program. In the words of the command {out} is the file for results, {tmp} a
	folder, {here} the folder of this file."""
	suite: str
	name: str
	command: tuple
	read: callable
	limit_s: int = 120
	variants: tuple = ("jemalloc", "system", "default")
	as_nobody: bool = False
	environment: tuple = ()
	only_if_passes: bool = False  # what fails without the shim says nothing, and is not compared

	@property
	def full_name(self):
		return f"{self.suite}/{self.name}"

	@property
	def reads_cases(self):
		return self.read is not suite_read.read_exit


@dataclasses.dataclass
class Run:
	variant: str
	status: str            # "exit 0", "signal 11", "timeout"
	cases: dict            # with "(exit)", which is the status
	seconds: float
	tail: str              # the end of what it printed
	programs: int = 0      # that have loaded the shim, where it keeps a log
	cleanups: int = 0
	complaints: list = dataclasses.field(default_factory=list)

	@property
	def tests(self):
		"""Returns the outcomes without the exit status, unless there is no other."""
		return {name: outcome for name, outcome in self.cases.items() if name != "(exit)"} or self.cases


def _kill_marked(mark):
	"""Kills processes that have left the session but have our folder in their environment. Of a larger one than those that we make only
	the first MB is read: other tests make environments of gigabytes."""
	for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
		try:
			with path.open("rb") as file:
				if mark in file.read(1 << 20):
					os.kill(int(path.parent.name), signal.SIGKILL)
		except OSError:
			continue


def _status_of(process, limit_s):
	try:
		status = process.wait(timeout=limit_s)
		return f"exit {status}" if status >= 0 else f"signal {-status}"
	except subprocess.TimeoutExpired:
		return "timeout"
	finally:
		try:
			os.killpg(process.pid, signal.SIGKILL)
		except ProcessLookupError:
			pass
		process.wait()


def _text(path):
	with open(path, "rb") as file:
		return file.read(TEXT_MAX).decode(errors="replace")


class Session:
	"""A folder with a copy of the shim in it: a build beside us cannot replace that, and every user can read it."""

	def __init__(self, shim):
		self.folder = pathlib.Path(tempfile.mkdtemp(prefix=leftovers.prefix()))
		self.memory = pathlib.Path(tempfile.mkdtemp(prefix=leftovers.prefix(), dir="/dev/shm"))
		for folder in (self.folder, self.memory):
			folder.chmod(0o755)
		self.shim = self.folder / "libmtshim.so"
		shutil.copyfile(shim, self.shim)
		self.shim.chmod(0o755)
		self.lock = threading.Lock()
		self.count = 0

	def close(self):
		shutil.rmtree(self.folder, ignore_errors=True)
		shutil.rmtree(self.memory, ignore_errors=True)

	def _files(self, place):
		"""The folder for the shim's files, in memory."""
		return self.memory / place.name

	def _place(self, unit):
		"""tmp is the unit's."""
		with self.lock:
			self.count += 1
			place = self.folder / f"r{self.count}."
		for folder in (place, place / "tmp", self._files(place)):
			folder.mkdir(mode=0o755 if folder == place else 0o700)
			if unit.as_nobody and folder != place:
				os.chown(folder, NOBODY, NOBODY)
		return place

	def _environment(self, unit, variant, place):
		result = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "TERM": "dumb",
		          "HOME": str(place / "tmp"), "TMPDIR": str(place / "tmp"), **dict(unit.environment)}
		settings = VARIANTS[variant]
		if settings is None:
			return result
		result.update({f"MT_{name}": str(value) for name, value in settings.items()})
		if keeps_log(variant):
			result["MT_LOG"] = str(self._files(place) / "log")
		return dict(result, LD_PRELOAD=str(self.shim), MT_DIR=str(self._files(place)))

	def _read_log(self, run, path):
		"""Reads from the log that the shim was awake, and its warnings."""
		complaints = collections.Counter()
		try:
			with open(path, errors="replace") as lines:
				for line in lines:
					text = line.partition("Z: ")[2].rstrip("\n")
					if text.startswith("info: mtshim "):
						run.programs += 1
					elif text.startswith("cleanup "):
						run.cleanups += 1
					elif text.startswith(("warn: ", "error: ")):
						complaints[re.sub(r"\d{2,}", "N", text)] += 1
		except OSError:
			pass
		run.complaints = [f"{count} x {text}" for text, count in complaints.most_common(20)]

	def run(self, unit, variant):
		place = self._place(unit)
		begin = time.monotonic()
		words = [word.format(out=place / "tmp" / "results", tmp=place / "tmp", here=HERE) for word in unit.command]
		user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if unit.as_nobody else {}
		try:
			with open(place / "stdout", "wb") as out, open(place / "stderr", "wb") as err:
				process = subprocess.Popen(words, cwd=place / "tmp", stdin=subprocess.DEVNULL, stdout=out, stderr=err,
				                           env=self._environment(unit, variant, place), start_new_session=True, **user)
				status = _status_of(process, unit.limit_s)
			_kill_marked(os.fsencode(f"{place}/"))
			output = suite_read.Output(_text(place / "stdout"), _text(place / "stderr"), place / "tmp" / "results")
			run = Run(variant, status, unit.read(output) | {"(exit)": status}, time.monotonic() - begin,
			          output.stdout[-3000:] + output.stderr[-3000:])
			self._read_log(run, self._files(place) / "log")
			return run
		finally:
			shutil.rmtree(place, ignore_errors=True)
			shutil.rmtree(self._files(place), ignore_errors=True)
