#!/usr/bin/python3
"""What programs cost where huge pages are always made: CPU time, page faults, and memory.

  bench/huge/times.py [--runs 3] [--programs ...] [--candidates glibc,shim] [--candidate "before:LD_PRELOAD=FILE"]

Runs are interleaved. The machine's setting is `always` (root) while a program works, and restored after each. CPU time is the lowest
of the runs, in seconds, user and system; faults in thousands; memory in MiB at the peak and 12 s after the work, by when a heap at rest has
been purged."""
import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import huge
from huge import candidates, execute

AFTER_S = huge.SOON_S
PROGRAMS = {
	"small blocks": ["huge_survivors"],
	"steps": ["steps", "--steps", "5", "--period", "0.2"],
	"malloc_large": ["malloc_large"],
	"python": ["pyheavy.py"],
	"redis": ["real_redis.py", "--libc", "--scale", "0.4"],
	"torch, matrices": ["large_matrices.py"],
	"training": ["fl_rounds.py", "--rounds", "3", "--wait", "1"],
	"service": ["server.py"],
}
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def command_of(program, build):
	script, *arguments = PROGRAMS[program]
	path = huge.ROOT / "bench" / "workloads" / script
	words = [sys.executable, str(path)] if script.endswith(".py") else [str(build / "bench" / script)]
	return [*words, *arguments, "--idle", "600"]


def children_of(pid):
	return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def figures_of(pid):
	fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
	status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
	return {
		"cpu_s": (int(fields[11]) + int(fields[12])) / TICKS_PER_S,
		"faults": int(fields[7]) / 1000,
		"peak": int(status["VmHWM"].split()[0]) / 1024,
		"end": int(status["VmRSS"].split()[0]) / 1024,
	}


def measure(program, candidate, build):
	"""The workloads of real programs start the program that is measured; others are it."""
	is_real = PROGRAMS[program][0].startswith("real_")
	environment = execute.environment_of(candidate)
	if is_real:
		environment = {**execute.clean_environment(), "BENCH_ENVIRONMENT": json.dumps(candidate.variables())}
	with huge.machine_set_to("always", {}), subprocess.Popen(command_of(program, build), env=environment, stdout=subprocess.PIPE,
			text=True, start_new_session=True) as process:
		try:
			huge.wait_for_idle(process)
			pid = children_of(process.pid)[0] if is_real else process.pid
			worked = figures_of(pid)
			time.sleep(AFTER_S)
			return {**worked, "end": figures_of(pid)["end"]}
		finally:
			os.killpg(process.pid, signal.SIGKILL)


def cell(rows):
	def lowest(name):
		return min(row[name] for row in rows)
	return f"{lowest('cpu_s'):.2f} s, {lowest('faults'):.0f}, {lowest('peak'):.0f}, {lowest('end'):.0f}"


def main():
	parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
	parser.add_argument("--build", default="build", type=pathlib.Path)
	parser.add_argument("--runs", type=int, default=3)
	parser.add_argument("--programs", default=";".join(PROGRAMS), help="names with semicolons between them")
	parser.add_argument("--candidates", default="glibc,shim")
	parser.add_argument("--candidate", action="append", default=[], help="one more: NAME:VAR=VALUE,...")
	options = parser.parse_args()
	options.build = options.build.resolve()
	candidates.use_build(str(options.build))
	chosen = [candidates.parse(name) for name in [*candidates.split(options.candidates), *options.candidate]]
	print("| `always` |", " | ".join(candidate.name for candidate in chosen), "|\n| --- |", " | ".join("---" for _ in chosen), "|")
	for program in options.programs.split(";"):
		rows = {candidate.name: [] for candidate in chosen}
		for _ in range(options.runs):
			for candidate in chosen:
				rows[candidate.name].append(measure(program, candidate, options.build))
		print(f"| {program} |", " | ".join(map(cell, rows.values())), "|", flush=True)


if __name__ == "__main__":
	main()
