#!/usr/bin/python3
"""Programs that meet the limit of their group, many times, several at once so that the worker has to fight for its CPU: how many
are killed, of each shape with each backend and settings, and without the shim, where all are. Before that, alone: a program that fits
its limit by a little lives, and what a program costs that turns memory over near its limit, against MT_PRESSURE=0. Exits 1 when one was
killed under the shim, or the cost is above 5 %. Wants memory groups that it may make.

  tests/stress/limits.py [--runs 120] [--pairs 5] [--at-once 4] [--backend jemalloc] [--backend system] [--shim FILE]
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import itertools
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "lib"))
import leftovers
import memory_group

LIMIT_MB = 256
RUN_S = 60  # none takes three seconds
MOST_COST = 0.05

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


def run(command, environment, limit_mb=LIMIT_MB):
	"""One program in a group of its own; environment takes the folder of the shim's files."""
	group = memory_group.MemoryGroup(f"{leftovers.prefix()}{next(numbers)}", limit_mb << 20)
	try:
		with tempfile.TemporaryDirectory(prefix=leftovers.prefix(), dir="/dev/shm") as folder:
			return subprocess.run(command, env=environment(folder), timeout=RUN_S, stdin=subprocess.DEVNULL, capture_output=True, text=True,
			                      preexec_fn=group.enter)
	finally:
		group.remove()


def end_of(case, program, shim):
	return run([program, *case.shape.split()], lambda folder: case.environment(folder, shim)).returncode


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


def shimmed(backend, shim, **settings):
	"""Returns an environment for run."""
	bare = {name: value for name, value in os.environ.items() if not name.startswith("MT_") and name != "LD_PRELOAD"}
	set_here = {f"MT_{name}": str(value) for name, value in settings.items()}
	return lambda folder: {**bare, "MT_DIR": folder, "MT_ALLOCATOR": backend, "LD_PRELOAD": str(shim), **set_here}


def slots(program, backend, shim):
	"""185 MB outside the heap and 32 blocks of 1 to 2 MB must survive at 256 MB."""
	got = run([program, "185", "3"], shimmed(backend, shim))
	print(f"slots, {backend}: at {LIMIT_MB} MB {'lives' if got.returncode == 0 else 'KILLED'}; "
	      f"slowest of its steps at 276 MB: {slowest(program, backend, shim)} ms, with MT_PRESSURE=0 {slowest(program, backend, shim, PRESSURE=0)} ms",
	      flush=True)
	return got.returncode == 0


def sparse(program, backend, shim):
	"""Blocks that are hardly touched and grow by realloc; without the shim they have 3 to 7 MB."""
	ends = {kind: run([program, kind], shimmed(backend, shim)) for kind in ("malloc", "calloc", "memalign", "many")}
	told = ", ".join(f"{kind} {f'{got.stdout.strip()} MB' if got.returncode == 0 else 'KILLED'}" for kind, got in ends.items())
	print(f"sparse, {backend}: at {LIMIT_MB} MB {told}", flush=True)
	return all(got.returncode == 0 for got in ends.values())


def pool(program, backend, shim):
	"""300 threads that free all they had; without the shim they have 35 MB."""
	got = run([program, "300", "1"], shimmed(backend, shim), 128)
	print(f"pool, {backend}: at 128 MB {'lives' if got.returncode == 0 else 'KILLED'}", flush=True)
	return got.returncode == 0


def arrays(backend, shim):
	"""NumPy arrays, for which NumPy asks for huge pages, and small ones between them; without the shim the group is charged 676 MB."""
	command = ["/usr/bin/python3", ROOT / "bench" / "workloads" / "huge_numpy.py", "--rounds", "3"]
	got = run(command, shimmed(backend, shim), 720)
	print(f"arrays, {backend}: at 720 MB {'lives' if got.returncode == 0 else 'KILLED'}", flush=True)
	return got.returncode == 0


def slowest(program, backend, shim, **settings):
	"""Returns the slowest step, the median of three runs, in milliseconds."""
	ends = [run([program, "185", "3"], shimmed(backend, shim, **settings), 276) for _ in range(3)]
	return statistics.median(int(got.stdout.split()[1]) // 1000 if got.returncode == 0 else 10**6 for got in ends)


def speed(program, backend, shim, **settings):
	"""Returns the number of blocks that are replaced in a second of CPU time."""
	blocks, cpu_us, _ = map(int, run([program, "185", "20", "3"], shimmed(backend, shim, **settings)).stdout.split())
	return blocks / cpu_us * 1e6


def mix(program, backend, shim, pairs):
	"""20 MB of mixed sizes turned over at 205 of 256 MB."""
	costs = []
	for i in range(pairs):
		with_it = speed(program, backend, shim) if i % 2 else None
		without = speed(program, backend, shim, PRESSURE=0)
		costs.append(1 - (with_it or speed(program, backend, shim)) / without)
	cost = statistics.median(costs)
	told = " ".join(f"{-one:+.1%}" for one in costs)
	print(f"mix, {backend}: {-cost:+.1%} blocks per CPU second compared with MT_PRESSURE=0, median of {told}", flush=True)
	return cost <= MOST_COST


def build(folder, name, source=None):
	program = pathlib.Path(folder) / name
	subprocess.run(["gcc", "-std=c11", "-O1", "-fno-builtin", "-D_GNU_SOURCE", "-pthread", "-o", program,
	                ROOT / "tests" / (source or f"pressure/pressure_{name}.c")], check=True)
	return program


def main():
	parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
	parser.add_argument("--runs", type=int, default=120)
	parser.add_argument("--pairs", type=int, default=5)
	parser.add_argument("--at-once", type=int, default=4)
	parser.add_argument("--backend", action="append", choices=["jemalloc", "system"])
	parser.add_argument("--shim", type=pathlib.Path, default=ROOT / "build" / "libmtshim.so")
	options = parser.parse_args()
	leftovers.sweep()
	try:
		memory_group.MemoryGroup(f"{leftovers.prefix()}probe", LIMIT_MB << 20).remove()
	except memory_group.CannotMake as error:
		sys.exit(f"limits: {error}")
	total = collections.Counter()
	shim = options.shim.resolve()
	backends = options.backend or ["jemalloc", "system"]
	well = True
	with tempfile.TemporaryDirectory(prefix=leftovers.prefix()) as folder:
		hoard, slots_program, mix_program, sparse_program = (build(folder, name) for name in ("hoard", "slots", "mix", "sparse"))
		pool_program = build(folder, "pool", "heap/idle_threads.c")
		for backend in backends:
			well = slots(slots_program, backend, shim) and well
			well = sparse(sparse_program, backend, shim) and well
			well = pool(pool_program, backend, shim) and well
			well = arrays(backend, shim) and well
			well = (not options.pairs or mix(mix_program, backend, shim, options.pairs)) and well
		with concurrent.futures.ThreadPoolExecutor(options.at_once) as several:
			for case in cases(backends) if options.runs else ():
				runs = options.runs if case.backend else options.at_once
				ends = collections.Counter(several.map(lambda _: end_of(case, hoard, shim), range(runs)))
				tell(case, ends)
				total += ends if case.backend else {}
	print(f"under the shim {total[-signal.SIGKILL]} of {total.total()} killed")
	return 0 if well and total[0] == total.total() else 1


if __name__ == "__main__":
	sys.exit(main())
