"""What the suite runs, and in which order: workload by workload, in each round all candidates once."""
import dataclasses
import json
import math
import os

from lib import candidates, entries

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = os.environ.get("PYTHON", "/usr/bin/python3")

# The first is what the others are compared with. Which of them run on a row, the row says.
EVERYBODY = ["glibc", "glibc-again", "glibc-arena2", "glibc-trim", "glibc-malloc", "jemalloc", "jemalloc-decay5s",
	"jemalloc-background", "jemalloc-malloc", "tcmalloc", "mimalloc", "shim", "shim-pymalloc", "shim-system", "shim-nopurge"]
QUICK = ["glibc", "glibc-again", "jemalloc", "tcmalloc", "shim"]


@dataclasses.dataclass(frozen=True)
class Job:
	"""One run. `number` is the round, -1 a first run whose figures nobody keeps: it fills the page cache."""
	entry: entries.Entry
	candidate: candidates.Candidate
	number: int
	arguments: tuple

	@property
	def key(self):
		return self.entry.label, self.candidate.name, self.number

	def command(self, build, idle_s):
		words = program(self.entry, build) + list(self.arguments) + ["--idle", f"{idle_s:g}"]
		return self.candidate.command(words, self.entry.hands_on)


def program(entry, build):
	script = os.path.join(BENCH, "workloads", entry.name + ".py")
	if os.path.exists(script):
		return [PYTHON, script]
	return [os.path.abspath(os.path.join(build, "bench", entry.name))]


def read_entries(path):
	"""The rows of the suite, or those of a file: a JSON list of rows."""
	if not path:
		return entries.ENTRIES
	with open(path, encoding="utf-8") as file:
		return [entries.Entry(**row) for row in json.load(file)]


def choose_entries(rows, labels, quick):
	"""Rows by label; a name chooses all the rows of that program."""
	if labels:
		wanted = labels.split(",")
		known = {word for row in rows for word in (row.label, row.name)}
		unknown = [label for label in wanted if label not in known]
		if unknown:
			raise SystemExit(f"no workload {', '.join(unknown)}; there are: {', '.join(row.label for row in rows)}")
		rows = [row for row in rows if row.label in wanted or row.name in wanted]
	return [row for row in rows if not quick or row.quick is not None or labels]


def choose_candidates(options):
	"""(those that can run here, name -> why it cannot)."""
	names = candidates.split(options.candidates) if options.candidates else QUICK if options.quick else EVERYBODY
	chosen, skipped = [], {}
	for candidate in map(candidates.parse, names + options.candidate):
		missing = candidate.missing()
		if missing:
			skipped[candidate.name] = missing
		else:
			chosen.append(candidate)
	return chosen, skipped


def runs_on(candidate, entry, named=False):
	"""named: the candidate was asked for, so that it also runs where it only would to keep the suite short."""
	return ((entry.by_hand is not None or not candidate.by_hand) and (entry.is_python or not candidate.python) and
		(named or not candidate.setting or entry.group == entries.TRAINING))


def arguments_of(entry, candidate, quick):
	"""Where a row can trim by hand that is one candidate's alone; elsewhere a candidate may say how it is asked to trim."""
	own = list(entry.quick if quick and entry.quick is not None else entry.arguments)
	if candidate.by_hand:
		return own + entry.by_hand
	return own if entry.by_hand is not None else own + candidate.arguments.get(entry.label, [])


def order(count, number):
	"""The order of a round. Steps of another width each round, so that nobody always follows the same one, from another
	beginning, so that nobody is always first. Rows have orders of their own as well: who lies idle next to whom (and gives
	memory back meanwhile, which takes CPU time) would else be the same on every row."""
	widths = [width for width in range(1, max(2, count)) if math.gcd(width, count) == 1]
	width = widths[number % len(widths)]
	return [(number + place * width) % count for place in range(count)]


def make_round(rows, chosen, number):
	"""Of a proof: each row under each candidate once. Round -1 fills the page cache."""
	jobs = []
	for row, entry in enumerate(rows):
		places = [0] if number < 0 else order(len(chosen), row + number)
		jobs += [Job(entry, chosen[place], number, tuple(arguments_of(entry, chosen[place], False))) for place in places]
	return jobs


def make_jobs(rows, chosen, options):
	jobs = []
	for row, entry in enumerate(rows):
		able = [candidate for candidate in chosen if runs_on(candidate, entry, bool(options.candidates))]
		if able and not options.quick and options.warm:
			jobs.append(Job(entry, able[0], -1, tuple(arguments_of(entry, able[0], options.quick))))
		for number in range(options.runs or (2 if options.quick else entry.runs)):
			for place in order(len(able), row + number):
				candidate = able[place]
				jobs.append(Job(entry, candidate, number, tuple(arguments_of(entry, candidate, options.quick))))
	return jobs
