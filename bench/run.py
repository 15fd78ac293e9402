#!/usr/bin/python3
"""Runs a workload under several candidates, interleaved (A B C A B C ...), and compares.

  bench/run.py WORKLOAD [--candidates glibc,shim] [--candidate 'shim+fast:MT_IDLE_MS=250'] [--runs 5] [-- arguments]

Prints medians, the ratio of each candidate to the first (median, lowest, highest of the paired runs), writes every
single figure with the machine and the versions to bench/results/WORKLOAD-DATE.json, and holds the figures against
bench/bounds.py. Exits 0 when every bound that could be checked holds (with --strict: when every bound was checked and
holds), 1 when one does not, 2 on wrong use.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import bounds  # pylint: disable=wrong-import-position
from lib import candidates, execute, machine, report, workloads  # pylint: disable=wrong-import-position


def parse_options(argv):
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("workload", nargs="?")
	parser.add_argument("--candidates", help="names separated by commas; the first is what the others are compared to")
	parser.add_argument("--candidate", action="append", default=[], help="one more: a name, or NAME:VAR=VALUE,...")
	parser.add_argument("--runs", type=int, help="runs of each candidate")
	parser.add_argument("--json", help="where the figures go (default bench/results/WORKLOAD-DATE.json); - for nowhere")
	parser.add_argument("--build", default="build", help="where libmtshim.so, mtctl and bench/ lie")
	parser.add_argument("--label", help="the name under which bounds and results go, where it is not the workload's")
	parser.add_argument("--strict", action="store_true", help="a bound that could not be checked counts as broken")
	parser.add_argument("--no-bounds", action="store_true", help="only measure")
	parser.add_argument("--list", action="store_true", help="list workloads and candidates")
	parser.add_argument("arguments", nargs="*", help="after --: arguments for the workload instead of its own")
	return parser.parse_args(argv)


def list_all():
	print("workloads:  " + " ".join(workload.name for workload in workloads.LIST))
	print("candidates: " + " ".join(candidate.name for candidate in candidates.BUILT_IN))


def choose(options, workload):
	names = candidates.split(options.candidates) if options.candidates else list(workload.candidates)
	chosen = []
	for candidate in map(candidates.parse, names + options.candidate):
		missing = candidate.missing()
		if missing:
			print(f"skipped: {candidate.name} ({missing})", file=sys.stderr)
		else:
			chosen.append(candidate)
	return chosen


def measure_once(workload, candidate, options, label, arguments):
	arguments = arguments + candidate.arguments.get(label, [])
	if workload.measure:
		return workload.measure(candidate, arguments, options.build)
	return execute.run_program(workload.command(options.build) + arguments, candidate)


def measure_all(workload, chosen, options, label, arguments):
	results = {candidate.name: [] for candidate in chosen}
	quiet = not sys.stderr.isatty()
	runs = options.runs or workload.runs
	for number in range(runs):
		for candidate in chosen:
			if not quiet:
				print(f"\r\033[Krun {number + 1}/{runs}: {candidate.name}", end="", file=sys.stderr, flush=True)
			results[candidate.name].append(measure_once(workload, candidate, options, label, arguments))
	if not quiet:
		print("\r\033[K", end="", file=sys.stderr)
	return results


def print_remarks(results):
	for name, runs in results.items():
		said = {run["stderr"] for run in runs if run.get("stderr")}
		for text in sorted(said):
			print(f"{name} said: {text}")
		if any(run.get("end_file_mib", 0) < 0.9 * run.get("import_file_mib", 0) for run in runs):
			print(f"{name}: the kernel took file pages away (memory was short on this machine): RSS figures are not fair")


def run_variant(workload, options, label, arguments):
	chosen = choose(options, workload)
	if not chosen:
		raise SystemExit(f"{label}: no candidate can run here")
	about = machine.describe()
	results = measure_all(workload, chosen, options, label, arguments)
	print(f"\n{label} {' '.join(arguments)}".rstrip() + f", {len(next(iter(results.values())))} runs, interleaved")
	print(report.table(results, workload.show))
	print_remarks(results)
	verdicts = [] if options.no_bounds else bounds.check(label, results)
	for verdict in verdicts:
		print(verdict.line())
	if options.json != "-":
		path = options.json or report.result_path(label)
		report.save(path, {"workload": workload.name, "label": label, "arguments": arguments, "machine": about,
			"candidates": {candidate.name: candidate.recorded() for candidate in chosen}, "runs": results,
			"bounds": [verdict.record() for verdict in verdicts]})
		print(f"figures: {os.path.relpath(path)}")
	return all(verdict.holds or (verdict.holds is None and not options.strict) for verdict in verdicts)


def main(argv):
	own, dashes, arguments = argv, [], []
	if "--" in argv:
		at = argv.index("--")
		own, dashes, arguments = argv[:at], ["--"], argv[at + 1:]
	options = parse_options(own)
	if options.list or not options.workload:
		list_all()
		return 0 if options.list else 2
	candidates.use_build(options.build)
	workload = workloads.by_name(options.workload)
	if dashes or not workload.variants:
		return 0 if run_variant(workload, options, options.label or workload.name, arguments or workload.arguments) else 1
	holds = [run_variant(workload, options, label, own_arguments) for label, own_arguments in workload.variants]
	return 0 if all(holds) else 1


if __name__ == "__main__":
	try:
		sys.exit(main(sys.argv[1:]))
	except (RuntimeError, ValueError, OSError) as error:
		sys.exit(f"bench: {error}")
	except KeyboardInterrupt:
		sys.exit(130)
