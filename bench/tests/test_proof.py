"""The proof: rounds under the peers of today, on the libc and with the huge pages that are asked for, with its bounds and its pages."""
import json
import os
import pathlib
import subprocess
import sys
from types import SimpleNamespace

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import pages  # noqa: E402
from lib import candidates, entries, peers, plan, proof, proof_bounds, suite_data  # noqa: E402

TOY = """
import json, os, sys, time
idle = float(sys.argv[sys.argv.index("--idle") + 1])
work_s = 0.05
while time.process_time() < work_s:
	pass
if idle:
	print(json.dumps({"event": "idle", "time": time.monotonic()}), flush=True)
	time.sleep(idle)
print(json.dumps({"work_s": work_s}))
"""


def made(rows):
	"""A result as a proof writes it: label -> candidate -> figures of one run, the same in three rounds."""
	runs = [{"workload": label, "candidate": name, "number": number, "figures": figures}
		for label, by_name in rows.items() for name, figures in by_name.items() for number in range(3)]
	names = dict.fromkeys(name for by_name in rows.values() for name in by_name)
	return suite_data.Suite({"suite": 1, "entries": {row.label: {"title": row.title, "group": row.group} for row in proof.rows()
		if row.label in rows}, "candidates": {name: {} for name in names}, "runs": runs})


def test_each_round_has_every_row_under_every_candidate_once():
	chosen = [candidates.Candidate(name) for name in "abc"]
	rows = [entries.Entry(label, "training", "t") for label in ("x", "y")]

	jobs = [job.key for job in plan.make_round(rows, chosen, 4)]

	assert sorted(jobs) == sorted((row.label, one.name, 4) for row in rows for one in chosen)


def test_a_proof_records_its_runs_and_bounds(tmp_path, run):
	(tmp_path / "toy.py").write_text(TOY)
	(tmp_path / "rows.json").write_text(json.dumps([{"name": str(tmp_path / "toy"), "label": "toy", "group": "training", "title": "a toy"}]))
	out = tmp_path / "result.json"

	done = run(["/usr/bin/python3", ROOT / "bench" / "suite.py", "--proof", "20", "--runs", "2", "--entries", tmp_path / "rows.json", "--build",
		tmp_path / "build", "--json", out, "--idle", "0.2", "--candidates", "glibc,glibc-again", "--candidate", "shim:LD_PRELOAD="],
		env=dict(os.environ), timeout=60)

	result = json.loads(out.read_text())
	assert {(one["candidate"], one["number"]) for one in result["runs"]} == {
		(name, number) for name in ("glibc", "glibc-again", "shim") for number in range(2)}, done.stderr
	assert any("CPU time / glibc" in bound["text"] and bound["bound"] == "1.00" for bound in result["bounds"])
	assert result["machine"]["thp"] and result["machine"]["kernel"] and "commit" in result["machine"]


def test_every_budget_names_rows_and_candidates_that_exist():
	labels = {row.label for row in proof.rows()}

	for minutes, budget in proof.BUDGETS.items():
		assert set(budget.rows) <= labels, minutes
		assert [one.name for one in proof.candidates_of(minutes)] == list(budget.candidates)


def test_huge_pages_are_set_for_a_row_and_restored(tmp_path):
	setting = tmp_path / "enabled"
	setting.write_text("always [madvise] never\n")

	with proof.HugePages(setting).restored() as huge_pages:
		huge_pages.become("always")
		assert setting.read_text() == "always"

	assert setting.read_text() == "madvise"


@pytest.mark.skipif(not peers.found("testing"), reason="needs make bench-peers, and root")
def test_a_candidate_of_testing_runs_this_machines_programs_on_its_libc():
	asked = ["/usr/bin/python3", "-c", "import os; print(os.confstr('CS_GNU_LIBC_VERSION'), os.getcwd(), 'jemalloc' in open('/proc/self/maps').read())"]
	candidate = candidates.parse("jemalloc-testing")

	said = subprocess.run(candidate.command(asked), capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()

	assert said[1] == peers.versions("testing")["libc6"].partition("-")[0]
	assert said[2:] == [os.getcwd(), "True"]


def test_what_a_peer_does_better_is_named():
	suite = made({"xmalloc": {"glibc": {"cpu_s": 1.0, "peak_mib": 100, "idle_mib": 90}, "tcmalloc": {"cpu_s": 0.5, "peak_mib": 100, "idle_mib": 90},
		"shim": {"cpu_s": 0.9, "peak_mib": 100.5, "idle_mib": 10}}})

	found = proof_bounds.behind(suite)

	assert [(one.label, one.key, one.peer) for one in found] == [("xmalloc", "cpu_s", "tcmalloc")]


def test_what_went_back_of_scattered_survivors_is_a_share_of_the_free_memory():
	suite = made({"survivors": {"shim": {"full_rss_mib": 1000, "live_mib": 100, "idle_mib": 325}}})

	assert proof_bounds.returned_share(suite, "shim") == pytest.approx(0.75)
	assert SimpleNamespace(**proof_bounds.check(suite)[-1].record()).holds


def test_a_page_keeps_what_is_written_by_hand():
	text = "by hand\n<!-- proof: cpu -->\nold\n<!-- end of cpu -->\nby hand too\n"

	assert pages.replaced(text, {"cpu": "| new |", "peak": "| other |"}) == (
		"by hand\n<!-- proof: cpu -->\n| new |\n<!-- end of cpu -->\nby hand too\n")


def test_a_page_names_an_allocator_by_its_version():
	suite = made({"xmalloc": {"glibc": {}, "shim": {}}})
	suite.record["machine"] = {"versions": {"libc6": "2.36-9+deb12u10"}, "versions_of_testing": {"libjemalloc2": "5.3.1-2"}}
	page = pages.Page(suite)

	assert [page.name(name) for name in ("glibc", "jemalloc-testing-tuned", "shim")] == ["glibc 2.36", "jemalloc 5.3.1 tuned", "mtshim"]
