"""bench/report.py over small results made by hand: which promises hold, and that the plots are there."""
import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from lib import suite_bounds, suite_data  # noqa: E402

PYTHON = "/usr/bin/python3"
JEMALLOC = {"LD_PRELOAD": "/usr/lib/libjemalloc.so.2"}
SHIM = {"LD_PRELOAD": "/somewhere/libmtshim.so"}
CANDIDATES = {"glibc": {}, "glibc-again": {}, "glibc-trim": {}, "jemalloc": JEMALLOC,
              "jemalloc-malloc": {**JEMALLOC, "PYTHONMALLOC": "malloc"}, "tcmalloc": {"LD_PRELOAD": "libtcmalloc.so"},
              "shim": SHIM, "shim-nopurge": {**SHIM, "MT_BUDGET_PCT": "0"}}
GROUPS = {"fl_rounds": "training", "steps": "training", "larson": "allocator"}


def record(label, name, work_s=1.0, number=0, **figures):
	figures = {"work_s": work_s, "run_s": 2.0, "cpu_s": work_s, "peak_mib": 100.0, "idle_mib": 50.0, "integral_mib_s": 200.0,
	           "minor_faults": 1000, **figures}
	return {"workload": label, "candidate": name, "number": number, "figures": figures,
	        "samples": [[0.0, 10.0], [1.0, figures["peak_mib"]], [3.0, 50.0]]}


def suite_of(*runs, **more):
	entries = {label: {"title": f"what {label} is", "group": GROUPS[label], "arguments": ["--steps", "8"]} for label in GROUPS}
	return {"suite": 1, "machine": {"cpu": "a cpu", "cores": 2, "memory_mib": 2048, "versions": {"libc6": "2.36"}},
	        "options": {"runs": 3}, "entries": entries, "candidates": CANDIDATES, "runs": list(runs),
	        "command": "bench/suite.py --runs 3", **more}


def rows_of(result, also=()):
	return {row.ident: row for row in suite_bounds.check(suite_data.Suite(result), also)}


def everybody(label, number=0, **by_name):
	"""One round of a row: every candidate named, with its figures; the names' underscores stand for dashes."""
	return [record(label, name.replace("_", "-"), number=number, **figures) for name, figures in by_name.items()]


# ---- time ----

def test_the_mean_of_time_is_geometric_and_over_the_training_rows_alone():
	rows = rows_of(suite_of(*everybody("fl_rounds", glibc={}, shim={"work_s": 0.5}),
	                        *everybody("steps", glibc={}, shim={"work_s": 2.0}),
	                        *everybody("larson", glibc={}, shim={"work_s": 9.0})))

	assert rows["time-glibc"].value == pytest.approx(1.0) and rows["time-glibc"].verdict == "PASS"
	assert "2 of" in rows["time-glibc"].note


def test_the_fastest_peer_is_one_that_ran_everywhere():
	rows = rows_of(suite_of(
		*everybody("fl_rounds", glibc={}, tcmalloc={"work_s": 0.1}, jemalloc={"work_s": 0.8}, shim={"work_s": 0.9}),
		*everybody("steps", glibc={}, jemalloc={"work_s": 0.8}, shim={"work_s": 0.9})))

	assert rows["time-fastest"].note == "the fastest is jemalloc; not on all rows: tcmalloc"
	assert rows["time-fastest"].value == pytest.approx(0.9 / 0.8)
	assert rows["time-fastest"].verdict == "MISS" and rows["time-glibc"].verdict == "PASS"
	assert "fl_rounds: tcmalloc" in rows["time-fastest-each"].note
	assert rows["time-fastest-each"].value == pytest.approx((9 * 0.9 / 0.8) ** 0.5)


def test_what_is_harsher_than_promised_is_shown_and_not_judged():
	rows = suite_bounds.check(suite_data.Suite(suite_of(
		*everybody("fl_rounds", glibc={}, tcmalloc={"work_s": 0.1}, shim={"work_s": 0.9}), *everybody("steps", glibc={}, shim={}))))
	row = next(row for row in rows if row.ident == "time-fastest-each")

	assert row.value > 1.03 and row.holds is None and row.line().startswith("shown: ")
	assert suite_bounds.summary([row]) == "0 PASS, 0 MISS (0 within noise, 0 without a reason), 0 not measured"
	assert "| no promise |  |  |  | 3.0" in suite_bounds.kinds_table([row])


