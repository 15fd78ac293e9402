#!/usr/bin/python3
"""What programs of PyTorch and a FastAPI service hold when their work is done, with and without the library, in turns.

  bench/rest.py [--build build] [--runs 3] [--python build/frameworks/torch/bin/python] [KIND...]

KIND: one of bench/workloads/at_rest.py. A program has done its work, waits for 12 s, and is looked at: RSS, anonymous memory and the
peak of RSS in MiB, CPU seconds of user and kernel. Figures are medians of the runs. A kind whose packages are not there is left out."""
import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAM = ROOT / "bench" / "workloads" / "at_rest.py"
KINDS = ("import", "fastapi", "trainer", "lightning", "matrices", "compile")
REST_S = 12


def figures_of(pid):
	"""Returns RSS, anonymous memory and the peak of RSS in MiB, and the CPU seconds of a process."""
	folder = pathlib.Path("/proc", str(pid))
	rollup, status = (folder / "smaps_rollup").read_text(), (folder / "status").read_text()
	rss, anonymous = (int(re.search(rf"^{name}:\s+(\d+)", rollup, re.MULTILINE)[1]) / 1024 for name in ("Rss", "Anonymous"))
	ticks = (folder / "stat").read_text().rpartition(")")[2].split()[11:13]
	return rss, anonymous, int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024, sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def run_one(python, kind, library):
	"""Returns the figures of one run at rest, or None: it did not get there."""
	environment = dict(os.environ, OMP_NUM_THREADS="2", CUDA_VISIBLE_DEVICES="", **({"LD_PRELOAD": str(library)} if library else {}))
	with subprocess.Popen([python, PROGRAM, kind], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
	                      stderr=subprocess.DEVNULL, text=True) as process:
		if not any(line.strip() == "rest" for line in process.stdout):
			return None
		time.sleep(REST_S)
		return figures_of(process.pid)


def main():
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--build", default="build")
	parser.add_argument("--runs", type=int, default=3)
	parser.add_argument("--python", default=ROOT / "build" / "frameworks" / "torch" / "bin" / "python")
	parser.add_argument("kinds", nargs="*", metavar="KIND", default=KINDS)
	arguments = parser.parse_args()
	libraries = {"bare": None, "shim": (ROOT / arguments.build / "libmtshim.so").resolve()}
	print(f"{'MiB':10} {'':5} {'RSS':>8} {'anonymous':>10} {'peak':>8} {'CPU s':>7}")
	measured = 0
	for kind in arguments.kinds:
		rows = {name: [] for name in libraries}
		for _ in range(arguments.runs):
			for name, library in libraries.items():
				rows[name].append(run_one(arguments.python, kind, library))
		if None in rows["bare"]:
			print(f"{kind:10} left out: it does not run without the library either")
			continue
		for name, runs in rows.items():
			if None in runs:
				sys.exit(f"{kind}: it runs without the library, and not with it")
			rss, anonymous, peak, cpu = (statistics.median(column) for column in zip(*runs))
			print(f"{kind:10} {name:5} {rss:8.1f} {anonymous:10.1f} {peak:8.1f} {cpu:7.1f}", flush=True)
		measured += 1
	return 0 if measured else 1


if __name__ == "__main__":
	sys.exit(main())
