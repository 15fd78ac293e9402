#!/usr/bin/python3
"""Writes the newest whole proof (`make bench-proof`) into README.md and docs/benchmarks.md, and draws its three pictures.

  bench/pages.py [FILE]      FILE: a result of bench/suite.py --proof (default: the newest bench/results/proof-2*.json)

A page has a mark before and after each part that comes from here: <!-- proof: NAME --> and <!-- end of NAME -->. The rest is written by hand.
"""
import argparse
import glob
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))

from lib import proof, proof_bounds, suite_data  # noqa: E402
from lib.entries import ALLOCATOR, PYTHON, REAL, TRAINING  # noqa: E402
from lib.report import format_number  # noqa: E402
from lib.suite_data import FIRST, OURS  # noqa: E402

PAGES = ("README.md", "docs/benchmarks.md")
GROUPS = (TRAINING, PYTHON, REAL, ALLOCATOR, proof.ALWAYS)
# Pages of a distribution's package and its upstream version; the second is testing's.
PACKAGES = {"glibc": ("libc6", "libc6"), "jemalloc": ("libjemalloc2", "libjemalloc2"), "tcmalloc": ("libtcmalloc-minimal4", "libtcmalloc-minimal4t64"),
	"mimalloc": ("libmimalloc2.0", "libmimalloc3")}
MOST_BEHIND = 6