def test_a_pythonmalloc_variant_stands_for_its_base_where_nothing_is_python():
	rows = rows_of(suite_of(
		*everybody("fl_rounds", glibc={}, jemalloc={}, jemalloc_malloc={"work_s": 0.5}, shim={"work_s": 0.5}),
		*everybody("steps", glibc={}, jemalloc={"work_s": 0.5}, shim={"work_s": 0.5})))

	assert "jemalloc-malloc" in rows["time-fastest"].note and rows["time-fastest"].value == pytest.approx(1.0)


def test_a_bound_is_compared_at_its_digits():
	within = rows_of(suite_of(*everybody("larson", shim_nopurge={}, glibc={}, shim={"work_s": 1.0349})))
	beyond = rows_of(suite_of(*everybody("larson", shim_nopurge={}, glibc={}, shim={"work_s": 1.0351})))

	assert within["own-time:larson"].verdict == "PASS" and beyond["own-time:larson"].verdict == "MISS"


def test_a_miss_whose_interval_reaches_the_bound_is_within_the_noise():
	runs = [run for number, work_s in enumerate((0.9, 1.2, 1.1))
	        for run in everybody("larson", number, glibc={}, shim_nopurge={}, shim={"work_s": work_s})]
	steady = [run for number, work_s in enumerate((1.1, 1.1001, 1.1002))
	          for run in everybody("larson", number, glibc={}, shim_nopurge={}, shim={"work_s": work_s})]

	assert rows_of(suite_of(*runs))["own-time:larson"].verdict == "MISS (within noise)"
	assert rows_of(suite_of(*steady))["own-time:larson"].verdict == "MISS"


# ---- memory ----

def test_memory_is_held_against_the_lowest_peer_that_changes_no_program():
	rows = rows_of(suite_of(*everybody("fl_rounds", glibc={}, glibc_trim={"idle_mib": 10.0}, glibc_again={"idle_mib": 1.0},
	                                   jemalloc={"idle_mib": 40.0}, shim_nopurge={"idle_mib": 2.0}, shim={"idle_mib": 30.0})))

	assert rows["idle:fl_rounds"].value == pytest.approx(30 / 40) and rows["idle:fl_rounds"].verdict == "PASS"
	assert "the lowest is jemalloc, 40; ours 30" in rows["idle:fl_rounds"].note
	assert "glibc-trim, by hand, has 0.25 of it" in rows["idle:fl_rounds"].note


def test_a_tie_passes_and_the_peak_has_8_percent():
	rows = rows_of(suite_of(*everybody("larson", glibc={}, shim={"peak_mib": 108.0})))

	assert rows["idle:larson"].verdict == "PASS" and rows["peak:larson"].verdict == "PASS"
	rows = rows_of(suite_of(*everybody("larson", glibc={}, shim={"peak_mib": 109.0, "idle_mib": 50.4})))
	assert rows["idle:larson"].verdict == "MISS" and rows["peak:larson"].verdict == "MISS"


def test_the_integral_is_promised_on_three_rows_only():
	rows = rows_of(suite_of(*everybody("fl_rounds", glibc={}, shim={"integral_mib_s": 300.0}), *everybody("larson", glibc={}, shim={})))

	assert rows["integral:fl_rounds"].verdict == "MISS"
	assert [ident for ident in rows if ident.startswith("integral:")] == ["integral:fl_rounds"]


def test_what_nobody_measured_is_neither_pass_nor_miss():
	without_ours = rows_of(suite_of(*everybody("fl_rounds", glibc={}, jemalloc={})))

	for ident in ("time-glibc", "time-fastest", "idle:fl_rounds", "stall:5kB", "survivors", "cleaning-30s"):
		assert without_ours[ident].verdict == "not measured", ident


# ---- what other runs measure ----

