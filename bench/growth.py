#!/usr/bin/python3
"""How the cost of a malloc, a trim and a tick of the worker grows with threads, with the size of the heap, with live blocks.

  bench/growth.py [--quick] [--axes threads,heap_gb,blocks] [--candidates glibc,shim] [--most-gb N] [--json FILE]

Each point is a run of bench/workloads/growth.c (which says what it does); of small heaps several, of which the median
counts. Ticks are the shim's alone: CPU time of its thread for each, from `mtctl stat`. A heap that would not fit well into
the memory which the machine has to spare (1.25 x) is skipped, and named. Writes bench/results/growth-DATE.json. Exits 0;
where a figure of ours grows worse than linearly it says so, loudly.
"""
import argparse
import dataclasses
import json
import math
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib import candidates, execute, machine, outside, report  # pylint: disable=wrong-import-position

NAMES = ["glibc", "jemalloc", "tcmalloc", "mimalloc", "shim"]
FIGURES = ["malloc_ns", "trim_ms", "trim_cpu_ms", "returned_mib", "tick_us"]
# Below these a figure is mostly what the machine does besides, and no growth is read from it. Time by the clock is no figure
# for that: one trim that had to wait for a core looks like growth.
NOISE = {"malloc_ns": 10, "trim_cpu_ms": 5, "tick_us": 20}
WORSE = 1.15          # exponent: twice the size for 2.2 times the cost
SMALL_BYTES = 1.5e9   # heaps up to this are measured several times
BLOCK_COST = 48       # bytes of memory that a block of 16 to 32 B takes at most
ROOM = 1.25           # of what is asked for: jemalloc takes 1.17 x of it, the others less; the rest is for the machine
GB = 1e9


@dataclasses.dataclass
class Axis:
	name: str
	points: list
	quick: list
	arguments: object     # of a point: the workload's arguments
	needs: object         # of a point: bytes of memory


def heap_arguments(gigabytes):
	return ["--heap-mib", str(round(gigabytes * GB / 2**20)), "--low", "4096", "--high", "28672"]


AXES = [
	Axis("threads", [1, 2, 4, 8, 16, 32, 64], [1, 4], lambda count: ["--threads", str(count), "--heap-mib", "256"],
		lambda count: 0.5 * GB),
	Axis("heap_gb", [0.1, 0.5, 1, 2, 4, 8, 16], [0.1], heap_arguments, lambda gigabytes: gigabytes * GB),
	Axis("blocks", [10**4, 10**5, 10**6, 10**7, 10**8], [10**4, 10**5],
		lambda count: ["--blocks", str(count), "--low", "16", "--high", "32"], lambda count: count * (BLOCK_COST + 8)),
]


def parse_options(argv):
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--axes", default=",".join(axis.name for axis in AXES))
	parser.add_argument("--candidates", default=",".join(NAMES))
	parser.add_argument("--runs", type=int, default=3, help="of each point with a small heap")
	parser.add_argument("--most-gb", type=float, default=math.inf, help="skip what needs more memory")
	parser.add_argument("--over", type=float, default=3.0, help="seconds over which ticks are counted")
	parser.add_argument("--quick", action="store_true", help="the smallest points, once")
	parser.add_argument("--json", help="where the figures go (default bench/results/growth-DATE.json); - for nowhere")
	parser.add_argument("--build", default="build", help="where libmtshim.so, mtctl and bench/ lie")
	options = parser.parse_args(argv)
	if options.quick:
		options.runs, options.over = 1, min(options.over, 1.0)
	return options


def available_bytes():
	return int(machine.first_line("/proc/meminfo", "MemAvailable:").split()[1]) * 1024


def why_skipped(axis, point, options):
	needed = axis.needs(point)
	if needed > options.most_gb * GB:
		return f"needs {needed / GB:.1f} GB, more than --most-gb"
	if ROOM * needed > available_bytes():
		return f"needs {needed / GB:.1f} GB, and {ROOM:g} times that is more than the {available_bytes() / GB:.1f} GB to spare"
	return ""


def count_ticks(process, environment, options):
	"""CPU time of a tick in us, while the heap stands and a few small blocks come and go."""
	time.sleep(min(1.0, options.over))
	cost_before, count_before, _, _ = outside.tick_counters(options.build, process.pid, environment)
	time.sleep(options.over)
	cost_after, count_after, _, _ = outside.tick_counters(options.build, process.pid, environment)
	count = count_after - count_before
	return (cost_after - cost_before) / count / 1e3 if count else None


def run_with_ticks(command, candidate, options):
	environment = execute.environment_of(candidate)
	process = outside.start_and_wait_ready([*command, "--pause", "1"], environment)
	try:
		tick_us = count_ticks(process, environment, options)
		rest, _ = process.communicate("\n", timeout=300)
	except BaseException:
		process.kill()
		process.wait()
		raise
	if process.returncode != 0:
		raise RuntimeError(f"{candidate.name}: {' '.join(command)} ended with {process.returncode}")
	return {**execute.last_json(rest), "tick_us": tick_us}


