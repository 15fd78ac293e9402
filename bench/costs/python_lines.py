#!/usr/bin/env python3
"""What `mtctl sites --python` costs a program: the CPU time of its work during a look, as a multiple of the time before it; and for
each new block the bytes of tracemalloc's tables and the CPU time of one reading, which stops the program.

The program counts how often it does its work, and the CPU time that this takes. The fastest tenth of a second before and during the
look are compared. One table in Markdown on stdout. Options: --python PATH (repeatable; all of ~/.pyenv and /usr/bin/python3 from 3.9 on), --seconds, --build."""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPTHS = (1, 10)

# Work that only allocates, work of a library in C that allocates much, and work that computes.
PROGRAM = r'''
import json, sys, time
TEXT = json.dumps({str(i): [i, str(i), {"a": i * 1.5}] for i in range(300)})
def objects():
    for i in range(300):
        one = {"number": i, "texts": [str(i), "%d" % i]}
def parse():
    json.dumps(json.loads(TEXT))
def compute():
    total = 0.0
    for i in range(3000):
        total += i * 0.5 - total / 3
def deep(levels, work):
    return deep(levels - 1, work) if levels else work()
work, due, loops = globals()[sys.argv[1]], 0, 0
while True:
    deep(8, work)
    loops += 1
    if time.monotonic() > due:
        due = time.monotonic() + 0.1
        print(time.monotonic(), time.process_time(), loops, flush=True)
'''


# The CPU time of one reading, in ms for each 1,000 blocks, and the bytes that each takes in the tables.
READING = r'''
import _tracemalloc, gc, sys, time
_tracemalloc.start(int(sys.argv[1]))
kept = [str(i) * 3 for i in range(200000)]
gc.disable()
took = []
for _ in range(5):
    began = time.process_time()
    traces = _tracemalloc._get_traces()
    took.append((time.process_time() - began) * 1e6 / len(traces))
print(_tracemalloc.get_tracemalloc_memory() / len(traces), min(took))
'''


def rate(samples, since, until):
	"""CPU seconds for one loop between two moments, at the fastest."""
	inside = [sample for sample in samples if since <= sample[0] <= until]
	return min((after[1] - before[1]) / (after[2] - before[2]) for before, after in zip(inside, inside[1:]))


def measure(python, work, depth, options, folder):
	environment = dict(os.environ, LD_PRELOAD=str(options.build / "libmtshim.so"), MT_DIR=folder, MT_MIN_MB="0")
	with open(pathlib.Path(folder) / "out", "w+") as out:
		program = subprocess.Popen([python, "-c", PROGRAM, work], env=environment, stdout=out)
		began = time.monotonic()
		while pathlib.Path(out.name).read_text().count("\n") < 8:  # on a busy machine it starts late
			time.sleep(0.1)
		before = time.monotonic()
		look = subprocess.run([options.build / "mtctl", "sites", str(program.pid), "--python", "--json", f"--for={options.seconds}",
		                       f"--frames={depth}"], env=dict(os.environ, MT_DIR=folder), capture_output=True, text=True)
		after = time.monotonic()
		program.kill()
		program.wait()
		out.seek(0)
		lines = [list(map(float, line.split())) for line in out.read().splitlines()]
	if not look.stdout:
		sys.exit(f"{python}: {look.stderr}")
	report = json.loads(look.stdout)
	# mtctl ends some time after the look
	end = after - 0.2
	return rate(lines, end - report["over_ms"] / 1000 + 0.4, end) / rate(lines, began, before)


def pythons():
	found = ["/usr/bin/python3", *map(str, pathlib.Path.home().glob(".pyenv/versions/3.*/bin/python3"))]
	versions = {}
	for path in found:
		match = re.match(r"Python 3\.(\d+)", subprocess.run([path, "-V"], capture_output=True, text=True).stdout)
		if match and int(match[1]) >= 9:
			versions.setdefault(int(match[1]), path)
	return [versions[minor] for minor in sorted(versions)]


def main():
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--python", action="append")
	parser.add_argument("--seconds", type=float, default=3)
	parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
	options = parser.parse_args()
	options.build = options.build.resolve()
	print("| Python | frames | only allocates | JSON | computes | bytes a block | reading, ms per 1,000 blocks |")
	print("| --- | --- | --- | --- | --- | --- | --- |")
	for python in options.python or pythons():
		version = subprocess.run([python, "-V"], capture_output=True, text=True).stdout.split()[1]
		for depth in DEPTHS:
			with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
				times = [measure(python, work, depth, options, folder) for work in ("objects", "parse", "compute")]
			table_bytes, reading_ms = subprocess.run([python, "-c", READING, str(depth)], capture_output=True, text=True, check=True).stdout.split()
			print(f"| {version} | {depth} | " + " | ".join(f"{ratio:.1f}" for ratio in times) +
			      f" | {float(table_bytes):.0f} | {float(reading_ms):.2f} |", flush=True)


if __name__ == "__main__":
	main()