def test_stalls_survivors_and_long_rounds_come_from_other_files():
	stall = {"label": "stall", "runs": {"shim": [{"trim_worst_ms_5kB": 2.9, "quiet_worst_ms_5kB": 0.1, "trim_worst_ms_2MB": 5.0,
	                                             "quiet_worst_ms_2MB": 4.2, "trim_worst_ms_64B": 3.2, "quiet_worst_ms_64B": 2.6}]}}
	survivors = {"label": "survivors", "runs": {"glibc": [{"trimmed_rss_mib": 642.0}], "shim": [{"trimmed_rss_mib": 540.0}]}}
	rounds = {"label": "rounds-30s", "runs": {"shim": [{"clean_pct": 0.19}, {"clean_pct": 0.1}], "shim-system": [{"clean_pct": 5.0}]}}
	rows = rows_of(suite_of(record("larson", "shim")), [stall, survivors, rounds])

	assert rows["stall:5kB"].verdict == "PASS" and rows["stall:2MB"].verdict == "PASS" and rows["stall:64B"].verdict == "MISS"
	assert rows["stall:60kB"].verdict == "not measured"
	assert rows["survivors"].verdict == rows["survivors-glibc"].verdict == "PASS"
	assert rows["cleaning-30s"].verdict == "PASS" and rows["cleaning-30s"].value == 0.19


def test_what_has_to_be_below_its_bound_is_not_rounded():
	rounds = {"label": "rounds-30s", "runs": {"shim": [{"clean_pct": 0.2}]}}
	survivors = {"label": "survivors", "runs": {"shim": [{"trimmed_rss_mib": 641.9}]}}
	rows = rows_of(suite_of(record("larson", "shim")), [rounds, survivors])

	assert rows["cleaning-30s"].verdict == "MISS" and rows["survivors"].verdict == "PASS"
	assert rows["survivors-glibc"].verdict == "not measured"


# ---- the whole command ----

def report(*arguments):
	return subprocess.run([PYTHON, str(ROOT / "bench" / "report.py"), *map(str, arguments)], capture_output=True, text=True,
	                      timeout=300, check=False)


@pytest.fixture
def result(tmp_path):
	runs = [run for number in range(2) for label in GROUPS for run in everybody(
		label, number, glibc={"work_s": 1 + number / 50}, glibc_again={}, jemalloc={"idle_mib": 30.0}, shim={"idle_mib": 20.0, "clean_s": 0.01})]
	path = tmp_path / "suite-20260102-030405.json"
	path.write_text(json.dumps(suite_of(*runs)))
	return path


