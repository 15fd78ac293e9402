"""The workloads in C and C++ keep what the suite asks of them; trims are asked for as each allocator wants it; growth
is measured and judged. Nothing here judges a speed."""
import glob
import json
import os
import re
import subprocess
import sys
import time

import pytest

from places import PYTHON, ROOT

sys.path.insert(0, str(ROOT / "bench"))
import growth  # noqa: E402  pylint: disable=wrong-import-position
from lib import candidates, entries, rounds  # noqa: E402  pylint: disable=wrong-import-position

BUILD = ROOT / "build"
IDLE_S = 0.2
TINY = {
	"steps": ["--period", "0.01", "--steps", "2", "--blocks", "4"],
	"malloc_large": ["--times", "30"],
	"small_pairs": ["--threads", "2", "--pairs", "50000", "--keep-every", "16"],
	"larson": ["--set", "500", "--generations", "2", "--replacements", "2000"],
	"xmalloc": ["--batches", "30", "--queue", "8", "--lag", "8"],
	"mstress": ["--generations", "2", "--rounds", "500", "--table", "256"],
	"threads_short": ["--threads", "16", "--at-once", "8", "--blocks", "20", "--together", "1"],
	"survivors": ["--blocks", "5000"],
	"compute": ["--rounds", "3"],
	"pipeline": ["--messages", "500", "--history", "64", "--queue", "16"],
}


def run_lines(bare, command, preload=""):
	"""Each line that a workload prints is JSON; the last is the figures."""
	done = subprocess.run(command, env={**bare, "LD_PRELOAD": preload}, capture_output=True, text=True, timeout=60, check=False)
	assert done.returncode == 0, done.stderr
	return [json.loads(line) for line in done.stdout.splitlines()]


def program(name):
	path = BUILD / "bench" / name
	assert path.exists(), f"{path} is not there: make bench-programs"
	return str(path)


def test_all_programs_of_the_suite_are_tried_here():
	of_suite = {entry.name for entry in entries.ENTRIES if glob.glob(str(ROOT / "bench" / "workloads" / (entry.name + ".c*")))}

	assert of_suite == set(TINY)


@pytest.mark.parametrize("name", TINY)
def test_says_when_it_falls_idle_and_rests_as_long_as_asked(bare, name):
	before = time.monotonic()
	event, figures = run_lines(bare, [program(name), *TINY[name], "--idle", str(IDLE_S)])
	after = time.monotonic()

	assert event["event"] == "idle"
	assert before < event["time"] <= after - IDLE_S
	assert 0 < figures["work_s"] <= event["time"] - before


@pytest.mark.parametrize("name", TINY)
def test_without_idle_only_the_figures_are_printed(bare, name):
	figures, = run_lines(bare, [program(name), *TINY[name]])

	assert figures["work_s"] > 0


@pytest.mark.parametrize("entry", [entry for entry in entries.ENTRIES if entry.name in TINY], ids=lambda entry: entry.label)
def test_the_arguments_of_its_row_are_known_to_the_program(entry):
	source = glob.glob(str(ROOT / "bench" / "workloads" / (entry.name + ".c*")))[0]
	with open(source, encoding="utf-8") as text:
		known = text.read()

	for argument in [*entry.arguments, *(entry.quick or [])]:
		assert not argument.startswith("--") or f'"{argument}"' in known, argument


@pytest.mark.parametrize("name", ["glibc", "jemalloc", "tcmalloc", "shim", "shim-system"])
def test_a_trim_asked_for_as_this_allocator_wants_it_gives_memory_back(bare, shim, name):
	candidate = candidates.parse(name)
	preload = str(shim) if name.startswith("shim") else candidate.preload
	if preload and not os.path.exists(preload):
		pytest.skip(f"{preload} is not installed")
	environment = {**bare, **candidate.environment, "MT_BUDGET_PCT": "0"}  # nothing goes back before it is asked for

	figures, = run_lines(environment, [program("survivors"), "--blocks", "60000", *candidate.arguments.get("survivors", [])], preload)

	assert figures["returned_mib"] > 5
	assert figures["trim_cpu_s"] > 0
	assert figures["returned_mib_per_cpu_s"] == pytest.approx(figures["returned_mib"] / figures["trim_cpu_s"], rel=0.1)


def test_a_trim_takes_no_longer_for_what_we_wait_for_it(bare):
	preload = candidates.parse("mimalloc").preload
	if not os.path.exists(preload):
		pytest.skip(f"{preload} is not installed")

	command = [program("survivors"), "--blocks", "100", "--how", "mimalloc"]
	took = min(run_lines(bare, command, preload)[0]["trim_s"] for _ in range(3))

	assert took < 0.045  # it sleeps 50 ms between its two calls


