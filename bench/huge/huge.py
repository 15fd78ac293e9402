#!/usr/bin/python3
"""What transparent huge pages cost: resident memory and the cgroup's charge right after a purge and five minutes later.

  bench/huge/huge.py [--build build] [--settings always,madvise,never] [--programs ...] [--candidates ...] [--quick]

Each program runs in a memory cgroup of its own until its work is done, and then lies idle. Figures are those after 12 s, in which
each allocator may purge, and after 30 s more. khugepaged works ten times as fast meanwhile, and on eight times as many pages, since
several programs lie idle at a time: 30 s are five minutes. Sets the machine's setting (root), and restores it. --quick: the
setting that the machine has, one program, no waits."""
import argparse
import contextlib
import json
import pathlib
import signal
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests" / "lib")]
import memory_group  # noqa: E402
from lib import candidates, execute  # noqa: E402

THP = pathlib.Path("/sys/kernel/mm/transparent_hugepage")
FAST = {"khugepaged/scan_sleep_millisecs": 1000, "khugepaged/alloc_sleep_millisecs": 6000, "khugepaged/pages_to_scan": 8 * 4096}
SOON_S, LATER_S = 12, 30
PROGRAMS = {
	"survivors": ["huge_survivors"],
	"numpy": ["huge_numpy.py"],
	"training": ["fl_rounds.py", "--rounds", "4", "--wait", "1"],
	"service": ["server.py"],
}
MIB = 1 << 20


def chosen(text):
	"""Returns what a file of the kernel says: of several words the one in brackets."""
	words = text.split()
	return next((word.strip("[]") for word in words if word.startswith("[")), words[0])


@contextlib.contextmanager
def machine_set_to(setting, khugepaged=FAST):
	"""The machine has this setting, and a fast khugepaged. None: it stays as it is."""
	signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))  # the setting is restored
	wanted = {"enabled": setting, **khugepaged} if setting else {}
	before = {name: chosen((THP / name).read_text()) for name in wanted}
	try:
		for name, value in wanted.items():
			(THP / name).write_text(str(value))
		yield
	finally:
		for name, value in before.items():
			(THP / name).write_text(value)


@contextlib.contextmanager
def group(name):
	"""A memory cgroup; None where none can be made."""
	try:
		made = memory_group.MemoryGroup(name, 4096 * MIB)
	except memory_group.CannotMake:
		yield None
		return
	try:
		yield made
	finally:
		made.remove()


def rss_mib(pid):
	fields = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
	return int(fields["VmRSS"].split()[0]) / 1024


def command_of(program, build, idle_s):
	script, *arguments = PROGRAMS[program]
	path = ROOT / "bench" / "workloads" / script
	words = [sys.executable, str(path)] if script.endswith(".py") else [str(build / "bench" / script)]
	return [*words, *arguments, "--idle", str(idle_s)]


def wait_for_idle(process):
	for line in process.stdout:
		if line.startswith("{") and json.loads(line).get("event") == "idle":
			return
	raise SystemExit(f"{process.args} ended with {process.wait()} before its work was done")


def watch(process, place, row, waits):
	"""Adds the figures of an idle program to its row, and ends it."""
	for when, seconds in waits.items():
		time.sleep(seconds)
		row[f"{when}_rss_mib"] = round(rss_mib(process.pid), 1)
		row[f"{when}_charge_mib"] = round(place.read("memory.usage_in_bytes") / MIB, 1) if place else None
	process.kill()
	process.wait()


def measure(program, candidate, build, waits, stack):
	"""Runs a program until it lies idle. Returns its row, and the thread that completes it."""
	place = stack.enter_context(group(f"mtshim-huge-{program}-{candidate.name}"))
	command = command_of(program, build, sum(waits.values()) + 60)
	begun = time.monotonic()
	process = subprocess.Popen(command, env=execute.environment_of(candidate), stdout=subprocess.PIPE, text=True,
		preexec_fn=place.enter if place else None)
	stack.callback(process.kill)
	wait_for_idle(process)
	row = {"program": program, "candidate": candidate.name, "time_s": round(time.monotonic() - begun, 2)}
	thread = threading.Thread(target=watch, args=(process, place, row, waits))
	thread.start()
	return row, thread


def measure_setting(setting, options, waits):
	rows, threads = [], []
	with machine_set_to(setting), contextlib.ExitStack() as stack:
		for program in options.programs.split(","):
			for candidate in map(candidates.parse, candidates.split(options.candidates)):
				if candidate.missing():
					print(f"{candidate.name}: {candidate.missing()}", file=sys.stderr)
					continue
				row, thread = measure(program, candidate, options.build, waits, stack)
				rows.append(row)
				threads.append(thread)
		for thread in threads:
			thread.join()
	return [{"setting": setting or chosen((THP / "enabled").read_text()), **row} for row in rows]


def cell(row):
	def mib(name):
		return "?" if row[name] is None else f"{row[name]:.0f}"
	soon, later = (f"{mib(f'{when}_rss_mib')} / {mib(f'{when}_charge_mib')}" for when in ("soon", "later"))
	return f"{soon} -> {later}; {row['time_s']:.1f} s"


def print_table(rows):
	"""RSS / charge right after -> five minutes later, in MiB; time."""
	names = list(dict.fromkeys(row["candidate"] for row in rows))
	print("| program, setting |", " | ".join(names), "|\n| --- |", " | ".join("---" for _ in names), "|")
	cells = {(row["program"], row["setting"], row["candidate"]): cell(row) for row in rows}
	for program, setting in dict.fromkeys((row["program"], row["setting"]) for row in rows):
		print(f"| {program}, {setting} |", " | ".join(cells.get((program, setting, name), "") for name in names), "|")


def main():
	parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
	parser.add_argument("--build", default="build", type=pathlib.Path)
	parser.add_argument("--settings", default="always,madvise,never")
	parser.add_argument("--programs", default=",".join(PROGRAMS))
	parser.add_argument("--candidates", default="glibc,jemalloc,mimalloc,shim")
	parser.add_argument("--quick", action="store_true")
	parser.add_argument("--json", help="also write all rows to this file")
	options = parser.parse_args()
	options.build = options.build.resolve()
	candidates.use_build(str(options.build))
	waits = {"soon": SOON_S, "later": LATER_S}
	if options.quick:
		options.programs, options.candidates, waits = "survivors", "glibc,shim", {"soon": 0, "later": 0}
	settings = [None] if options.quick else options.settings.split(",")
	rows = [row for setting in settings for row in measure_setting(setting, options, waits)]
	print_table(rows)
	if options.json:
		pathlib.Path(options.json).write_text(json.dumps(rows, indent="\t"))


if __name__ == "__main__":
	main()
