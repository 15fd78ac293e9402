#!/usr/bin/python3
"""What looking at many processes costs: `mtctl ps` with 1,000 awake processes, and with the files of as many dead ones.

  bench/ps/ps.py [--build build] [--processes 1000] [--runs 20] [--strict]

The processes are real ones (sleep under the shim, awake by MT_MIN_MB=0); so are the files of the dead, copies under names
that nobody has. Time is that of the whole program, start to end; the median counts. What `top` and `serve` pay for 100
processes is the CPU time of a reading of the process list once a second, for 12 seconds (bench/ps/process_list.c)."""
import argparse
import pathlib
import resource
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib.herd import Herd  # noqa: E402

MOST_MS, MOST_SHARE = 50, 0.01
SLEEP = ["/bin/sleep", "600"]


def time_of(command, env):
	"""Wall and CPU time of one run, in ms."""
	before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
	subprocess.run(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
	wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
	return 1000 * wall, 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def add_dead(folder, count):
	"""Copies of a living one's file, of processes that cannot be: the largest pid is 4194304."""
	file = next(folder.glob("*.stats"))
	data, (_, start_ticks, pidns) = file.read_bytes(), file.stem.split("-")
	for number in range(count):
		(folder / f"{5000000 + number}-{start_ticks}-{pidns}.stats").write_bytes(data)


def measure(name, command, env, runs, before=lambda: None):
	found = []
	for _ in range(runs):
		before()
		found.append(time_of(command, env))
	wall, cpu = (statistics.median(one[i] for one in found) for i in (0, 1))
	print(f"{name:48} {wall:7.1f} ms  (least {min(found)[0]:.1f}), of which CPU {cpu:.1f}")
	return wall, cpu


def main():
	parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
	parser.add_argument("--build", default="build", type=pathlib.Path)
	parser.add_argument("--processes", default=1000, type=int)
	parser.add_argument("--runs", default=20, type=int)
	parser.add_argument("--strict", action="store_true", help="fail where a bound is missed")
	args = parser.parse_args()
	build = args.build.resolve()
	ps = [build / "mtctl", "ps"]
	with Herd(build) as herd:
		herd.start(min(100, args.processes), SLEEP, 1)
		measure("100 awake processes", ps, herd.env, args.runs)
		looked = subprocess.check_output([build / "bench" / "process_list", "12", "1000"], env=herd.env, text=True)
		cpu = int(looked.split()[1]) / 1000
		print(f"{'  once a second':48} {'':10}  {'':14} of which CPU {cpu:.1f}")
		herd.start(args.processes - len(herd.pids), SLEEP, 1)
		time_of(ps, herd.env)
		wall, _ = measure(f"{len(herd.pids)} awake processes", ps, herd.env, args.runs)
		measure("  and as JSON", [*ps, "--json"], herd.env, args.runs)
		measure(f"  and the files of {args.processes} dead ones", ps, herd.env, max(args.runs // 4, 1),
		        lambda: add_dead(herd.folder, args.processes))
	verdicts = [(f"ps with {len(herd.pids)} processes under {MOST_MS} ms", wall < MOST_MS),
	            (f"once a second with 100: under {MOST_SHARE:.0%} of a core", cpu < 1000 * MOST_SHARE)]
	for what, good in verdicts:
		print("PASS" if good else "FAIL", what)
	return 1 if args.strict and not all(good for _, good in verdicts) else 0


if __name__ == "__main__":
	sys.exit(main())
