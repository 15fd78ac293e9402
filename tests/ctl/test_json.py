"""Every command that prints figures has --json, and what it prints is as docs/json.schema.json says: the same names, units and
null for what is not known."""
import pathlib
import re
import subprocess

import pytest

from json_schema import SCHEMA, fits
from mtctl_helpers import MB
from mtctl_helpers import ctl, fake, plain  # noqa: F401 (fixtures)
from places import ROOT

jsonschema = pytest.importorskip("jsonschema")
WITH_CUDA = {"cuda": "pool", "driver_version": 12080, "devices": [{"name": "A card", "pci": "0000:3b:00.0", "mode": "pool"}],
             "ooms": [{"number": 1, "device": 0, "asked_bytes": MB}], "limit_reports": [{"number": 1, "limit_bytes": MB}]}
PRESSED = {"reason": 12, "pressure_sources": 1, "pressure_level": 2, "pressure_used_mb": 9, "pressure_limit_mb": 10, "freed_mb": 5}
# The last part of a name that says what a number is.
UNITS = re.compile(r"(^|_)(bytes|ns|ms|s|count|pct|ratio|pid)$")
NUMBERS = {"pid", "ppid", "parent", "uid", "depth", "number", "round", "late_of", "result", "request_seq", "request_error", "ordinal",
           "device", "context", "exit_code", "world_size", "driver_version", "load", "min", "max", "signal_disposition", "pressure_level",
           "prof_state", "gc_rounds_step", "gpu_capturing", "gpu_process_known", "process_known", "others_known", "line", "signal",
           "asleep", "came_down_before", "rescued_pid", "gc_disabled", "heap_live_known", "pymalloc_used", "r_squared", "confidence"}


def test_the_schema_is_a_schema_and_each_number_in_it_says_its_unit():
	jsonschema.Draft7Validator.check_schema(SCHEMA)
	def names(part):
		for name, what in part.get("properties", {}).items():
			if what.get("$ref", "").rpartition("/")[2] in ("count", "known", "percent", "pid", "flag", "number", "seconds", "share"):
				yield name
		for below in part.values() if isinstance(part, dict) else []:
			for one in [below] if isinstance(below, dict) else below if isinstance(below, list) else []:
				yield from names(one) if isinstance(one, dict) else ()
	def open_objects(part, path):
		"""An object of the schema that allows members which it does not name."""
		if isinstance(part, dict):
			if "object" in str(part.get("type")) and "additionalProperties" not in part:
				yield path
			for name, below in part.items():
				yield from open_objects(below, f"{path}/{name}")
	assert not list(open_objects(SCHEMA["definitions"], ""))
	wrong = [name for name in names(SCHEMA) if not UNITS.search(name) and name not in NUMBERS and not re.match("(gpu_)?num_", name)]
	assert not wrong


def test_the_documents_have_every_figure_as_the_table_has_it(mtctl):
	got = subprocess.run([ROOT / "scripts/generate/figures", mtctl], capture_output=True, text=True)

	assert (got.returncode, got.stdout) == (0, ""), "make figures writes them:\n" + got.stdout + got.stderr


def test_a_figure_of_many_processes_is_a_column_of_every_view_that_its_row_names(ctl, fake):
	"""The page's columns and the schema are compared with the table by the test above."""
	table = (ROOT / "shim/core/figures.def").read_text().partition("#define MT_TREE_FIGURES")[2]
	row = r'^\t(?:X|PART)\(\w+, +"\w*", +\w+, +\w+, +(\w+), +(\w+), +(\w+), +"([\w-]*)", +\d+, +"(\w*)"'
	rows = re.findall(row, table, re.MULTILINE)
	fake(**WITH_CUDA)
	headings, columns = ctl("ps").stdout.splitlines()[0].split(), ctl("top", "--help").stdout

	assert len(rows) > 15
	for _, ps, top, name, heading in rows:
		assert ps not in ("yes", "wide") or heading in headings
		assert (f"  {heading} ({name})" in columns) == (top == "yes"), heading
		assert top == "no" or heading in ctl("top", "--once", COLUMNS="300").stdout


def test_every_command_with_json_has_a_definition_and_a_test_against_it(ctl):
	commands = re.findall(r"^  ([a-z-]+) ", ctl("help").stdout, re.MULTILINE)
	with_json = {name for name in commands if re.search(r"^  --json\b", ctl(name, "--help").stdout, re.MULTILINE)}
	here, others = pathlib.Path(__file__), (ROOT / "tests").glob("*/test_*.py")
	tested = set(re.findall(r'"([a-z-]+)"', here.read_text())) | {name for file in others for name in re.findall(r'fits\("([a-z-]+)', file.read_text())}

	assert {"ps", "stat", "round", "reset-peak", "budget", "compare"} <= with_json
	assert with_json <= set(SCHEMA["definitions"]) and with_json <= tested, with_json


