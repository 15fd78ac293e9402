"""Starts the programs of tests/patients, a few at a time, each with a private MT_DIR, and runs `mtctl diagnose` on each. The diagnosis,
and the kernel's figures of the process before and after it, are kept for the tests.
"""
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import agreement
import leftovers
import memory_group

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATIENTS = ROOT / "tests" / "patients"
BUILT = ROOT / "build" / "tests"
PYTHON = "/usr/bin/python3"
MB = 1 << 20
# Programs that run at once in each of two workers. They mostly wait.
AT_ONCE = 5
READY_LIMIT_S = 60


@dataclasses.dataclass(frozen=True)
class Program:
	program: str                  # file in tests/patients
	verdict: str                  # the word of ctl/diagnose/diagnose.h
	settings: dict = dataclasses.field(default_factory=dict)
	words: tuple = ()             # further arguments of mtctl diagnose
	seconds: int = 8              # duration of the diagnosis
	driver: dict | None = None    # settings of the stand-in driver, where it uses one
	group_mb: int = 0             # limit of its own memory cgroup; 0: none
	python_path: str = ""         # folder in tests/patients with modules for it
	needs: object = None          # returns why it cannot run on this machine, or None

	@property
	def name(self):
		return self.program.partition(".")[0]


@dataclasses.dataclass
class Diagnosis:
	"""The diagnosis of one program."""
	status: int
	text: str
	errors: str
	before: dict                  # of /proc/PID/status, in bytes, before the diagnosis
	after: dict
	looks: tuple = ()             # what the other commands say, before the diagnosis and behind it
	untrimmed: dict | None = None # a short look that asks for no cleanup, before all of them; none of a tree

	@property
	def report(self):
		return json.loads(self.text)

	def is_unknown(self):
		return bool(self.text) and self.report["verdict"] == "unknown"

	def needed_s(self):
		"""How long to look, as the diagnosis says; 0 where it does not."""
		return self.report["findings"][0]["figures"].get("needed_s", 0)


def bytes_of(pid):
	"""The memory figures of /proc/PID/status."""
	lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
	return {name: int(rest.split()[0]) * 1024 for name, _, rest in (line.partition(":") for line in lines)
	        if rest.endswith(" kB")}


def files_of_a_group(limit_bytes):
	"""A folder with the files of a cgroup of version 2 that mostly has file pages."""
	path = pathlib.Path(tempfile.mkdtemp(prefix=leftovers.prefix()))
	files = limit_bytes * 3 // 4
	for name, text in (("memory.max", limit_bytes), ("memory.high", "max"), ("memory.current", files + 40 * MB),
	                   ("memory.stat", f"anon {40 * MB}\nfile {files}\nshmem 0\ninactive_file {files // 2}\n"
	                                   f"active_file {files // 2}")):
		(path / name).write_text(f"{text}\n")
	return path


