"""What a program costs under each allocator: CPU time, instructions, page faults, memory. Shared by the scripts of this folder.

CPU time is the minimum of N runs that take turns, user and system together, in seconds. Instructions are callgrind's, of one run.
Memory is the peak of the process in MiB, or what the caller reads. A ratio is against the first candidate.
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

PEERS = (("jemalloc", "libjemalloc.so.2"), ("tcmalloc", "libtcmalloc_minimal.so.4"), ("mimalloc", "libmimalloc.so.[23]"))


def peers(more):
	"""Names and environments of glibc, of Debian's allocators that are installed, and of `more`: NAME=FILE."""
	found = {"glibc": {}}
	for name, file in PEERS:
		if os.path.exists(library(file)):
			found[name] = {"LD_PRELOAD": library(file)}
	for pair in more:
		name, _, file = pair.partition("=")
		if not os.path.exists(file):
			raise SystemExit(f"--peer {pair}: no such file")
		found[name] = {"LD_PRELOAD": file}
	return found


def shim(build):
	return str(pathlib.Path(build).resolve() / "libmtshim.so")


def peers_and_shim(options):
	return {**peers(options.peer), "shim": {"LD_PRELOAD": shim(options.build)}}


def environment(variables):
	plain = {name: value for name, value in os.environ.items() if not name.startswith(("MT_", "MALLOC_", "PYTHON", "LD_PRELOAD"))}
	return {**plain, "PYTHONHASHSEED": "0", **variables}


def run(command, variables):
	"""CPU seconds and minor page faults of one run. Not its peak memory: to the kernel that includes its parent's, up to exec."""
	process = subprocess.Popen(command, env=environment(variables), stdout=subprocess.DEVNULL)
	_, status, usage = os.wait4(process.pid, 0)
	if status != 0:
		raise SystemExit(f"{command[0]} {variables}: status {status}")
	return usage.ru_utime + usage.ru_stime, usage.ru_minflt


def peak_mib(command, variables):
	"""The largest of three runs."""
	peaks = []
	for _ in range(3):
		preload = [f"{name}={value}" for name, value in variables.items()]
		done = subprocess.run(["/usr/bin/time", "--format", "%M", "env", *preload, *command], env=environment({}),
		                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True)
		peaks.append(int(done.stderr.split()[-1]) / 1024)
	return max(peaks)


def count_instructions(command, variables):
	done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command], env=environment(variables),
	                      capture_output=True, text=True)
	match = re.search(r"Collected : (\d+)", done.stderr)
	return int(match[1]) if done.returncode == 0 and match else None


def measure(command, chosen, options, repeat=1, instructions=True, memory=peak_mib):
	"""A row of figures for each candidate. repeat: processes that count as one run. instructions: whether they say something.
	memory: called with the command and a candidate's variables, returns MiB."""
	rows = {name: {"cpu_s": [], "faults": 0} for name in chosen}
	for _ in range(options.runs):
		for name, variables in chosen.items():
			runs = [run(command, variables) for _ in range(repeat)]
			rows[name]["cpu_s"].append(sum(cpu for cpu, _ in runs))
			rows[name]["faults"] = runs[0][1]
	for name, variables in chosen.items():
		rows[name]["cpu_s"] = min(rows[name]["cpu_s"])
		rows[name]["instructions"] = count_instructions(command, variables) if options.instructions and instructions else None
		rows[name]["rss_mib"] = memory(command, variables)
	return rows


def show(title, rows):
	first = next(iter(rows.values()))
	print(f"\n{title:22} {'CPU s':>7} {'ratio':>6} {'M instr':>8} {'ratio':>6} {'faults':>8} {'MiB':>8}")
	for name, row in rows.items():
		count = row["instructions"]
		text = f"{count / 1e6:8.2f} {count / first['instructions']:6.3f}" if count and first["instructions"] else f"{'-':>8} {'-':>6}"
		print(f"{name:22} {row['cpu_s']:7.3f} {row['cpu_s'] / first['cpu_s']:6.3f} {text} {row['faults']:8} {row['rss_mib']:8.1f}", flush=True)


def parser_of(doc):
	parser = argparse.ArgumentParser(description=doc.splitlines()[0])
	parser.add_argument("--build", default="build")
	parser.add_argument("--runs", type=int, default=7)
	parser.add_argument("--instructions", action="store_true", help="count them with callgrind, some minutes more")
	parser.add_argument("--only", default="", help="names of candidates, separated by semicolons")
	parser.add_argument("--programs", default="", help="names of programs, separated by commas")
	parser.add_argument("--peer", action="append", default=[], help="NAME=FILE: one more allocator; may be given again")
	parser.add_argument("--json", help="write the figures to this file")
	return parser


def choose(names, found, separator):
	"""Those of `found` that the option names, all without one; ends the script where a name is not known."""
	wanted = [name.strip() for name in names.split(separator) if name.strip()]
	unknown = [name for name in wanted if name not in found]
	if unknown:
		raise SystemExit(f"unknown: {', '.join(unknown)}; known: {', '.join(found)}")
	return {name: value for name, value in found.items() if not wanted or name in wanted}


def compare(options, found, programs):
	"""Measures and prints the candidates and programs that the options choose. programs: for each name the command, and arguments of
	measure() by name."""
	chosen = choose(options.only, found, ";")
	results = {}
	for name, (command, arguments) in choose(options.programs, programs, ",").items():
		results[name] = measure(command, chosen, options, **arguments)
		show(name, results[name])
	if options.json:
		pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
