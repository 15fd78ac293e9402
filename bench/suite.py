#!/usr/bin/python3
"""The bench suite: programs as people run them, under the allocators that people would use instead of the shim.

  bench/suite.py                                   everything: more than an hour on 2 cores
  bench/suite.py --quick                           some rows, some peers: under 5 minutes
  bench/suite.py --workload steps,churn --candidates glibc,jemalloc,shim --runs 5
  bench/suite.py --candidate 'shim+fast:MT_IDLE_MS=250'     one more candidate
  bench/suite.py --resume                          goes on where a suite was stopped
  bench/suite.py --proof 40                        README's rows beside the peers of today, in rounds until 40 minutes are over
  bench/suite.py --list

Every candidate runs once in each round; a ratio is that of two runs of one round. The first candidate is what the others
are compared with, and glibc runs twice in each round: their ratio is the noise. All runs go to bench/results/suite-DATE.json
(--json FILE; - for nowhere), tables and plots beside it. Exits 1 when a run has failed, 130 when it was stopped.
"""
import argparse
import os
import shlex
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import report  # pylint: disable=wrong-import-position
from lib import candidates, machine, plan, processes, proof, proof_bounds, report as files, store, suite_data  # pylint: disable=wrong-import-position
from lib.monitor import Monitor  # pylint: disable=wrong-import-position
from lib.progress import Progress  # pylint: disable=wrong-import-position
from lib.schedule import KEEP_FREE_MIB, Schedule  # pylint: disable=wrong-import-position
from lib.summary import noise_of, print_summary  # pylint: disable=wrong-import-position

IDLE_S, IDLE_QUICK_S = 15.0, 12.0   # the shim settles after 10 s, jemalloc decays for 10


def parse_options(argv):
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--workload", help="labels or names separated by commas; all of them without")
	parser.add_argument("--candidates", help="names separated by commas; the first is what the others are compared with")
	parser.add_argument("--candidate", action="append", default=[], help="one more: a name, or NAME:VAR=VALUE,...")
	parser.add_argument("--runs", type=int, help="runs of each candidate")
	parser.add_argument("--quick", action="store_true", help="only rows that have quick arguments, few candidates, 2 runs")
	parser.add_argument("--idle", type=float, help="seconds for which a program lies idle when its work is done")
	parser.add_argument("--timeout", type=float, default=300, help="seconds in which a program must have done its work")
	parser.add_argument("--resume", action="store_true", help="go on where a suite was stopped; other options are then not needed")
	parser.add_argument("--list", action="store_true", help="list rows and candidates")
	parser.add_argument("--json", help="where the figures go (default bench/results/suite-DATE.json); - for nowhere")
	parser.add_argument("--no-report", dest="report", action="store_false", help="figures alone: no text, plots, promises")
	parser.add_argument("--build", default="build", help="where libmtshim.so, mtctl and bench/ lie")
	parser.add_argument("--no-warm", dest="warm", action="store_false", help="no first look at each row to fill the page cache")
	parser.add_argument("--proof", type=int, choices=sorted(proof.BUDGETS), metavar="MINUTES",
		help="the rows and peers of lib/proof.py: " + ", ".join(map(str, sorted(proof.BUDGETS))))
	parser.add_argument("--entries", metavar="FILE", help="other rows than the suite's: a JSON list of what lib/entries.py has")
	options = parser.parse_args(argv)
	options.idle = options.idle or (IDLE_QUICK_S if options.quick else IDLE_S)
	return options


def chosen_by(options):
	"""What decides which runs are made."""
	return {name: value for name, value in vars(options).items() if name not in ("resume", "build", "json", "report")}


def list_all(rows):
	width = max(len(row.label) for row in rows)
	for row in rows:
		marks = [word for word, holds in (("quick", row.quick is not None), ("hands-on", row.hands_on)) if holds]
		print(f"{row.label:{width}}  {row.group:9}  {row.title}" + (f"  ({', '.join(marks)})" if marks else ""))
	print("candidates: " + " ".join(plan.EVERYBODY))
	print("others:     " + " ".join(one.name for one in candidates.BUILT_IN if one.name not in plan.EVERYBODY))