class RunningProgram:
	"""One program, from its start to its end. It may leave files in the directories that are its arguments: one on disk, one in
	memory. They are removed with it."""

	def __init__(self, program, mtctl, shim, bare, compile_c):
		self.program = program
		self.mtctl = mtctl
		self.directory = pathlib.Path(tempfile.mkdtemp(prefix=leftovers.prefix(), dir="/dev/shm"))
		self.files = pathlib.Path(tempfile.mkdtemp(prefix=leftovers.prefix(), dir=BUILT))
		self.group = self.group_files = None
		if program.group_mb:
			try:
				self.group = memory_group.MemoryGroup(f"{leftovers.prefix()}{time.monotonic_ns()}", program.group_mb * MB)
			except memory_group.CannotMake:
				self.group_files = files_of_a_group(program.group_mb * MB)
		self.env = dict(bare, MT_DIR=str(self.directory))
		self.process = None
		self._shim = shim
		self._compile_c = compile_c

	def __enter__(self):
		program = self.program
		source = PATIENTS / program.program
		start = [PYTHON, source] if source.suffix == ".py" else [self._compile_c(source)]
		command = [*start, self.files, self.directory]
		env = dict(self.env, LD_PRELOAD=str(self._shim), MT_MIN_MB="0", PYTHONDONTWRITEBYTECODE="1",
		           PYTHONPATH=str(PATIENTS / program.python_path) if program.python_path else "")
		env.update({f"MT_{name}": str(value) for name, value in program.settings.items()})
		if program.driver is not None:
			env["LD_LIBRARY_PATH"] = str(BUILT / "fakecuda")
			env.update({f"FAKECUDA_{name}": str(value) for name, value in program.driver.items()})
		if self.group:
			command = self.group.command(command)
		if self.group_files:
			env["MT_CGROUP"] = str(self.group_files)
		self.process = subprocess.Popen([str(word) for word in command], env=env, stdin=subprocess.PIPE,
		                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
		try:
			self._wait_until_ready()
		except BaseException:
			self.__exit__()
			raise
		return self

	def __exit__(self, *_):
		# It ends when its stdin ends, and removes its shared memory. What it leaves running is killed.
		self.process.stdin.close()
		try:
			self.process.wait(10)
		except subprocess.TimeoutExpired:
			pass
		self._kill()
		for pipe in (self.process.stdout, self.process.stderr):
			pipe.close()
		shutil.rmtree(self.directory, ignore_errors=True)
		shutil.rmtree(self.files, ignore_errors=True)
		if self.group:
			self.group.remove()
		if self.group_files:
			shutil.rmtree(self.group_files, ignore_errors=True)

	def _kill(self):
		try:
			os.killpg(self.process.pid, signal.SIGKILL)
		except ProcessLookupError:
			pass
		self.process.wait()

	def _wait_until_ready(self):
		timer = concurrent.futures.ThreadPoolExecutor(1)
		line = timer.submit(self.process.stdout.readline)
		try:
			line_read = line.result(READY_LIMIT_S)
		except concurrent.futures.TimeoutError:
			line_read = ""
		if line_read != "ready\n":
			self._kill()
		timer.shutdown()
		if line_read != "ready\n":
			raise RuntimeError(f"{self.program.program} did not get ready: status {self.process.returncode}, "
			                   f"{line_read!r}\n{self.process.stderr.read()}")

	def run(self, *words, timeout=120):
		return subprocess.run([str(self.mtctl), *map(str, words)], env=self.env, capture_output=True, text=True,
		                      errors="replace", timeout=timeout)

	def wait_until_awake(self):
		"""Waits for its first published figures; a program with its own MT_MIN_MB may still be asleep."""
		end = time.monotonic() + (0 if "MIN_MB" in self.program.settings else 15)
		while self.run("stat", self.process.pid, "--json").returncode != 0 and time.monotonic() < end:
			time.sleep(0.1)

	def diagnose(self, *words):
		self.wait_until_awake()
		found = self._diagnose_for(self.program.seconds, *words)
		# A busy machine stretches a program's start beyond a short look. What "unknown" asks for is done, once.
		if self.program.verdict != "unknown" and found.is_unknown():
			found = self._diagnose_for(min(max(found.needed_s(), 20), 60), *words)
		return found

	def _diagnose_for(self, seconds, *words):
		before = bytes_of(self.process.pid)
		done = self.run("diagnose", self.process.pid, "--for", f"{seconds:.0f}s", "--gc", *self.program.words, *words)
		return Diagnosis(done.returncode, done.stdout, done.stderr, before, bytes_of(self.process.pid))


class Batch:
	"""Diagnoses these programs, AT_ONCE at a time; result(name) waits for the diagnosis of one."""

	def __init__(self, programs, **means):
		self._means = means
		self._pool = concurrent.futures.ThreadPoolExecutor(AT_ONCE)
		self._results = {program.name: self._pool.submit(self._diagnose, program) for program in programs}

	def _diagnose(self, program):
		with RunningProgram(program, **self._means) as bed:
			bed.wait_until_awake()
			untrimmed = None if "--tree" in program.words else self._untrimmed(bed)
			before = agreement.look(bed.run, bed.process.pid)
			found = bed.diagnose("--json")
			found.looks = (before, agreement.look(bed.run, bed.process.pid))
			found.untrimmed = untrimmed
			return found

	@staticmethod
	def _untrimmed(bed):
		time.sleep(2)  # one look names what was unused for the last four seconds
		done = bed.run("diagnose", bed.process.pid, "--for=4", "--no-trim", *bed.program.words, "--json")
		return json.loads(done.stdout) if done.stdout else None

	def result(self, name):
		return self._results[name].result()

	def close(self):
		self._pool.shutdown(cancel_futures=True)
