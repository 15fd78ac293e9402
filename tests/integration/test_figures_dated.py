"""Figures in the documents: each stands in a section that says when and by which command it was measured, and none is older than the release
before this one. Decisions are dated by themselves; the pages of commands have what mtctl prints."""
import datetime
import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
# What is measured has a fraction and a unit. Whole numbers are mostly limits and defaults.
FIGURE = re.compile(r"(?<![\w.-])\d+\.\d+ ?(?:MB|GB|MiB|kB|ms|us|ns|%|times)(?!\w)")
COMMAND = re.compile(r"`[^`]*\b(?:make|bench/|scripts/|tests/|python|mtctl|buildah|podman)[^`]*`|\]\((?:\.\./)?(?:docs/)?decisions/")
# Fractions that are rules of the library or of others, not measurements: (page, what stands beside them).
RULES = [("compatibility.md", "up to 1.2 MB each"),
         ("reliability.md", "A request beyond RAM and swap")]


def sections(page):
	"""(heading, text) of each part of a page, without examples and without what bench/pages.py has written, which is of one day."""
	heading, lines = "", []
	text = re.sub(r"^```.*?^```$|<!-- proof: (?!about)(\w+) -->.*?<!-- end of \1 -->", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
	for line in text.splitlines():
		if line.startswith("#"):
			yield heading, "\n".join(lines)
			heading, lines = line.strip("# "), []
		elif not line.startswith("    "):
			lines.append(line)
	yield heading, "\n".join(lines)


def previous_release():
	"""The day of the release before the newest one."""
	days = re.findall(r"^## \d\S* - (\d{4}-\d\d-\d\d)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
	return datetime.date.fromisoformat(days[1] if len(days) > 1 else days[0])


def figures(page, text):
	plain = "\n".join(line for line in text.splitlines() if not any(name == page.name and words in line for name, words in RULES))
	return FIGURE.findall(re.sub(r"`[^`]*`", "", plain))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_figure_has_its_date_and_its_command(page):
	undated = []
	for heading, text in sections(page):
		is_dated = DATE.search(text) or re.search(r"\]\(\S*decisions/\d", text)
		if (found := figures(page, text)) and not (is_dated and COMMAND.search(text)):
			undated.append((heading, found))

	assert undated == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_figure_is_older_than_the_release_before_this_one(page):
	days = {day for _, text in sections(page) for day in DATE.findall(text)}

	assert [day for day in days if datetime.date.fromisoformat(day) < previous_release()] == []


def test_readme_and_the_page_of_results_are_of_one_proof():
	"""One commit and one day; and the newest result is that of the pages."""
	parts = [re.search(r"<!-- proof: about -->\n(.*?)\n<!-- end", (ROOT / name).read_text(), re.DOTALL) for name in ("README.md", "docs/benchmarks.md")]

	assert all(parts) and parts[0][1] == parts[1][1]
	newest = max((ROOT / "bench/results").glob("proof-2*.json"))
	proof = json.loads(newest.read_text())
	assert newest.name in parts[0][1] and proof["machine"]["commit"] in parts[0][1] and proof["date"][:10] in parts[0][1]