class Suite:
	def __init__(self, argv):
		self.options = parse_options(argv)
		self.state = store.State(os.path.join(self.options.build, "bench", "suite"))
		self.argv = [word for word in argv if word != "--resume"]
		self.header, self.records = None, []
		if self.options.resume and not self.options.list:
			self.take_up()
		candidates.use_build(self.options.build)
		rows = proof.rows_of(self.options.proof) if self.options.proof and not self.options.entries else plan.read_entries(self.options.entries)
		self.rows = plan.choose_entries(rows, self.options.workload, self.options.quick)
		if self.options.proof and not self.options.candidates:
			self.options.candidates = ",".join(proof.BUDGETS[self.options.proof].candidates)
		self.chosen, self.skipped = plan.choose_candidates(self.options)
		self.mtctl = os.path.abspath(os.path.join(self.options.build, "mtctl"))

	def take_up(self):
		"""The options of the suite that was stopped. Others on the command line must be the same; where the figures go is free."""
		self.state.claim()  # a suite that runs is writing what is read here
		self.header, self.records = self.state.load()
		stored, given = parse_options(self.header["argv"]), self.options
		if chosen_by(given) not in (chosen_by(stored), chosen_by(parse_options([]))):
			raise SystemExit(f"the suite that was stopped had other options: {shlex.join(self.header['argv']) or 'none'}")
		now = machine.describe()["commit"]
		if now != self.header["machine"]["commit"]:
			print(f"resuming a suite of commit {self.header['machine']['commit']}, but this is {now}: its figures mix the two",
				file=sys.stderr)
		self.argv, self.options = self.header["argv"], stored
		stored.build, stored.json = given.build, given.json or stored.json

	def begin(self):
		if self.options.json not in (None, "-"):
			with open(self.options.json, "a", encoding="utf-8"):
				pass  # better now than after an hour
		if not self.header:
			self.header = {"suite": 1, "argv": self.argv, "date": time.strftime("%Y-%m-%d %H:%M"),
				"options": self.described_options(), "machine": machine.describe()}
			self.state.begin(self.header)

	def described_options(self):
		return {"quick": self.options.quick, "idle_s": self.options.idle, "runs": self.options.runs,
			"workloads": [row.label for row in self.rows], "candidates": [one.name for one in self.chosen]}

	def jobs_left(self, jobs):
		"""What has figures is not run again; nor is a first look made of what is done."""
		done = {store.key_of(run) for run in store.by_outcome(self.records)[0]}
		left = [job for job in jobs if job.key not in done]
		if self.options.proof:
			return left
		labels = {job.entry.label for job in left if job.number >= 0}
		return [job for job in left if job.number >= 0 or job.entry.label in labels]

	def start(self, job):
		idle_s = 0 if job.number < 0 else self.options.idle
		return Monitor(job, job.command(self.options.build, idle_s), idle_s, self.options.timeout, self.mtctl)

	def run(self):
		for name, reason in self.skipped.items():
			print(f"skipped: {name} ({reason})", file=sys.stderr)
		self.begin()
		if processes.available_mib() < KEEP_FREE_MIB:
			print(f"less than {KEEP_FREE_MIB >> 10} GiB of memory are free: nothing is run while another program still lies idle, so "
				"that this takes several times as long as the time left says", file=sys.stderr)
		with proof.HugePages().restored() as huge_pages:
			if self.options.proof:
				self.run_rounds(huge_pages)
			else:
				self.run_jobs(plan.make_jobs(self.rows, self.chosen, self.options))
		return self.finish()

	def run_rounds(self, huge_pages):
		"""Of a proof: as many rounds as the minutes allow, so that each row has the same number of runs."""
		budget = proof.BUDGETS[self.options.proof]
		least, most = (self.options.runs,) * 2 if self.options.runs else (budget.least_runs, budget.most_runs)
		begun, longest_s = time.monotonic(), 0.0
		for number in range(-1 if self.options.warm else 0, most):
			round_begun = time.monotonic()
			if number >= least and round_begun - begun + longest_s > 60 * self.options.proof:
				return
			self.run_jobs(plan.make_round(self.rows, self.chosen, number), huge_pages)
			longest_s = max(longest_s, time.monotonic() - round_begun)

	def run_jobs(self, jobs, huge_pages=None):
		jobs = self.jobs_left(jobs)
		progress = Progress(jobs, self.options.idle)
		for run in store.by_outcome(self.records)[0]:
			progress.learn(run["workload"], run["figures"]["run_s"])

		def done(record, job):
			if job.number >= 0:
				self.state.append(record)
				self.records.append(record)
			progress.ended(job, record)

		try:
			Schedule(jobs, self.start, done, progress.begins, huge_pages).run()
		finally:
			progress.clear()

	def result(self):
		runs, failed = store.by_outcome(self.records)
		return {"suite": 1, "date": self.header["date"], "command": shlex.join(["bench/suite.py", *self.argv]),
			"machine": self.header["machine"], "options": self.header["options"],
			"entries": {row.label: {"title": row.title, "group": row.group, "arguments": row.quick if self.options.quick and
				row.quick is not None else row.arguments} for row in self.rows},
			"candidates": {one.name: one.recorded() for one in self.chosen},
			"advised_by": {one.name: one.source for one in self.chosen if one.source},
			"skipped": self.skipped, "noise": noise_of(runs, self.rows), "failed": failed, "runs": runs}

	def finish(self):
		result = self.result()
		print_summary(result)
		if self.options.proof:
			bounds = proof_bounds.check(suite_data.Suite(result))
			result["bounds"] = [row.record() for row in bounds]
			print("\n" + "\n".join(row.line() for row in bounds))
		status = 1 if result["failed"] or not result["runs"] else 0
		if self.options.json == "-" or not result["runs"]:
			return status
		path = files.save(self.options.json or files.result_path(self.kind()), result)
		print(f"figures: {os.path.relpath(path)}", flush=True)
		kept = self.report(path) if self.options.report and not self.options.proof else 0
		return status if self.options.quick else status or kept

	def kind(self):
		"""What the file's name begins with: `make bench-report` takes the newest of whole suites alone."""
		options = self.options
		if options.proof:
			return "proof-part" if options.workload or options.entries or [one.name for one in self.chosen] != list(proof.BUDGETS[options.proof].candidates) else "proof"
		is_part = options.workload or options.candidates or options.entries
		return "suite-part" if is_part else "suite-quick" if options.quick else "suite"

	def report(self, path):
		"""Text and plots beside the figures; then the promises, for which a whole suite is needed."""
		stem = os.path.splitext(path)[0]
		report.main([path, "--markdown", stem + ".md", "--plots", stem + "-plots"])
		print(f"as text: {os.path.relpath(stem)}.md; plots: {os.path.relpath(stem)}-plots/\n", flush=True)
		return 0 if self.options.workload else report.main([path, "--bounds"])


def stop(_number, _frame):
	raise KeyboardInterrupt


def main(argv):
	for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # a shell's background job ignores the first
		signal.signal(number, stop)
	suite = Suite(argv)
	if suite.options.list:
		list_all(suite.rows)
		return 0
	if not suite.rows or not suite.chosen:
		raise SystemExit("nothing to run: no row, or no candidate that can run here")
	suite.state.claim()
	try:
		return suite.run()
	except KeyboardInterrupt:
		build = [] if suite.options.build == "build" else ["--build", suite.options.build]
		print("stopped; what has run is kept. Go on with: " + " ".join(["bench/suite.py", "--resume", *build]), file=sys.stderr)
		return 130


if __name__ == "__main__":
	sys.exit(main(sys.argv[1:]))