def test_left_idle_survivors_asks_for_no_trim(bare):
	_, figures = run_lines(bare, [program("survivors"), "--blocks", "60000", "--how", "trim", "--idle", "0.1"])

	assert abs(figures["returned_mib"]) < 1


def test_a_workload_under_the_wrong_allocator_fails_instead_of_trimming_nothing(bare):
	done = subprocess.run([program("survivors"), "--blocks", "100", "--how", "mallctl"], env=bare, capture_output=True, text=True,
		timeout=60, check=False)

	assert done.returncode == 1
	assert done.stderr == "no mallctl in this process\n"


def test_waits_of_those_who_arrive_at_a_random_moment_are_at_least_those_of_pairs(bare):
	figures, = run_lines(bare, [program("stall"), "--blocks", "4000", "--repeats", "1"])

	for size in ("64B", "5kB", "60kB", "2MB"):
		assert figures[f"trim_pairs_{size}"] > 0
		assert 0 < figures[f"trim_p999_arrival_us_{size}"] <= figures[f"trim_worst_ms_{size}"] * 1e3 + 0.1  # digits printed


# ---- growth ----

def run_growth(folder, *arguments):
	path = folder / "growth.json"
	done = subprocess.run([PYTHON, str(ROOT / "bench" / "growth.py"), "--build", str(BUILD), "--json", str(path), *arguments],
		capture_output=True, text=True, timeout=60, check=False)
	assert done.returncode == 0, done.stderr
	return json.loads(path.read_text(encoding="utf-8")), done.stdout


def test_growth_writes_a_series_for_each_figure_of_each_candidate(tmp_path, shim, mtctl):
	assert shim and mtctl
	result, _ = run_growth(tmp_path, "--quick", "--axes", "blocks", "--candidates", "glibc,shim", "--over", "0.5")

	assert result["growth"] == 1 and result["machine"]["cores"]
	series = {(line["candidate"], line["figure"]): line for line in result["series"]}
	assert set(series) == {("glibc", figure) for figure in growth.FIGURES if figure != "tick_us"} | {
		("shim", figure) for figure in growth.FIGURES}
	for (_, figure), line in series.items():
		assert line["axis"] == "blocks" and line["x"] == [10000, 100000] and len(line["y"]) == 2
		assert all(value > 0 for value in line["y"]) or figure == "returned_mib"


def test_growth_names_what_it_skips(tmp_path):
	result, said = run_growth(tmp_path, "--quick", "--axes", "heap_gb", "--candidates", "glibc", "--most-gb", "0.01")

	assert result["series"] == []
	assert [(point["axis"], point["x"]) for point in result["skipped"]] == [("heap_gb", 0.1)]
	assert "skipped: heap_gb 0.1" in said


@pytest.mark.parametrize("values, words", [
	([100, 1000, 10000], 0),          # as the heap
	([100, 1000, 100000], 1),         # 100 times the heap, 1000 times the cost
	([100, None, 1000000], 0),        # two points are no growth
	([0.1, 5, 4], 0),                 # noise
])
def test_growth_tells_what_grows_worse_than_linearly(values, words):
	line = {"axis": "heap_gb", "x": [1, 10, 100], "candidate": "shim", "figure": "trim_cpu_ms", "y": values}

	assert len(growth.worse_than_linear(line)) == words


# ---- rounds of 30 s ----

def test_the_share_of_cleaning_is_the_sum_of_all_its_costs():
	stat = {"figures": {"purge_cost_ns": 1_000_000, "refault_cost_ns": 2_000_000, "gc_cost_ns": 3_000_000, "ticks_cost_ns": 4_000_000,
		"uptime_ms": 10_000, "purged_bytes": 2**20, "purge_count": 1}}

	assert rounds.share_of(stat)["clean_pct"] == pytest.approx(0.1)


# ---- huge pages ----

def test_huge_pages_prints_a_row_for_each_program_and_setting(shim):
	done = subprocess.run([PYTHON, str(ROOT / "bench" / "huge" / "huge.py"), "--build", str(BUILD), "--quick"], capture_output=True, text=True,
		timeout=120, check=False)

	assert done.returncode == 0, done.stderr
	assert re.search(r"^\| survivors, (always|madvise|never) \|( \d+ / (\d+|\?) -> \d+ / (\d+|\?); [\d.]+ s \|){2}$", done.stdout, re.MULTILINE), done.stdout
