#!/usr/bin/python3
"""Memory of thread pools that have freed all they had: RSS in MB after 3 s of rest, and after `mtctl trim`, of 100, 300 and 800
threads with glibc, jemalloc, mimalloc and the shim. Peers that are not installed are left out.

  bench/costs/idle_threads.py [--mib 2] [--shim FILE]
"""
import argparse
import glob
import os
import pathlib
import subprocess
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parent.parent / "build"


def rss_mb(pid):
	"""Of smaps_rollup: statm may be 64 pages old for each thread."""
	text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
	return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Rss:")) >> 10


def measure(program, threads, mib, library):
	environment = {name: value for name, value in os.environ.items() if not name.startswith("MT_") and name != "LD_PRELOAD"}
	if library:
		environment["LD_PRELOAD"] = str(library)
	with subprocess.Popen([program, str(threads), str(mib)], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
		if process.stdout.readline() != b"ready\n":
			raise SystemExit(f"the program with {library or 'glibc'} did not get ready")
		time.sleep(3)
		rest = rss_mb(process.pid)
		if "mtshim" in str(library):
			subprocess.run([BUILD / "mtctl", "trim", str(process.pid)], capture_output=True, check=True)
		trimmed = rss_mb(process.pid)
		process.kill()
	return rest, trimmed


def main():
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--mib", type=int, default=2)
	parser.add_argument("--shim", default=BUILD / "libmtshim.so")
	options = parser.parse_args()
	candidates = {"glibc": None, "shim": options.shim}
	for name in ("jemalloc", "mimalloc"):
		found = glob.glob(f"/usr/lib/*/lib{name}.so.2")
		if found:
			candidates[name] = found[0]
	with tempfile.TemporaryDirectory() as folder:
		program = f"{folder}/idle_threads"
		subprocess.run(["cc", "-O2", "-pthread", HERE.parent.parent / "tests" / "heap" / "idle_threads.c", "-o", program], check=True)
		for threads in (100, 300, 800):
			for name, library in candidates.items():
				print(threads, name, *measure(program, threads, options.mib, library), flush=True)


main()
