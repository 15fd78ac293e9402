#!/usr/bin/python3
"""Fault sweeps: each call that the shim makes of libc and of the kernel fails once in a run of a program, the Nth for N = 1,
2, ... until a run is over in which it no longer came to that. What the program says and how it ends must be the same as
without the shim.

  tests/fault/sweep.py [--build DIR] [--quick] [--json FILE] [CASE...]

The shim is that of build/tests/faults (fault.mk), whose calls go through inject.c. All but the last lines are a table of the
functions; the last line is the sum."""
import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "lib"))
import leftovers  # noqa: E402

COUNTS_BYTES = 16384
ROW = struct.Struct("=32sQQ")
LIMIT_S = 60
LINES_MOST = 2
ALL = "all"

# Which errors each call can end with, beside the one that inject.def holds for usual. HALF and END are no errors.
ERRORS = {line.split()[0]: line.split()[1:] for line in """
	mmap                ENOMEM EAGAIN EPERM
	munmap              ENOMEM EINVAL
	mremap              ENOMEM EFAULT EINVAL EPERM
	sys_madvise         EINVAL ENOMEM EAGAIN EPERM
	mprotect            ENOMEM EACCES
	open                EMFILE ENOENT EACCES
	sys_open            EMFILE ENOENT EACCES ENFILE
	sys_openat          EMFILE ENFILE EACCES ENOENT ENOMEM EINTR EPERM ENOSPC
	creat               EACCES ENOSPC EMFILE
	close               EIO EINTR
	sys_close           EIO EINTR
	read                EIO EINTR EAGAIN END HALF
	sys_read            EIO EINTR EAGAIN END HALF
	sys_pread64         EIO EINTR END HALF EBADF
	write               EAGAIN EINTR EPIPE EIO HALF
	sys_write           EAGAIN EINTR EPIPE EIO HALF ENOSPC
	sys_pwrite64        ENOSPC EIO EINTR HALF EFBIG
	ftruncate           ENOSPC EINTR EFBIG EIO
	sys_fstat           EIO EACCES
	sys_newfstatat      EACCES ENOENT ELOOP
	mkdir               EROFS ENOSPC EACCES EEXIST ENOENT
	rename              ENOSPC EACCES EROFS
	unlink              EACCES EPERM EBUSY
	sys_ppoll           ENOMEM EINTR ENOSYS
	sys_futex           ENOSYS EPERM EINTR EAGAIN ENOMEM EFAULT
	sys_close_range     ENOSYS EPERM EMFILE ENOMEM
	process_vm_readv    EPERM ENOSYS EFAULT ENOMEM
	sched_getaffinity   EPERM ENOSYS EINVAL
	pthread_create      EAGAIN EPERM EINVAL
	pthread_key_create  EAGAIN ENOMEM
	""".strip().splitlines()}
# No kernel refuses these once and grants them the next moment, and whoever has blocked signals could not open them again.
FROM_THE_START = {"pthread_sigmask", "sigprocmask", "sys_rt_sigprocmask"}


@dataclasses.dataclass
class Case:
	"""A program, its arguments and its settings. only: the functions to sweep, or ALL."""
	name: str
	program: str
	words: list = dataclasses.field(default_factory=list)
	settings: dict = dataclasses.field(default_factory=dict)
	mtctl: str = ""
	driver: bool = False
	only: object = ALL


AWAKE = {"MT_MIN_MB": "0", "MT_TICK_MS": "10", "MT_SLACK_MB": "1", "MT_IDLE_MS": "10", "MT_COOLDOWN_MS": "100"}
PROFILER = set("process_vm_readv dlopen mt_loader_symbol creat write sys_write rename unlink sys_fstat sys_openat open sys_open read sys_read "
               "close sys_close mmap".split())
LEAVING = set("pthread_create pthread_detach pthread_join usleep sys_openat sys_read sys_close pthread_key_create "
              "mmap sys_futex sys_gettid".split())
CASES = {case.name: case for case in [
	Case("jemalloc", "phases", ["control"], {"MT_ALLOCATOR": "jemalloc", **AWAKE}, "trim --timeout=2 PID"),
	Case("system", "phases", ["control"], {"MT_ALLOCATOR": "system", **AWAKE}, "trim --timeout=2 PID"),
	Case("profiler", "phases", ["control"], {"MT_ALLOCATOR": "jemalloc", "MT_PROF": "on", **AWAKE}, "sites PID",
	     only=PROFILER),
	Case("leave", "phases", ["leave"], {"MT_ALLOCATOR": "jemalloc", **AWAKE}, only=LEAVING),
	Case("cuda", "cuda_entries", ["faults"], {"MT_CUDA": "pool", **AWAKE}, driver=True),
]}