@pytest.mark.parametrize("options", [{}, WITH_CUDA, PRESSED], ids=["plain", "cuda", "pressed"])
def test_what_the_commands_on_a_process_print_fits_the_schema(fake, ctl, options):
	pid = fake(**options)

	trimmed = fits("trim", ctl("trim", pid, "--json").stdout)
	assert trimmed["processes"][0]["record"]["cost_ns"] == 12_300_000
	assert fits("trim --dry-run", ctl("trim", pid, "--dry-run", "--json").stdout)["processes"][0]["pid"] == pid
	assert fits("set", ctl("set", pid, "gc_rounds=4", "--json").stdout)["processes"] == [
		{"pid": pid, "comm": "python3", "name": "gc_rounds", "value_before": "0", "value": "4"}]
	assert fits("round", ctl("round", pid, "--json").stdout)["processes"][0]["rounds_count"] == 1
	fits("reset-peak", ctl("reset-peak", pid, "--json").stdout)
	seen = fits("stat", ctl("stat", pid, "--json").stdout)
	assert sum(seen["parts"].values()) == seen["rss_bytes"] and seen["pressure_limit_bytes"] is None
	assert (seen["load"], seen["budget_ratio"], seen["records_since_ns"]) == (0, 0, None)
	for command, words in (("stat --oom", ["stat", pid, "--oom"]), ("ps", ["ps"]), ("ps --tree", ["ps", "--tree", pid]),
	                       ("advise", ["advise", pid]), ("doctor", ["doctor", pid])):
		fits(command, ctl(*words, "--json").stdout)


@pytest.mark.parametrize("words", [["check"], ["doctor"], ["options"], ["presets"], ["fit", "--model-mb=500", "--vram=16G"],
                                   ["budget", "--params=7e9", "--seq=2048", "--batch=4", "--layers=32", "--d-model=4096", "--mixed"]],
                         ids=lambda words: words[0])
def test_what_the_commands_without_a_process_print_fits_the_schema(ctl, words):
	fits(words[0], ctl(*words, "--json").stdout)


@pytest.mark.parametrize("uptime_ms, says", [(9_900, "; 2.0 % of the time"), (10_000, "; 2.0 % of the time, budget 3 % and 0.3 s")])
def test_stat_holds_the_cost_against_the_budget_once_its_first_300_ms_are_earned(fake, ctl, uptime_ms, says):
	"""What is spent in advance was called more than the budget."""
	pid = fake(values={"uptime_ms": uptime_ms, "budget_ratio_thousandths": 30, "purge_cost_ns": uptime_ms * 20_000, "refault_cost_ns": 0})

	(line,) = (line for line in ctl("stat", pid).stdout.splitlines() if line.strip().startswith("cleanups"))

	assert line.endswith(says)


def test_a_wait_for_python_is_no_cost_and_says_at_once_what_it_waits_for(fake, ctl):
	pid = fake(gc_state=4, gc_wait_ms=2000)

	text = ctl("trim", pid).stdout
	(record,) = fits("stat", ctl("stat", pid, "--json").stdout)["records"]

	assert "nothing to free, 12.3 ms" in text and "  gc waits: the main thread is in a system call" in text
	assert "it collects when that returns, or after 2 s on another thread if others have grown the heap" in text
	assert (record["duration_ns"], record["cost_ns"], record["gc_wait_ns"]) == (2_012_300_000, 12_300_000, 2_000_000_000)
	assert re.search(r" 12\.3 ms +2000\.0 ms +waits: main thread in a system call$", ctl("stat", pid, "--records").stdout, re.MULTILINE)
	assert "odd        Python's gc waits since " in ctl("stat", pid).stdout


def test_a_process_in_ten_lines(fake, ctl):
	lines = ctl("stat", fake(), "--cached").stdout.splitlines()

	assert 8 <= len(lines) <= 12
	assert re.fullmatch(r"RSS +300\.0 MB  #{32}~{10}={8}", lines[1])
	parts = [re.match(r"  (\w+) +([\d.]+) MB  ", line).groups() for line in lines[2:6]]
	assert parts == [("live", "190.0"), ("reusable", "60.0"), ("files", "50.0"), ("other", "0.0")]
	assert lines[-1].startswith("odd        nothing; `mtctl stat ")