def test_the_report_has_its_sections_and_its_plots(result, tmp_path):
	growth = tmp_path / "growth.json"
	growth.write_text(json.dumps({"growth": 1, "machine": {}, "series": [
		{"axis": "threads", "x": [1, 2, 4], "candidate": name, "figure": "malloc_ns", "y": y} for name, y in (
			("glibc", [20, 30, 60]), ("shim", [18, None, 25]))]}))
	got = report(result, "--also", growth, "--markdown", tmp_path / "out.md", "--plots", tmp_path / "plots")

	assert (got.returncode, got.stdout, got.stderr) == (0, "", "")
	text = (tmp_path / "out.md").read_text()
	for words in ("2026-01-02 03:04", "## What it must show", "### RSS after idle", "## Noise", "## Growth", "what steps is",
	              "libc6 2.36", "    bench/suite.py --runs 3\n", "![", "(plots/bench-rss.svg)"):
		assert words in text, words
	assert "/somewhere" not in text, "where a library lies is nobody's business"
	for name, words in {"bench-time": ["fl_rounds", "training: mean", "shim, with its 95 % interval", "training programs take 0.99 of"],
	                    "bench-idle": ["larson", "jemalloc"], "bench-rss": ["steps", "shim", "resident memory"],
	                    "bench-growth": ["threads", "shim"]}.items():
		svg = (tmp_path / "plots" / f"{name}.svg").read_text()
		assert all(word in svg for word in words), (name, [word for word in words if word not in svg])
		assert (tmp_path / "plots" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_no_text_of_a_plot_is_cut_and_ratios_beyond_it_do_not_overlap():
	from lib import suite_plot  # pylint: disable=import-outside-toplevel  # matplotlib takes a second to load
	from matplotlib.text import Text  # pylint: disable=import-outside-toplevel
	labels = ["fl_rounds", "larson", "real_redis", "real_perl"]
	runs = [run for number in range(2) for label in labels for run in everybody(
		label, number, glibc={}, shim={"idle_mib": 20.0 + 40 * number}, jemalloc={"idle_mib": 9000.0}, tcmalloc={"idle_mib": 30000.0})]
	entries = {label: {"title": label, "group": "real", "arguments": []} for label in labels}
	suite = suite_data.Suite({**suite_of(*runs), "entries": entries})

	figure = suite_plot.draw_dots(suite, list(suite_plot.GROUPS), "idle_mib", suite_plot.idle_title(suite), "ratio")

	figure.canvas.draw()
	texts = [text for text in figure.findobj(Text) if text.get_text().strip()]
	boxes = {(text.get_text(), number): text.get_window_extent() for number, text in enumerate(texts)}
	assert {"real programs: mean", "180", "600"} <= {text.get_text() for text in texts}
	assert [words for words, box in boxes.items() if box.x0 < 0 or box.x1 > figure.bbox.x1 or box.y0 < 0 or box.y1 > figure.bbox.y1] == []
	beyond = sorted((box for (words, _), box in boxes.items() if words in ("180", "600")), key=lambda box: (box.y0, box.x0))
	assert all(one.x1 < two.x0 or one.y1 < two.y0 for one, two in zip(beyond, beyond[1:]))


def test_bounds_alone_end_with_1_where_a_miss_has_no_reason(result, monkeypatch):
	good = report(result, "--bounds")
	data = json.loads(result.read_text())
	for run in data["runs"]:
		if run["candidate"] == "shim":
			run["figures"]["idle_mib"] = 60.0
	result.write_text(json.dumps(data))
	bad = report(result, "--bounds")

	assert good.returncode == 0 and "PASS: fl_rounds: RSS after idle" in good.stdout, good.stdout + good.stderr
	assert bad.returncode == 1 and "MISS: fl_rounds: RSS after idle" in bad.stdout
	assert "no reason given yet" in bad.stdout
	monkeypatch.setitem(suite_bounds.REASONS, "idle:fl_rounds", "because")
	row = next(row for row in suite_bounds.check(suite_data.Suite(data)) if row.ident == "idle:fl_rounds")
	assert "because" in row.line() and "no reason" not in row.line()


def test_rows_of_a_further_suite_are_taken_where_the_first_has_none():
	first, other = suite_of(*everybody("fl_rounds", glibc={}, shim={})), suite_of(
		*everybody("fl_rounds", glibc={"work_s": 9.0}, shim={}), *everybody("larson", glibc={}, shim={"work_s": 2.0}))
	first["entries"] = {"fl_rounds": first["entries"]["fl_rounds"]}

	whole = suite_data.Suite(suite_data.joined(first, [other]))

	assert whole.value("fl_rounds", "glibc", "work_s") == 1.0
	assert whole.value("larson", "shim", "work_s") == 2.0
	with pytest.raises(ValueError, match="different machines"):
		suite_data.joined(first, [{**other, "machine": {"cpu": "another"}}])


def test_bounds_alone_end_with_1_where_a_run_of_the_shim_has_failed(result):
	data = json.loads(result.read_text())
	failed = {"workload": "steps", "number": 0, "reason": "ended with -11"}
	data["runs"] = [run for run in data["runs"] if (run["workload"], run["candidate"]) != ("steps", "shim")]

	result.write_text(json.dumps({**data, "failed": [{**failed, "candidate": "tcmalloc"}]}))
	of_a_peer = report(result, "--bounds")
	result.write_text(json.dumps({**data, "failed": [{**failed, "candidate": "shim"}]}))
	of_ours = report(result, "--bounds")

	assert (of_a_peer.returncode, of_ours.returncode) == (0, 1), of_ours.stdout + of_ours.stderr
	assert "FAILED: shim on steps: ended with -11" in of_ours.stdout and "FAILED" not in of_a_peer.stdout


def test_another_file_is_refused_in_one_line(tmp_path):
	path = tmp_path / "other.json"
	path.write_text("{}")
	got = report(path)

	assert got.returncode == 1 and got.stderr.count(os.linesep) == 1 and "no result of bench/suite.py" in got.stderr