@dataclasses.dataclass
class Result:
	status: int
	out: str
	err: str
	calls: dict
	faults: dict

	def injected(self):
		return sum(self.faults.values())


class Stage:
	"""Shared by all runs: a cgroup whose limit is near. Each run has a folder of its own."""

	def __init__(self, build):
		self.build = pathlib.Path(build).resolve()
		base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
		self.folder = pathlib.Path(tempfile.mkdtemp(prefix=leftovers.prefix(), dir=base))
		self.group, self.calm = self._make_group("near", 950000000), self._make_group("calm", 100000000)

	def _make_group(self, name, used):
		path = self.folder / name
		path.mkdir()
		stall = "avg10=0.00 avg60=0.00 avg300=0.00 total="
		for file, text in {"memory.current": str(used), "memory.max": "1000000000", "memory.high": "max",
		                   "memory.stat": "anon 1\ninactive_file 1000", "memory.events": "low 0\nhigh 1\nmax 2\noom 0",
		                   "memory.pressure": f"some {stall}7\nfull {stall}5"}.items():
			(path / file).write_text(text + "\n")
		return path

	def close(self):
		shutil.rmtree(self.folder, ignore_errors=True)

	def program(self, name):
		return self.build / "tests" / "faults" / name

	def bare(self, case):
		env = {name: value for name, value in os.environ.items()
		       if name in ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH")}
		if case.driver:
			env["LD_LIBRARY_PATH"] = str(self.build / "tests" / "fakecuda")
		return env

	def environment(self, case, own, faults):
		env = dict(self.bare(case), LD_PRELOAD=str(self.program("libmtshim.so")), MT_DIR=str(own / "dir"),
		           MT_LOG=str(own / "log"), MT_LOG_LEVEL="info", MT_CGROUP=str(self.group),
		           INJECT_COUNTS=str(own / "counts"), **case.settings)
		if faults:
			env["INJECT_FAULTS"] = faults
		if case.mtctl:
			env["MTCTL"], env["MTCTL_WORDS"] = str(self.build / "mtctl"), case.mtctl
		return env

	def run_bare(self, case):
		status, out, err = execute([self.program(case.program), *case.words], self.bare(case))
		return Result(status, out, err, {}, {})

	def run(self, case, faults=None, wrapper=(), **more):
		"""Runs once under the shim. faults: as in INJECT_FAULTS. more: variables of the environment; None removes one."""
		own = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
		counts = own / "counts"
		counts.write_bytes(bytes(COUNTS_BYTES))
		env = self.environment(case, own, faults)
		for name, value in more.items():
			env.pop(name, None)
			if value is not None:
				env[name] = value
		command = [*wrapper, self.program(case.program), *case.words]
		if wrapper:
			command[len(wrapper):len(wrapper)] = ["/usr/bin/env", f"LD_PRELOAD={env.pop('LD_PRELOAD')}"]
		try:
			status, out, err = execute(command, env)
			calls, failed = read_counts(counts)
		finally:
			shutil.rmtree(own, ignore_errors=True)
		return Result(status, out, err, calls, failed)


def execute(command, env):
	"""Returns status (124: timed out), stdout and stderr; kills all processes that are left."""
	process = subprocess.Popen([str(word) for word in command], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
	                           stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True)
	try:
		out, err = process.communicate(timeout=LIMIT_S)
		status = process.returncode
	except subprocess.TimeoutExpired:
		os.killpg(process.pid, signal.SIGKILL)
		out, err = process.communicate()
		status = 124
	return status, out, err


def read_counts(path):
	calls, faults = {}, {}
	data = path.read_bytes()
	for at in range(0, COUNTS_BYTES - ROW.size + 1, ROW.size):
		name, called, failed = ROW.unpack_from(data, at)
		if name[0]:
			name = name.rstrip(b"\0").decode()
			calls[name], faults[name] = called, failed
	return calls, faults


def complaint(expected, got):
	"""Returns the difference to a run without the shim as text, or \"\"."""
	if got.status == 124:
		return f"hangs\n{got.out}{got.err}"
	if (got.status, got.out) != (expected.status, expected.out):
		return f"status {got.status}, not {expected.status}\n{got.out}{got.err}"
	lines = got.err.splitlines()
	if any(not line.startswith("mtshim[") for line in lines):
		return f"somebody else speaks on stderr\n{got.err}"
	if max(collections.Counter(line.split("]")[0] for line in lines).values(), default=0) > LINES_MOST:
		return f"a process that says more than {LINES_MOST} lines on stderr\n{got.err}"
	return ""


@dataclasses.dataclass
class Tally:
	"""Of one function: its calls in a run without faults, the runs, the injected faults, and the failures."""
	calls: int
	runs: int = 0
	injected: int = 0
	survived: int = 0
	failures: list = dataclasses.field(default_factory=list)


def numbers(quick):
	"""Returns the calls to fail. Quick: each of the first eight, then doubling."""
	number = 1
	while True:
		yield number
		number = number + 1 if not quick or number < 8 else number * 2


def sweep_function(stage, case, expected, name, calls, quick):
	"""Until a run in which it no longer came to the Nth call: with each error in the full form, by turns in the quick one. Of
	what is called more than a thousand times the full form goes on in steps of a twentieth."""
	tally = Tally(calls)
	errors = ERRORS.get(name, [""])
	last = 0
	for index, number in enumerate(numbers(quick)):
		if number > 1000 and number < last * 1.05:
			continue
		last = number
		if name in FROM_THE_START and number > 1:
			break
		injected = 0
		for error in [errors[index % len(errors)]] if quick else errors:
			fault = f"{name}:{number}{'+' if name in FROM_THE_START else ''}{'=' + error if error else ''}"
			got = stage.run(case, fault)
			tally.runs += 1
			injected += got.injected()
			tally.injected += got.injected()
			wrong = complaint(expected, got)
			if wrong:
				tally.failures.append(f"{case.name}: {fault}: {wrong}")
			else:
				tally.survived += got.injected()
		if injected == 0 or len(tally.failures) >= 5:
			break
	return tally


def sweep(stage, case, quick, workers=None):
	"""Returns a Tally by name for each function that the case calls."""
	expected = stage.run_bare(case)
	base = stage.run(case)
	wrong = complaint(expected, base)
	if wrong:
		return {"none": Tally(0, 1, 0, 0, [f"{case.name}: without any fault: {wrong}"])}
	# Those that are called most take longest: first.
	found = sorted((name for name, calls in base.calls.items() if calls and (case.only == ALL or name in case.only)),
	               key=lambda name: -base.calls[name])
	with concurrent.futures.ThreadPoolExecutor(workers or 2 + 2 * (os.cpu_count() or 1)) as pool:
		futures = {name: pool.submit(sweep_function, stage, case, expected, name, base.calls[name], quick)
		           for name in found}
		return {name: future.result() for name, future in futures.items()}


def main():
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--build", default=ROOT / "build", help="where everything is built")
	parser.add_argument("--quick", action="store_true", help="the form that the tests run")
	parser.add_argument("--json", metavar="FILE", help="the table as one object, too")
	parser.add_argument("cases", nargs="*", metavar="CASE", choices=[[], *CASES], help=", ".join(CASES))
	arguments = parser.parse_args()
	stage, tables = Stage(arguments.build), {}
	try:
		for name in arguments.cases or CASES:
			tables[name] = sweep(stage, CASES[name], arguments.quick)
			for function, tally in tables[name].items():
				print(f"{name:9} {function:26} {tally.calls:6} calls {tally.runs:6} runs {tally.injected:6} faults "
				      f"{tally.survived:6} survived", flush=True)
				for failure in tally.failures:
					print(f"-- {failure}", flush=True)
	finally:
		stage.close()
	if arguments.json:
		plain = {name: {function: dataclasses.asdict(tally) for function, tally in table.items()} for name, table in tables.items()}
		pathlib.Path(arguments.json).write_text(json.dumps(plain, indent=1) + "\n")
	all_of_them = [tally for table in tables.values() for tally in table.values()]
	failed = sum(len(tally.failures) for tally in all_of_them)
	print(f"{sum(tally.runs for tally in all_of_them)} runs, {sum(tally.injected for tally in all_of_them)} faults injected, "
	      f"{sum(tally.survived for tally in all_of_them)} survived, {failed} runs went wrong")
	return 1 if failed else 0


if __name__ == "__main__":
	sys.exit(main())
