#!/usr/bin/python3
"""Programs that meet the limit of their group, many times, several at once so that the reaper has to fight for its CPU: how many
are killed, of each shape with each backend and settings, and without the shim, where all are. Exits 1 when one was killed under it.
Wants memory groups of cgroup v1 that it may make.

  tests/stress/limits.py [--runs 120] [--at-once 4] [--backend jemalloc] [--backend system] [--shim FILE]
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import leftovers

LIMIT_MB = 256
RUN_S = 60  # none takes three seconds

# As pressure_hoard.c takes them: MB in small blocks, MB in large ones, rounds, MB a second (0: in one block).
SHAPES = ["160 150 3 0", "160 150 3 1000000", "120 200 4 0", "200 100 4 0", "220 60 4 0"]
# Pressure alone, and as it comes.
SETTINGS = {"pressure alone": {"MT_MIN_MB": "0", "MT_BUDGET_PCT": "0"}, "defaults": {}}


@dataclasses.dataclass(frozen=True)
class Case:
	shape: str
	backend: str     # "": without the shim
	settings: str

	def environment(self, folder, shim):
		bare = {name: value for name, value in os.environ.items() if not name.startswith("MT_") and name != "LD_PRELOAD"}
		if not self.backend:
			return bare
		return {**bare, **SETTINGS[self.settings], "MT_DIR": folder, "MT_ALLOCATOR": self.backend, "LD_PRELOAD": str(shim)}


numbers = itertools.count()


def run(case, program, shim):
	"""One program in a group of its own: how it ended."""
	group = leftovers.own_group() / f"{leftovers.prefix()}{next(numbers)}"
	group.mkdir()
	try:
		(group / "memory.limit_in_bytes").write_text(str(LIMIT_MB << 20))
		with tempfile.TemporaryDirectory(prefix=leftovers.prefix(), dir="/dev/shm") as folder:
			return subprocess.run([program, *case.shape.split()], env=case.environment(folder, shim), timeout=RUN_S,
			                      stdin=subprocess.DEVNULL, capture_output=True,
			                      preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid()))).returncode
	finally:
		leftovers.remove_group(group)


def tell(case, ends):
	wrong = {end: count for end, count in ends.items() if end not in (0, -signal.SIGKILL)}
	who = f"{case.backend}, {case.settings}" if case.backend else "without the shim"
	print(f"{case.shape:18} {who:24} {ends[-signal.SIGKILL]} of {ends.total()} killed{f', WRONG END: {wrong}' if wrong else ''}",
	      flush=True)


def cases(backends):
	for shape in SHAPES:
		yield Case(shape, "", "")
		for backend in backends:
			for settings in SETTINGS:
				yield Case(shape, backend, settings)


def main():
	parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
	parser.add_argument("--runs", type=int, default=120)
	parser.add_argument("--at-once", type=int, default=4)
	parser.add_argument("--backend", action="append", choices=["jemalloc", "system"])
	parser.add_argument("--shim", type=pathlib.Path, default=ROOT / "build" / "libmtshim.so")
	options = parser.parse_args()
	leftovers.sweep()
	if not leftovers.own_group() or not os.access(leftovers.own_group(), os.W_OK):
		sys.exit("limits: no memory group of cgroup v1 can be made here")
	total = collections.Counter()
	with tempfile.TemporaryDirectory(prefix=leftovers.prefix()) as folder:
		program = pathlib.Path(folder) / "hoard"
		subprocess.run(["gcc", "-std=c11", "-O1", "-fno-builtin", "-D_GNU_SOURCE", "-o", program,
		                ROOT / "tests" / "integration" / "pressure_hoard.c"], check=True)
		with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
			for case in cases(options.backend or ["jemalloc", "system"]):
				runs = options.runs if case.backend else options.at_once
				ends = collections.Counter(pool.map(lambda _: run(case, program, options.shim.resolve()), range(runs)))
				tell(case, ends)
				total += ends if case.backend else {}
	print(f"under the shim {total[-signal.SIGKILL]} of {total.total()} killed")
	return 0 if total[0] == total.total() else 1


if __name__ == "__main__":
	sys.exit(main())
