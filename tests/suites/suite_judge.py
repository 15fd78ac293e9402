"""Whether a suite says with the shim what it says without. What differs is run again, both ways, to tell flakes from
differences; what is left must be explained, case by case, in explained.txt. What is not is a failure.

A case that differs is one of
  explained  a line of explained.txt has it, with the outcomes that it has
  flaky      without the shim it has, in some run, the outcome that it has with it
  once       it was different in one run with the shim, and in none of those that followed
  different  none of these: a failure
"""
import collections
import dataclasses
import fnmatch
import pathlib

import suite_run

EXPLAINED = pathlib.Path(__file__).resolve().parent / "explained.txt"
ABSENT = "absent"
CRASHES = ("signal", "timeout")


@dataclasses.dataclass(frozen=True)
class Explanation:
	unit: str       # SUITE/NAME
	variants: tuple
	bare: str
	shim: str
	case: str       # a glob
	reason: str

	def covers(self, unit, variant, case, bare, shim):
		return (self.unit == unit and variant in self.variants and (self.bare, self.shim) == (bare, shim) and
		        fnmatch.fnmatchcase(case, self.case))


def read_explained(path=EXPLAINED):
	"""UNIT VARIANT,... BARE->SHIM CASE on a line, its reason on indented lines below; _ for a space in an outcome."""
	found = []
	for line in path.read_text().splitlines():
		if not line.strip() or line.startswith("#"):
			continue
		if line[0].isspace():
			found[-1][-1] += (" " if found[-1][-1] else "") + line.strip()
			continue
		unit, variants, change, case = line.split(None, 3)
		bare, _, shim = change.replace("_", " ").partition("->")
		unknown = set(variants.split(",")) - set(suite_run.VARIANTS)
		if not shim or unknown:
			raise ValueError(f"{path}: {line}")
		found.append([unit, tuple(variants.split(",")), bare, shim, case, ""])
	without = [row[4] for row in found if not row[5]]
	if without:
		raise ValueError(f"{path}: no reason is given for {without}")
	return [Explanation(*row) for row in found]


@dataclasses.dataclass
class Difference:
	variant: str
	case: str
	bare: list      # outcomes in the order of the runs
	shim: list
	kind: str = "different"
	reason: str = ""
	tail: str = ""


@dataclasses.dataclass
class Verdict:
	unit: suite_run.Unit
	bare: suite_run.Run
	runs: dict = dataclasses.field(default_factory=dict)          # variant: its first run
	differences: list = dataclasses.field(default_factory=list)
	broken: str = ""

	def count(self, variant, kind):
		return sum(1 for one in self.differences if one.variant == variant and one.kind == kind)

	@property
	def failures(self):
		"""Returns a line for each failure."""
		lines = [f"{self.unit.full_name}: {self.broken}"] if self.broken else []
		for one in self.differences:
			if one.kind == "different":
				lines.append(f"{self.unit.full_name} ({one.variant}) {one.case}: "
				             f"without the shim {one.bare}, with it {one.shim}")
		return lines


def differing(bare, shim):
	"""Names of cases that two runs do not agree on. The exit status only says that some case differs, where one does; and it
	says all, where nothing else is left."""
	if len(shim.cases) == 1 < len(bare.cases):
		return {"(exit)"}
	names = {name for name in bare.cases.keys() | shim.cases.keys()
	         if bare.cases.get(name, ABSENT) != shim.cases.get(name, ABSENT)}
	if len(names) > 1 and not shim.status.startswith(CRASHES):
		names.discard("(exit)")
	return names


def _classify(one):
	"""A crash that happens once is not a flake."""
	if set(one.shim) <= set(one.bare):
		return "flaky"
	odd = [outcome for outcome in one.shim if outcome not in one.bare]
	return "once" if len(one.shim) > 1 and len(odd) == 1 and not odd[0].startswith("signal") else "different"


class Judge:
	def __init__(self, session, explained=None, again=3):
		self.session = session
		self.explained = read_explained() if explained is None else explained
		self.again = again
		self.used = collections.Counter()  # explanations

	def _explain(self, unit, one):
		for explanation in self.explained:
			if explanation.covers(unit.full_name, one.variant, one.case, one.bare[0], one.shim[0]):
				self.used[explanation] += 1
				one.kind, one.reason = "explained", explanation.reason
				return True
		return False

	def _judge_variant(self, verdict, variant):
		unit = verdict.unit
		bare, shim = [verdict.bare], [verdict.runs[variant]]

		def differences():
			names = set().union(*(differing(bare[0], run) for run in shim))
			return [Difference(variant, name, [run.cases.get(name, ABSENT) for run in bare],
			                   [run.cases.get(name, ABSENT) for run in shim], tail=shim[0].tail) for name in sorted(names)]
		found = differences()
		if all([self._explain(unit, one) for one in found]):
			return found
		shim += [self.session.run(unit, variant) for _ in range(self.again)]
		bare += [self.session.run(unit, "bare") for _ in range(self.again)]
		found = differences()
		for one in found:
			if not self._explain(unit, one):
				one.kind = _classify(one)
		return found

	def judge(self, unit, variants=None):
		verdict = Verdict(unit, self.session.run(unit, "bare"))
		if unit.only_if_passes and verdict.bare.status != "exit 0":
			return verdict
		if verdict.bare.status == "timeout":
			verdict.broken = f"not done after {unit.limit_s} s without the shim"
		elif len(verdict.bare.cases) == 1 and unit.reads_cases:
			verdict.broken = f"no test was run without the shim ({verdict.bare.status})\n{verdict.bare.tail}"
		elif set(verdict.bare.tests.values()) == {"error"}:
			# As where a package that the tests import is missing: the same with the shim, and says nothing.
			verdict.broken = f"no test could be run without the shim\n{verdict.bare.tail}"
		if verdict.broken:
			return verdict
		for variant in unit.variants if variants is None else variants:
			run = verdict.runs[variant] = self.session.run(unit, variant)
			if suite_run.keeps_log(variant) and run.programs == 0:
				verdict.broken = f"({variant}) no program has loaded the shim"
			verdict.differences += self._judge_variant(verdict, variant)
		return verdict
