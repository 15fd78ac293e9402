#!/usr/bin/python3
"""What small Python objects cost under each allocator: instructions, CPU time, page faults, and memory after a rest.

  bench/costs/python_objects.py [--build DIR] [--python PATH] [--runs N] [--instructions] [--only NAME;...] [--programs NAME,...] [--json FILE]

Runs of the candidates take turns; CPU time is the minimum of N runs, user and system together. Instructions are callgrind's, of one
run. RSS is read 12 s after the work has ended. A ratio is against glibc with Python's own allocator.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from lib.candidates import library  # noqa: E402

REST_S = 12
PROGRAMS = {
	# makes and drops 1.6 million dicts; 1 in 1000 lives on
	"dicts": "for _ in range(4):\n\trows = [{'x': i, 'y': str(i)} for i in range(400000)]; kept = rows[::1000]; rows = None\n",
	# the same in 7 MB
	"few dicts": "for _ in range(40):\n\trows = [{'x': i, 'y': str(i)} for i in range(20000)]; kept = rows[::1000]; rows = None\n",
	"json": (
		"import json\n"
		"text = json.dumps([{'id': i, 'name': 'n%d' % i, 'tags': ['a%d' % (i % 97), 'b%d' % i]} for i in range(100000)])\n"
		"kept = []\n"
		"for _ in range(3):\n\trows = json.loads(text); kept.append(rows[::500]); rows = None\n"),
	"syntax trees": (
		"import ast, glob, os\n"
		"kept = []\n"
		"for path in sorted(glob.glob(os.path.dirname(ast.__file__) + '/*.py'))[:60]:\n"
		"\ttree = ast.parse(open(path, encoding='utf8', errors='replace').read()); kept.append(tree.body[:1]); tree = None\n"),
}
REST = (
	"import sys\n"
	"if len(sys.argv) > 1:\n"
	"\timport time; time.sleep(float(sys.argv[1]))\n"
	"\tprint(next(int(line.split()[1]) for line in open('/proc/self/status') if line.startswith('VmRSS')))\n")


def candidates(build):
	shim = str(pathlib.Path(build).resolve() / "libmtshim.so")
	found = {"glibc": {}}
	for name, file in (("jemalloc", "libjemalloc.so.2"), ("tcmalloc", "libtcmalloc_minimal.so.4"), ("mimalloc", "libmimalloc.so.2.0")):
		if os.path.exists(library(file)):
			found[name] = {"LD_PRELOAD": library(file)}
	found.update({f"{name}, malloc": {**variables, "PYTHONMALLOC": "malloc"} for name, variables in found.items()})
	for value in "auto", "malloc", "off":
		found[f"shim, {value}"] = {"LD_PRELOAD": shim, "MT_PYTHON_MALLOC": value}
	return found


def environment(variables):
	plain = {name: value for name, value in os.environ.items() if not name.startswith(("MT_", "MALLOC_", "PYTHON", "LD_PRELOAD"))}
	return {**plain, "PYTHONHASHSEED": "0", **variables}


def run(command, variables):
	process = subprocess.Popen(command, env=environment(variables), stdout=subprocess.DEVNULL)
	_, status, usage = os.wait4(process.pid, 0)
	if status != 0:
		raise SystemExit(f"{variables}: status {status}")
	return usage.ru_utime + usage.ru_stime, usage.ru_minflt


def count_instructions(command, variables):
	done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command], env=environment(variables),
	                      capture_output=True, text=True)
	match = re.search(r"Collected : (\d+)", done.stderr)
	return int(match[1]) if done.returncode == 0 and match else None


def rss_at_rest(command, variables):
	done = subprocess.run([*command, str(REST_S)], env=environment(variables), capture_output=True, text=True, check=True)
	return int(done.stdout.split()[-1]) / 1024


def measure(command, chosen, options):
	times = {name: [] for name in chosen}
	faults = {}
	for _ in range(options.runs):
		for name, variables in chosen.items():
			cpu, faults[name] = run(command, variables)
			times[name].append(cpu)
	return {
		name: {
			"cpu_s": min(times[name]),
			"faults": faults[name],
			"rss_mib": rss_at_rest(command, variables),
			"instructions": count_instructions(command, variables) if options.instructions else None,
		}
		for name, variables in chosen.items()
	}


def show(program, rows):
	first = next(iter(rows.values()))
	print(f"\n{program:18} {'CPU s':>7} {'ratio':>6} {'M instr':>8} {'ratio':>6} {'faults':>8} {'RSS MiB':>8}")
	for name, row in rows.items():
		count = row["instructions"]
		instructions = f"{count / 1e6:8.0f} {count / first['instructions']:6.3f}" if count and first["instructions"] else f"{'-':>8} {'-':>6}"
		print(f"{name:18} {row['cpu_s']:7.3f} {row['cpu_s'] / first['cpu_s']:6.3f} {instructions} {row['faults']:8} {row['rss_mib']:8.0f}",
		      flush=True)


def main():
	parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
	parser.add_argument("--build", default="build")
	parser.add_argument("--python", default="/usr/bin/python3")
	parser.add_argument("--runs", type=int, default=7)
	parser.add_argument("--instructions", action="store_true", help="count them with callgrind, some minutes more")
	parser.add_argument("--only", default="", help="names of candidates, separated by semicolons")
	parser.add_argument("--programs", default="", help="names of programs, separated by commas")
	parser.add_argument("--json", help="write the figures to this file")
	options = parser.parse_args()
	only = [name.strip() for name in options.only.split(";") if name.strip()]
	chosen = {name: variables for name, variables in candidates(options.build).items() if not only or name in only}
	wanted = [name.strip() for name in options.programs.split(",") if name.strip()] or list(PROGRAMS)
	results = {}
	for program in wanted:
		results[program] = measure([options.python, "-c", PROGRAMS[program] + REST], chosen, options)
		show(program, results[program])
	if options.json:
		pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
	main()
