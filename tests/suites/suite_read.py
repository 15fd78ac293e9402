"""What a run of a suite said, as {name of a test case: outcome}. Outcomes are words (pass, fail, error, skip, ...) or, where a
test's answer is more than yes or no, that answer; all that is done with them is to see whether two are the same.

A reader gets the Output of a run and answers its cases; {} where the suite left nothing to be read, as after a crash.
"""
import dataclasses
import hashlib
import pathlib
import re
import xml.etree.ElementTree

# Another in each run: addresses, and the seeds of GLib's random tests.
NUMBERS = ((re.compile(r"0x[0-9a-f]{4,}"), "0xN"), (re.compile(r"\bseed:\d+"), "seed:N"))
# Of two results of one case (a test that fails and then fails to clean up) the later in this list counts.
RANK = ["pass", "xfail", "skip", "unexpected success", "fail", "error"]
TAP_LINE = re.compile(r"\s*(not )?ok\b\s*(\d+)?\s*(?:- )?\s*([^#]*?)\s*(?:#\s*(\w+).*)?$")
TAP_NOTHING = re.compile(r"1\.\.0\s*#\s*skip", re.IGNORECASE)
MTR_LINE = re.compile(r"^(\S+\.\S+(?: '[^']*')?)\s+(?:w\d+\s+)?\[ ([a-z-]+) \]", re.MULTILINE)


@dataclasses.dataclass
class Output:
	"""The output of a run: two texts, and the file with its results."""
	stdout: str
	stderr: str
	results: pathlib.Path


def _worse(one, other):
	rank = {word: place for place, word in enumerate(RANK)}
	return max(one, other, key=lambda word: rank.get(word, len(RANK)))


def _put(cases, name, outcome):
	"""Removes addresses and the like from names of parametrized tests: they differ in each process."""
	for number, letter in NUMBERS:
		name = number.sub(letter, name)
	cases[name] = _worse(cases[name], outcome) if name in cases else outcome


def _junit_outcome(case):
	if case.find("error") is not None:
		return "error"
	if case.find("failure") is not None:
		return "fail"
	if case.find("skipped") is not None or case.get("status") == "notrun" or case.get("result") == "skipped":
		return "skip"
	if case.get("outcome"):  # regrtest: UNEXPECTED_SUCCESS
		return case.get("outcome").lower().replace("_", " ")
	return "xfail" if case.find("output") is not None else "pass"


def read_junit(output):
	"""The XML of pytest, of regrtest and of googletest, three dialects of one format."""
	try:
		root = xml.etree.ElementTree.parse(output.results).getroot()
	except (OSError, xml.etree.ElementTree.ParseError):
		return {}
	cases = {}
	unnamed = 0
	for case in root.iter("testcase"):
		name = ".".join(part for part in (case.get("classname"), case.get("name")) if part)
		if name:
			_put(cases, name, _junit_outcome(case))
		else:
			# regrtest names a case with its result, and has none for a test of which only a subtest failed.
			unnamed += 1
			cases[f"(failed in a subtest {unnamed})"] = "fail"
	return cases


def read_tap(output):
	"""TAP of GLib's and other tests: a line for each case."""
	cases = {}
	for line in output.stdout.splitlines():
		if line.lstrip().startswith("Bail out!"):
			cases["(bail out)"] = "fail"
		if TAP_NOTHING.match(line):
			cases["(all)"] = "skip"
		found = TAP_LINE.match(line)
		if not found:
			continue
		bad, number, name, directive = found.groups()
		outcome = "skip" if (directive or "").upper() == "SKIP" else "fail" if bad else "pass"
		_put(cases, name or f"case {number}", outcome)
	return cases


def read_lines(output):
	"""Programs of this folder: the name of a case, a tab, and its outcome."""
	return dict(line.split("\t", 1) for line in output.stdout.splitlines() if "\t" in line)


def read_mtr(output):
	"""mariadb-test-run's lines."""
	cases = {}
	for name, outcome in MTR_LINE.findall(output.stdout):
		_put(cases, name, {"skipped": "skip", "disabled": "skip"}.get(outcome, outcome))
	return cases


def read_text(output):
	"""The whole output is the result."""
	return {"(output)": hashlib.sha256(output.stdout.encode()).hexdigest()[:16]}


def read_exit(output):
	"""Only the exit status counts, which is kept for every run."""
	del output
	return {}
