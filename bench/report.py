#!/usr/bin/python3
"""What a result of the suite says: tables, plots, and which promises it keeps.

  bench/report.py FILE.json [--also FILE ...] [--markdown OUT.md] [--plots DIR] [--bounds]

FILE is written by bench/suite.py, or by bench/growth.py. --also takes results of other runs that promises are about
(stall, survivors and rounds-30s of bench/run.py; bench/growth.py), and further results of the suite, of which it takes the rows
that FILE has not. Without --markdown the text goes to
stdout. --bounds prints the promises alone, and ends with 1 where one is missed for which no reason is on record, or where a run
of the shim has failed.
"""
import argparse
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from lib import suite_bounds, suite_data, suite_table  # pylint: disable=wrong-import-position

EXPLAINED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "README.md")


def parse_options(argv):
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("file", help="result of bench/suite.py or bench/growth.py")
	parser.add_argument("--also", action="append", default=[], metavar="FILE", help="result of a run of its own")
	parser.add_argument("--markdown", metavar="OUT.md", help="write the report there")
	parser.add_argument("--plots", metavar="DIR", help="draw the plots there, as SVG and PNG")
	parser.add_argument("--bounds", action="store_true", help="print the promises only")
	return parser.parse_args(argv)


def is_growth(record):
	return "growth" in record


def from_report(options, path):
	"""A path as a link from where the report lies."""
	return os.path.relpath(path, os.path.dirname(os.path.abspath(options.markdown)) if options.markdown else os.getcwd())


def image_lines(options, paths):
	"""Links to the plots; only the SVGs."""
	return [f"![{alt}]({from_report(options, path)})" for path, alt in paths]


def section(title, *parts):
	body = [part for part in parts if part]
	return [f"## {title}", *body] if body else []


def command_again(options, record):
	"""How the figures were made, and this report of them."""
	name = os.path.basename(options.file)
	also = "".join(f" --also bench/results/{os.path.basename(path)}" for path in options.also)
	return (f"    {record.get('command', 'bench/suite.py')}\n"
		f"    bench/report.py bench/results/{name}{also} --markdown bench/results/README.md --plots bench/results")


def date_of(options, record):
	"""What the file says, or its name (suite-20261121-190624.json)."""
	stamp = re.search(r"(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)\d\d", os.path.basename(options.file))
	return record.get("date") or (stamp and "{}-{}-{} {}:{}".format(*stamp.groups())) or "at a time that nobody wrote down"


def suite_report(options, suite, also, images, growth_text):
	rows = suite_bounds.check(suite, also)
	noise, failures = suite_table.noise_table(suite), suite_table.failure_lines(suite)
	parts = ["# Results of the bench suite",
		f"Measured {date_of(options, suite.record)}. What is measured, and how, is in [bench]({from_report(options, EXPLAINED)}). "
		"To run it again:",
		command_again(options, suite.record), suite_table.machine_text(suite.record.get("machine") or {}),
		suite_table.noise_words(suite), *images]
	parts += bounds_section(rows)
	parts += section("All workloads", *suite_table.figure_sections(suite), TABLES_NOTE)
	trims = suite_table.trim_table(also)
	parts += section("What trims cost", trims, trims and TRIMS_NOTE)
	parts += section("Time spent cleaning under the shim", suite_table.cleaning_table(suite))
	parts += section("Growth", *growth_text)
	parts += section("Noise", noise and "glibc-again over glibc, the same thing twice; bold: outside 0.97..1.03.", noise)
	parts += section("Not in the tables", "\n".join(failures))
	parts += section("Who and what", suite_table.candidates_table(suite), suite_table.workloads_table(suite))
	return "\n\n".join(parts) + "\n"


def bounds_section(rows):
	"""In short, then the misses with their reasons, then every row for who wants it."""
	misses = [row for row in rows if row.holds is False]
	every = f"<details><summary>All {len(rows)} rows</summary>\n\n{suite_bounds.table(rows)}\n\n</details>"
	return section("What it must show", suite_bounds.summary(rows) + ".", suite_bounds.kinds_table(rows), BOUNDS_NOTE,
		misses and "What is missed:", misses and suite_bounds.table(misses), every)


BOUNDS_NOTE = ("Peers are all candidates that are not ours. For memory only those count that need no change to the program; "
	"PYTHONMALLOC, MALLOC_CONF and MALLOC_ARENA_MAX are settings, no change. In a mean over several workloads a candidate that "
	"differs from another in PYTHONMALLOC alone stands for it where the program is not Python. A value is compared at the digits "
	"in which its bound is written.")
TRIMS_NOTE = ("The worst of all block sizes and runs. By pairs, one that waits for 100 ms is one among a million; by moments "
	"of arrival it weighs as long as it lasts. CPU of the trim: of the whole process, but for the thread that measures.")
TABLES_NOTE = ("A ratio is the geometric mean of the ratios of paired runs; small, where shown: its 95 % interval. (tree): "
	"memory is the PSS of the process and its children. `shim-nopurge` gives nothing back by itself and is there to tell what purging "
	"costs. \"-\": did not run there. Debian's redis links jemalloc: that is what its `glibc` column shows.")


def main(argv):
	options = parse_options(argv)
	record, also = suite_data.load(options.file), [suite_data.load(path) for path in options.also]
	growth = [one for one in [record, *also] if is_growth(one)]
	if "suite" in record:
		record = suite_data.joined(record, [one for one in also if "suite" in one])
	suite = None if is_growth(record) else suite_data.Suite(record)
	if options.bounds and suite:
		rows = suite_bounds.check(suite, also)
		print("\n".join(row.line() for row in rows) + "\n" + suite_bounds.summary(rows))
		failures = suite_table.failure_lines(suite, suite_data.OURS)
		print("".join(f"FAILED: {line[2:]}\n" for line in failures), end="")
		return 1 if failures or any(row.holds is False and row.ident not in suite_bounds.REASONS for row in rows) else 0
	images, growth_text = draw(options, suite, growth)
	text = suite_report(options, suite, also, images, growth_text) if suite else "\n\n".join(["# Growth", *growth_text]) + "\n"
	if options.markdown:
		with open(options.markdown, "w", encoding="utf-8") as out:
			out.write(text)
	else:
		print(text, end="")
	return 0


def draw(options, suite, growth):
	"""(links to the suite's plots, text about growth). Nothing is drawn where nobody asked."""
	from lib import suite_growth, suite_plot  # pylint: disable=import-outside-toplevel  # matplotlib takes a second to load
	words = suite_growth.text(growth)
	if not options.plots:
		return [], words
	os.makedirs(options.plots, exist_ok=True)
	drawn = suite_plot.draw_suite(suite, options.plots) if suite else []
	return image_lines(options, drawn), image_lines(options, suite_growth.draw(growth, options.plots)) + words


if __name__ == "__main__":
	try:
		sys.exit(main(sys.argv[1:]))
	except (ValueError, OSError, KeyError) as error:
		sys.exit(f"bench: {error!r}" if isinstance(error, KeyError) else f"bench: {error}")