class Page:
	"""A suite_data.Suite and how its figures are written."""
	def __init__(self, suite):
		self.suite, self.machine = suite, suite.record["machine"]

	def name(self, candidate):
		"""As glibc 2.36, jemalloc 5.3.1 tuned: what it is for a reader who does not know our names of candidates."""
		base, *marks = candidate.split("-")
		if base == OURS:
			return "mtshim" + (" on glibc " + self.version("glibc", True) if "testing" in marks else "")
		version = self.version(base, "testing" in marks) if base in PACKAGES else ""
		return " ".join(filter(None, [base, version, "tuned" if "tuned" in marks else ""]))

	def version(self, base, is_testing):
		versions = self.machine.get("versions_of_testing" if is_testing else "versions", {})
		return re.split(r"[-+]", versions.get(PACKAGES[base][is_testing], ""))[0]

	def shown(self):
		"""Candidates of the tables: ours first, then glibc's, then the others."""
		names = [name for name in self.suite.names if not suite_data.is_again(name)]
		return sorted(names, key=lambda name: (not suite_data.is_ours(name), not name.startswith("glibc")))

	def mean(self, group, candidate, key):
		labels = [label for label in self.suite.labels(group) if self.suite.ratio(label, OURS, FIRST, key)]
		return self.suite.mean_ratio(labels, candidate, FIRST, key) if labels else None

	def cell(self, found):
		return f"{found.value:.2f}" if found else "-"

	# ---- parts ----
	def about(self):
		fewest, most, _ = proof_bounds.runs_of_each(self.suite)
		runs = f"{fewest} run{'s' * (fewest != 1)}" if fewest == most else f"{fewest} to {most} runs"
		memory = f"{self.machine['memory_mib'] / 1024:.0f} GB"
		setting = re.search(r"\[(\w+)\]", self.machine["thp"])
		noise = (self.suite.record.get("noise") or {}).get("overall", {}).get("ratio")
		noisy = f" glibc against itself: {noise:.2f}." if noise else ""
		return (f"Measured {self.suite.record['date'][:10]} on commit `{self.machine['commit']}`, {runs} of each row and allocator in turns: "
			f"{self.machine['cores']} cores of {self.machine['cpu']}, {memory}, Linux {self.machine['kernel']}, {self.machine['distribution']}, "
			f"huge pages `{setting.group(1) if setting else '?'}`. Figures: `bench/results/{self.file()}`.{noisy}")

	def file(self):
		return os.path.basename(self.suite.record["file"])

	def means(self, key):
		groups = [group for group in GROUPS if self.suite.labels(group)]
		heads = [f"{proof.TITLES[group]} ({len(self.suite.labels(group))})" for group in groups]
		lines = [f"| {proof_bounds.FIGURES[key]} / glibc | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(groups)]
		for candidate in self.shown():
			if candidate != FIRST:
				cells = [self.cell(self.mean(group, candidate, key)) for group in groups]
				name = self.name(candidate)
				lines.append(f"| {'**' + name + '**' if candidate == OURS else name} | " + " | ".join(cells) + " |")
		return "\n".join(lines)

	def peers(self):
		lines = ["| candidate | settings | advised by |", "|---|---|---|"]
		advice = self.suite.record.get("advised_by", {})
		for candidate in self.shown():
			settings = {key: value for key, value in self.suite.environments[candidate].items() if key != "LD_PRELOAD"}
			if settings:
				words = "; ".join(f"`{key}={value}`" for key, value in settings.items())
				lines.append(f"| {self.name(candidate)} | {words} | {advice.get(candidate, '')} |")
		return "\n".join(lines)

	def behind(self):
		found = proof_bounds.behind(self.suite)
		lines = ["| program | figure | mtshim | best peer | ratio |", "|---|---|---:|---|---:|"]
		for one in found[:MOST_BEHIND]:
			unit = "s" if one.key == "cpu_s" else "MB"
			lines.append(f"| {self.suite.entries[one.label]['title']} | {proof_bounds.FIGURES[one.key]} | {format_number(one.ours)} {unit} | "
				f"{self.name(one.peer)}: {format_number(one.theirs)} {unit} | {one.ratio:.2f} |")
		rest = len(found) - MOST_BEHIND
		figures = sum(bool(self.suite.with_figure(label, OURS, key)) for label in self.suite.labels() for key in proof_bounds.FIGURES)
		said = f"{len(found)} of {figures} figures" + (f"; the {MOST_BEHIND} widest" if rest > 0 else "")
		return said + ":\n\n" + "\n".join(lines)

	def bounds(self):
		rows = [row for row in self.suite.record.get("bounds", []) if row["holds"] is not None]
		missed = [row for row in rows if not row["holds"]]
		lines = ["| missed | value | at most |", "|---|---:|---:|"]
		for row in missed:
			lines.append(f"| {row['text']}{' (within noise)' if row['within_noise'] else ''} | {row['value']:.2f} | {row['bound']} |")
		return f"{len(rows) - len(missed)} of {len(rows)} hold" + (":\n\n" + "\n".join(lines) if missed else ".")

	def survivors(self):
		shares = {self.name(name): share for name in self.shown() if (share := proof_bounds.returned_share(self.suite, name)) is not None}
		some = {name: share for name, share in shares.items() if share >= 0.005}
		texts = [f"{name} {100 * share:.0f} %" for name, share in sorted(some.items(), key=lambda one: -one[1])]
		return "; ".join(texts + ["all others 0 %"] * (len(some) < len(shares)))

	def readme(self):
		rows = [("PyTorch, federated rounds", ["fl_rounds"]), ("training and services in Python", self.suite.labels(TRAINING)),
			("programs of pyperformance", self.suite.labels(PYTHON)), ("redis, PostgreSQL, sqlite and others", self.suite.labels(REAL)),
			("allocator stress: threads, handed-over blocks", self.suite.labels(ALLOCATOR)), ("500 short programs from a shell; grep", ["starts", "grep"])]
		lines = ["| programs | at rest | peak | CPU time | best peer at rest; CPU time |", "|---|---:|---:|---:|---|"]
		for title, labels in rows:
			labels = [label for label in labels if label in self.suite.labels()]
			if not labels:
				continue
			resting = [label for label in labels if self.suite.with_figure(label, OURS, "idle_mib")]
			ours = [self.cell(self.over(of, OURS, key)) for of, key in ((resting, "idle_mib"), (labels, "peak_mib"), (labels, "cpu_s"))]
			count = f" ({len(labels)})" if len(labels) > 1 and labels != ["starts", "grep"] else ""
			lines.append(f"| {title}{count} | {ours[0]} | {ours[1]} | {ours[2]} | {self.best(resting, 'idle_mib')}; {self.best(labels, 'cpu_s')} |")
		return "\n".join(lines)

	def over(self, labels, candidate, key):
		return self.suite.mean_ratio(labels, candidate, FIRST, key)

	def best(self, labels, key):
		found = {name: self.over(labels, name, key) for name in self.suite.peers() if name != FIRST}
		known = {name: ratio.value for name, ratio in found.items() if ratio}
		if not known:
			return "-"
		name = min(known, key=known.get)
		return f"{self.name(name)} {known[name]:.2f}"

	def parts(self):
		return {"about": self.about(), "cpu": self.means("cpu_s"), "peak": self.means("peak_mib"), "rest": self.means("idle_mib"),
			"peers": self.peers(), "behind": self.behind(), "bounds": self.bounds(), "survivors": self.survivors(), "readme": self.readme()}


def replaced(text, parts):
	"""The page with its parts written again; a part that the page does not have is left out of it."""
	for name, part in parts.items():
		begin, end = f"<!-- proof: {name} -->", f"<!-- end of {name} -->"
		text = re.sub(re.escape(begin) + ".*?" + re.escape(end), lambda _: f"{begin}\n{part}\n{end}", text, flags=re.DOTALL)  # pylint: disable=cell-var-from-loop
	return text


def newest():
	found = sorted(glob.glob(str(ROOT / "bench" / "results" / "proof-2*.json")))
	if not found:
		raise SystemExit("no proof in bench/results: make bench-proof")
	return found[-1]


def main():
	from lib import proof_plot  # pylint: disable=import-outside-toplevel  # matplotlib takes a second to load

	parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
	parser.add_argument("file", nargs="?")
	path = parser.parse_args().file or newest()
	suite = suite_data.Suite({**suite_data.load(path), "file": path})
	page = Page(suite)
	for name in PAGES:
		text = (ROOT / name).read_text()
		(ROOT / name).write_text(replaced(text, page.parts()))
	for picture in proof_plot.draw(suite, page, str(ROOT / "bench" / "results")):
		print(os.path.relpath(picture))


if __name__ == "__main__":
	main()
