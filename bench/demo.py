#!/usr/bin/python3
"""The demo: the same PyTorch program without and with the shim, a SIGUSR1 in the middle, a table and a picture.

Usually called by `make demo`. Writes rss.svg, rss.png and runs.json into --out (default build/demo).
"""
import argparse
import dataclasses
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib import candidates, watch, workloads  # pylint: disable=wrong-import-position


def parse_options():
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--rounds", type=int, default=10)
	parser.add_argument("--wait", type=float, default=2.0, help="seconds between rounds (a real one waits far longer)")
	parser.add_argument("--candidate", default="shim", help="who is shown below; as for bench/run.py")
	parser.add_argument("--build", default="build", help="where libmtshim.so lies")
	parser.add_argument("--out", default="build/demo")
	parser.add_argument("--redraw", metavar="RUNS.json", help="draw the picture of earlier runs again, and run nothing")
	return parser.parse_args()


def run_one(options, candidate, signal_round):
	command = workloads.by_name("fl_rounds").command(options.build)
	command += ["--rounds", str(options.rounds), "--wait", str(options.wait), "--events"]

	def on_event(event, send):
		if event["event"] == "wait" and event["number"] == signal_round:
			# at once: what the round has dropped is still resident, and the shim has not returned it by itself
			sent = send()
			print(f"  after round {signal_round}: kill -USR1" if sent else "  no shim in the process: no signal", flush=True)

	variables = " ".join(f"{name}={value}" for name, value in candidate.recorded().items())
	print(f"running: {variables + ' ' if variables else ''}fl_rounds.py --rounds {options.rounds} --wait {options.wait}",
		flush=True)
	return watch.watch(command, candidate, on_event)


def last_ends(run):
	last = run.figures["end_rss_mib"][-4:]
	return sum(last) / len(last)


def print_table(without, with_shim):
	rows = [
		("RSS at the end of a round, last 4 (MB)", last_ends(without), last_ends(with_shim)),
		("  of that above the floor (MB)", last_ends(without) - without.figures["floor_mib"],
			last_ends(with_shim) - with_shim.figures["floor_mib"]),
		("peak RSS (MB)", without.figures["peak_mib"], with_shim.figures["peak_mib"]),
		("CPU time (s)", without.figures["own_cpu_s"], with_shim.figures["own_cpu_s"]),
		("time without the waits (s)", without.figures["active_s"], with_shim.figures["active_s"]),
		("whole run (s)", without.figures["total_s"], with_shim.figures["total_s"]),
	]
	print(f"\n{'':42}{'without':>10}{'with':>10}{'ratio':>9}")
	for name, one, two in rows:
		digits = 1 if name.endswith("(s)") else 0
		print(f"{name:42}{one:>10.{digits}f}{two:>10.{digits}f}{two / one:>8.2f}x")


def tell_load(load_before):
	"""What else ran makes the times, not the library: the two runs come one after the other."""
	if load_before > os.cpu_count() / 2:
		print(f"\nThe machine was busy before the demo began (load {load_before:.1f} on {os.cpu_count()} CPUs): compare its CPU time, not its times.")


def tell_signal(run):
	for moment in run.signals:
		before, after = run.rss_at(moment - 0.05), run.rss_at(moment + 0.9)
		print(f"\nSIGUSR1 at {moment:.1f} s: RSS {before:.0f} MB before, {after:.0f} MB 0.9 s later; the program went on.")


def draw(options, candidate, without, with_shim):
	from lib import plot  # pylint: disable=import-outside-toplevel  # matplotlib takes a second to load

	paths = [os.path.join(options.out, name) for name in ("rss.svg", "rss.png")]
	title = "with LD_PRELOAD=libmtshim.so" if candidate.name == "shim" else f"with {candidate.name}"
	plot.draw(without, with_shim, options.wait, title, paths)
	print(f"\npicture: {paths[1]} (and {os.path.basename(paths[0])})")


def redraw(options):
	with open(options.redraw, encoding="utf-8") as file:
		runs = {name: watch.Watched(**run) for name, run in json.load(file).items()}
	os.makedirs(options.out, exist_ok=True)
	print_table(runs["without"], runs["with"])
	draw(options, candidates.parse(options.candidate), runs["without"], runs["with"])


def main():
	options = parse_options()
	candidates.use_build(options.build)
	if options.redraw:
		redraw(options)
		return
	candidate = candidates.parse(options.candidate)
	if candidate.missing():
		raise SystemExit(f"demo: {candidate.missing()}; run make")
	os.makedirs(options.out, exist_ok=True)
	load_before = os.getloadavg()[0]
	without = run_one(options, candidates.parse("glibc"), 0)
	with_shim = run_one(options, candidate, options.rounds // 2)
	print_table(without, with_shim)
	tell_load(load_before)
	tell_signal(with_shim)
	with open(os.path.join(options.out, "runs.json"), "w", encoding="utf-8") as out:
		json.dump({"without": dataclasses.asdict(without), "with": dataclasses.asdict(with_shim)}, out)
	draw(options, candidate, without, with_shim)


if __name__ == "__main__":
	try:
		main()
	except RuntimeError as error:
		sys.exit(f"demo: {error}")
