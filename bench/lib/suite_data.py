"""A result file of the suite, to be asked: who ran where, what a figure was, how two candidates compare.

Ratios are paired: run i of one over run i of the other, which ran next to each other; their geometric mean stands for
them all (lib/ratio.py). Nothing here measures or prints.
"""
import json
import statistics

from lib import candidates, ratio
from lib.entries import ENTRIES, TRAINING, PYTHON, ALLOCATOR, REAL

FIRST = "glibc"
OURS = "shim"
GROUPS = {TRAINING: "training", PYTHON: "Python", ALLOCATOR: "allocator", REAL: "real programs"}


def is_ours(name):
	return name.split("-")[0].split("+")[0] == OURS


def is_again(name):
	"""The second glibc of each round: there to tell the noise, no peer of its own."""
	return name.endswith("-again")


def flag(name, which):
	"""by_hand or python of a candidate; one that was made up on the command line has neither."""
	return any(getattr(candidate, which) for candidate in candidates.BUILT_IN if candidate.name == name)


def joined(record, others):
	"""One result from several that have different rows; a row that is in two of them stays as the first has it."""
	whole = {**record, "entries": dict(record["entries"]), "candidates": dict(record.get("candidates", {})),
		"runs": list(record["runs"]), "failed": list(record.get("failed", []))}
	for other in others:
		if other.get("machine", {}).get("cpu") != record.get("machine", {}).get("cpu"):
			raise ValueError("results of different machines do not make one")
		new = {label: entry for label, entry in other["entries"].items() if label not in whole["entries"]}
		whole["entries"] |= new
		whole["candidates"] = {**other.get("candidates", {}), **whole["candidates"]}
		for key in ("runs", "failed"):
			whole[key] += [run for run in other.get(key, []) if run["workload"] in new]
		if new and other.get("machine", {}).get("commit") != record.get("machine", {}).get("commit"):
			whole["machine"] = {**whole["machine"], "commit": f"{whole['machine'].get('commit')} ({', '.join(new)}: "
				f"{other['machine'].get('commit')})"}
		whole["command"] = "; ".join(filter(None, [whole.get("command"), other.get("command")]))
	return whole


class Suite:
	def __init__(self, record):
		if "suite" not in record:
			raise ValueError("this is no result of bench/suite.py")
		self.record = record
		self.entries = record["entries"]
		self.environments = record.get("candidates", {})
		self.names = list(self.environments)
		self.all_runs = {}
		self.failures = list(record.get("failed", []))
		for run in record["runs"]:
			self.take(run)

	def take(self, run):
		"""A run that failed is kept apart, with what it said."""
		if run.get("error") or "figures" not in run:
			self.failures.append({**run, "reason": run.get("error") or run.get("reason") or "no figures"})
			return
		self.all_runs.setdefault((run["workload"], run["candidate"]), []).append(run)
		if run["candidate"] not in self.names:
			self.names.append(run["candidate"])

	def labels(self, group=None):
		"""Rows in the order of the file, those of one group or all; rows that nobody ran are left out."""
		ran = {label for label, _ in self.all_runs}
		return [label for label in self.entries if label in ran and group in (None, self.entries[label].get("group"))]

	def groups(self):
		"""(group, its labels) in the order of the tables; groups that nobody knows come last."""
		known = {entry.get("group") for entry in self.entries.values()}
		order = [group for group in GROUPS if group in known] + sorted(group for group in known if group not in GROUPS)
		return [(group, self.labels(group)) for group in order if self.labels(group)]

	def runs(self, label, name):
		return self.all_runs.get((label, name), [])

	def values(self, label, name, key):
		figures = (run["figures"].get(key) for run in self.runs(label, name))
		return [value for value in figures if isinstance(value, (int, float)) and not isinstance(value, bool)]

	def value(self, label, name, key):
		values = self.values(label, name, key)
		return statistics.median(values) if values else None

	def ratio(self, label, one, other, key):
		"""One candidate over another on one row; None where they share no round with this figure."""
		if one == other:
			runs = self.with_figure(label, one, key)
			return ratio.Ratio(1.0, None, None, len(runs), 0.0 if len(runs) > 1 else None) if runs else None
		return ratio.paired(self.runs(label, one), self.runs(label, other), key)

	def with_figure(self, label, name, key):
		"""Runs that can stand in a ratio: a figure that is missing or 0 cannot."""
		return [run for run in self.runs(label, name)
			if isinstance(run["figures"].get(key), (int, float)) and run["figures"][key] > 0]

	def stand_in(self, label, name):
		"""Who ran for a candidate on this row: itself, or the one that differs from it in PYTHONMALLOC alone, where the
		program is not Python and the two are the same thing."""
		if self.runs(label, name):
			return name
		mine = self.environments.get(name, {})
		if "PYTHONMALLOC" not in mine or flag_python_row(label):
			return name
		rest = {variable: value for variable, value in mine.items() if variable != "PYTHONMALLOC"}
		same = (other for other, environment in self.environments.items()
			if environment == rest and not is_again(other) and not flag(other, "by_hand"))
		return next(same, name)

	def mean_ratio(self, labels, one, other, key):
		"""Geometric mean over several rows, or None where a candidate lacks one of them."""
		ratios = [self.ratio(label, self.stand_in(label, one), self.stand_in(label, other), key) for label in labels]
		return None if None in ratios else ratio.over_workloads(ratios)

	def peers(self, label=None, by_hand=True):
		"""Candidates that are not ours, on one row or anywhere; by_hand=False: only those that change no program."""
		return [name for name in self.names if not is_ours(name) and not is_again(name)
			and (by_hand or not flag(name, "by_hand")) and (label is None or self.runs(label, name))]

	def lowest(self, label, key, by_hand=True):
		"""(the peer whose figure is lowest on a row, as a ratio to the first candidate)."""
		ratios = {name: self.ratio(label, name, FIRST, key) for name in self.peers(label, by_hand)}
		known = {name: found.value for name, found in ratios.items() if found}
		return min(known, key=known.get) if known else None

	def middle_run(self, label, name, key="integral_mib_s"):
		"""The run to draw: the one whose figure is the median, among those that have samples."""
		runs = [run for run in self.runs(label, name) if run.get("samples")]
		runs.sort(key=lambda run: run["figures"].get(key) or 0)
		return runs[len(runs) // 2] if runs else None


def flag_python_row(label):
	return any(entry.is_python for entry in ENTRIES if entry.label == label)


def load(path):
	with open(path, encoding="utf-8") as text:
		return json.load(text)
