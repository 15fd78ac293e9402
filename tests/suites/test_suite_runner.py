"""The runner of other people's suites finds each difference, and reports no false one."""
import os
import pathlib
import time

import pytest

import suite_judge
import suite_read
import suite_run
import suite_table

HERE = pathlib.Path(__file__).resolve().parent
SHIMMED = '[ -n "$LD_PRELOAD" ]'


@pytest.fixture
def session(shim):
	one = suite_run.Session(shim)
	yield one
	one.close()


@pytest.fixture
def judge(session):
	"""judge(script, explained=[]): the verdict on a suite that is a shell script; `nth N` is true in its Nth run."""
	def judge_script(script, explained=(), again=3, **options):
		counter = session.folder / "count"
		counter.write_text("0")
		nth = f'count=$(($(cat {counter}) + 1)); echo $count >{counter}; nth() {{ [ $count = $1 ]; }}\n'
		unit = suite_run.Unit("fake", "unit", ("/bin/sh", "-c", (nth + script).replace("{", "{{").replace("}", "}}")),
		                      options.pop("read", suite_read.read_lines), **{"limit_s": 20, **options})
		return suite_judge.Judge(session, list(explained), again).judge(unit, ["jemalloc"])
	return judge_script


def kinds(verdict):
	return {one.case: one.kind for one in verdict.differences}


def test_what_is_the_same_is_no_difference(judge):
	verdict = judge(r"printf 'a\tpass\nb\tfail\n'; exit 1")

	assert not verdict.differences and not verdict.failures
	assert verdict.bare.cases == {"a": "pass", "b": "fail", "(exit)": "exit 1"} and verdict.runs["jemalloc"].programs >= 1


def test_a_case_that_only_fails_with_the_shim_is_a_failure(judge):
	verdict = judge(rf"printf 'a\tpass\n'; if {SHIMMED}; then printf 'b\tfail\n'; exit 1; fi; printf 'b\tpass\n'")

	assert kinds(verdict) == {"b": "different"} and len(verdict.failures) == 1


def test_a_suite_that_dies_with_the_shim_is_one_failure(judge):
	verdict = judge(rf"{SHIMMED} && kill -SEGV $$; printf 'a\tpass\nb\tpass\n'")

	assert kinds(verdict) == {"(exit)": "different"} and "signal 11" in verdict.failures[0]


def test_a_suite_that_hangs_with_the_shim_is_a_failure(judge):
	verdict = judge(rf"printf 'a\tpass\n'; {SHIMMED} && sleep 60; exit 0", limit_s=2, again=1)

	assert kinds(verdict) == {"(exit)": "different"} and "timeout" in verdict.failures[0]


def test_what_is_seen_without_the_shim_too_is_flaky(judge):
	verdict = judge(r"if nth 1 || nth 3; then printf 'a\tpass\n'; else printf 'a\tfail\n'; fi")

	assert kinds(verdict) == {"a": "flaky"} and not verdict.failures


def test_what_comes_again_is_a_failure(judge):
	verdict = judge(r"if nth 2 || nth 4; then printf 'a\tfail\n'; else printf 'a\tpass\n'; fi")

	assert kinds(verdict) == {"a": "different"}


def test_an_explanation_covers_its_own_case_and_outcome_alone(judge):
	def explained(variant="jemalloc", shim="fail", case="b"):
		return [suite_judge.Explanation("fake/unit", (variant,), "pass", shim, case, "a reason")]
	script = rf"{SHIMMED} && printf 'b\tfail\n' || printf 'b\tpass\n'"

	verdict = judge(script, explained())
	assert kinds(verdict) == {"b": "explained"} and not verdict.failures and verdict.differences[0].reason == "a reason"
	for other in (explained(variant="system"), explained(shim="error"), explained(case="a")):
		assert judge(script, other, again=0).failures


def test_a_suite_that_runs_no_test_is_no_success(judge):
	assert "no test was run" in judge("exit 0").failures[0]


def test_what_fails_without_the_shim_is_not_compared_where_that_says_nothing(judge):
	script = rf"{SHIMMED} && exit 0; exit 1"

	assert judge(script, read=suite_read.read_exit).failures
	verdict = judge(script, read=suite_read.read_exit, only_if_passes=True)
	assert not verdict.failures and not verdict.runs and verdict.bare.status == "exit 1"
	assert judge(rf"{SHIMMED} && exit 1; exit 0", read=suite_read.read_exit, only_if_passes=True).failures


def test_a_shim_that_is_not_there_is_no_success(tmp_path):
	(tmp_path / "empty").touch()
	session = suite_run.Session(tmp_path / "empty")
	unit = suite_run.Unit("fake", "unit", ("/bin/true",), suite_read.read_exit)
	try:
		assert "no program has loaded the shim" in suite_judge.Judge(session, []).judge(unit, ["system"]).failures[0]
	finally:
		session.close()


def is_running(pid):
	try:
		return pathlib.Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
	except (FileNotFoundError, ProcessLookupError):
		return False


def test_nothing_outlives_its_run(session):
	unit = suite_run.Unit("fake", "unit", ("/bin/sh", "-c", "setsid sleep 1234 & echo $! >{tmp}/results; sleep 0.2"),
	                      lambda output: {"pid": output.results.read_text().strip()})
	pid = session.run(unit, "bare").cases["pid"]

	end = time.monotonic() + 20
	while is_running(pid) and time.monotonic() < end:
		time.sleep(0.01)  # who is killed has to run once more to die
	assert not is_running(pid)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("variant", ["bare", "jemalloc"])
def test_a_suite_runs_as_nobody_where_it_says_so(session, variant):
	unit = suite_run.Unit("fake", "unit", ("/bin/sh", "-c", 'id -u; touch "$HOME/file" && echo can write'),
	                      lambda output: {"said": output.stdout}, as_nobody=True)
	run = session.run(unit, variant)

	assert run.cases["said"] == f"{suite_run.NOBODY}\ncan write\n" and (run.programs > 0) == (variant != "bare")


def test_the_command_refuses_a_suite_that_there_is_not(run, bare):
	done = run([HERE / "run", "--list", "no-such-suite"], bare)

	assert done.returncode == 1 and done.stderr.startswith("no such suite: no-such-suite; there are cpython ")


# ---- readers ----


# ---- the tables ----

def test_every_explanation_is_of_a_suite_that_is_run():
	explained = suite_judge.read_explained()

	assert explained and all(len(one.reason) > 20 for one in explained)
	for one in explained:
		suite, _, name = one.unit.partition("/")
		assert suite in suite_table.SUITES and (suite != "cpython" or name in suite_table.CPYTHON)