def measure(axis, point, candidate, options, with_ticks):
	command = [os.path.join(options.build, "bench", "growth"), *axis.arguments(point), *candidate.arguments.get("growth", [])]
	if with_ticks:
		return run_with_ticks(command, candidate, options)
	return execute.run_program(command, candidate, timeout_s=300)


def measure_point(axis, point, chosen, options):
	"""Figures of each candidate at one point: the medians of its runs, which are interleaved."""
	runs = options.runs if axis.needs(point) <= SMALL_BYTES else 1
	results = {candidate.name: [] for candidate in chosen}
	for number in range(runs):
		for candidate in chosen:
			print(f"\r\033[K{axis.name} {point:g}: {candidate.name} {number + 1}/{runs}", end="", file=sys.stderr, flush=True)
			results[candidate.name].append(measure(axis, point, candidate, options, candidate.name == "shim" and number == 0))
	return {name: {figure: report.median(found, figure) for figure in FIGURES} for name, found in results.items()}


def measure_axis(axis, chosen, options):
	"""The series of an axis, and what was skipped of it. A skipped point has null for a figure."""
	points, skipped, found = axis.quick if options.quick else axis.points, [], []
	for point in points:
		reason = why_skipped(axis, point, options)
		if reason:
			skipped.append({"axis": axis.name, "x": point, "why": reason})
		found.append({} if reason else measure_point(axis, point, chosen, options))
	series = []
	for candidate in chosen:
		for figure in FIGURES:
			values = [at.get(candidate.name, {}).get(figure) for at in found]
			if any(value is not None for value in values):
				series.append({"axis": axis.name, "x": points, "candidate": candidate.name, "figure": figure, "y": values})
	return series, skipped


def exponent(one, other):
	return math.log(other[1] / one[1]) / math.log(other[0] / one[0])


def worse_than_linear(line):
	"""The stretches of a series, each over three points, in which its cost grows faster than what it is drawn against."""
	noise = NOISE.get(line["figure"])
	if noise is None:
		return []
	known = [(x, y) for x, y in zip(line["x"], line["y"]) if y is not None and y >= noise]
	stretches = zip(known, known[2:])
	return [f"{line['candidate']} {line['figure']} from {line['axis']} {one[0]:g} to {other[0]:g}: {one[1]:.4g} to {other[1]:.4g}"
		f" (exponent {exponent(one, other):.2f})" for one, other in stretches if exponent(one, other) > WORSE]


def whole_exponent(line):
	"""Of the cost as a power of what it is drawn against, from the first point to the last: 0 flat, 1 linear."""
	known = [(x, y) for x, y in zip(line["x"], line["y"]) if y is not None and y > 0]
	return f"{exponent(known[0], known[-1]):>8.2f}" if len(known) > 1 else ""


def print_series(series):
	for axis in dict.fromkeys(line["axis"] for line in series):
		lines = [line for line in series if line["axis"] == axis]
		print(f"\n{axis:32}" + "".join(f"{x:>10g}" for x in lines[0]["x"]) + "   power")
		for figure in FIGURES:
			for line in (line for line in lines if line["figure"] == figure):
				values = "".join(f"{report.format_number(y):>10}" for y in line["y"])
				print(f"{figure + ' ' + line['candidate']:32}{values}{whole_exponent(line)}")


def main(argv):
	options = parse_options(argv)
	candidates.use_build(options.build)
	about, begun = machine.describe(), time.monotonic()
	chosen = [candidates.parse(name) for name in candidates.split(options.candidates)]
	for candidate in [candidate for candidate in chosen if candidate.missing()]:
		print(f"skipped: {candidate.name} ({candidate.missing()})", file=sys.stderr)
		chosen.remove(candidate)
	wanted, series, skipped = options.axes.split(","), [], []
	for axis in AXES:
		if axis.name in wanted:
			measured, left_out = measure_axis(axis, chosen, options)
			series, skipped = series + measured, skipped + left_out
	print("\r\033[K", end="", file=sys.stderr)
	print_series(series)
	for point in skipped:
		print(f"skipped: {point['axis']} {point['x']:g} ({point['why']})")
	worse = [text for line in series for text in worse_than_linear(line)]
	for text in worse:
		print(f"{'WORSE THAN LINEAR' if text.startswith('shim') else 'worse than linear'}: {text}")
	if options.json != "-":
		path = options.json or report.result_path("growth")
		report.save(path, {"growth": 1, "machine": about, "series": series, "skipped": skipped, "worse_than_linear": worse,
			"took_s": round(time.monotonic() - begun, 1)})
		print(f"figures: {os.path.relpath(path)}")
	return 0


if __name__ == "__main__":
	try:
		sys.exit(main(sys.argv[1:]))
	except (RuntimeError, ValueError, OSError, subprocess.TimeoutExpired) as error:
		sys.exit(f"growth: {error}")
	except KeyboardInterrupt:
		sys.exit(130)
