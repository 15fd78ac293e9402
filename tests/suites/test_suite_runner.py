"""The runner of other people's suites finds each difference, and reports no false one."""
import io
import os
import pathlib
import tarfile
import time

import pytest

import suite_glibc
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


def test_a_case_that_is_missing_with_the_shim_is_a_failure(judge):
	verdict = judge(rf"printf 'a\tpass\n'; {SHIMMED} || printf 'b\tpass\n'")

	assert kinds(verdict) == {"b": "different"} and "absent" in verdict.failures[0]


def test_a_suite_that_dies_with_the_shim_is_one_failure(judge):
	verdict = judge(rf"{SHIMMED} && kill -SEGV $$; printf 'a\tpass\nb\tpass\n'")

	assert kinds(verdict) == {"(exit)": "different"} and "signal 11" in verdict.failures[0]


def test_a_suite_that_dies_once_with_the_shim_is_a_failure(judge):
	verdict = judge(rf"{SHIMMED} && nth 2 && kill -SEGV $$; printf 'a\tpass\n'")

	assert kinds(verdict) == {"(exit)": "different"} and verdict.failures


def test_a_suite_that_hangs_with_the_shim_is_a_failure(judge):
	verdict = judge(rf"printf 'a\tpass\n'; {SHIMMED} && sleep 60; exit 0", limit_s=4, again=1)

	assert kinds(verdict) == {"(exit)": "different"} and "timeout" in verdict.failures[0]


def test_what_is_seen_without_the_shim_too_is_flaky(judge):
	verdict = judge(r"if nth 1 || nth 3; then printf 'a\tpass\n'; else printf 'a\tfail\n'; fi")

	assert kinds(verdict) == {"a": "flaky"} and not verdict.failures


def test_what_never_comes_again_is_told_and_no_failure(judge):
	verdict = judge(r"if nth 2; then printf 'a\tfail\n'; else printf 'a\tpass\n'; fi")

	assert kinds(verdict) == {"a": "once"} and not verdict.failures


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


def test_a_suite_of_which_every_test_is_an_error_is_no_success(judge):
	assert "could be run" in judge(r"printf 'a\terror\nb\terror\n'; exit 1").failures[0]
	assert not judge(r"printf 'a\terror\nb\tpass\n'; exit 1").failures


def test_a_suite_that_is_not_done_without_the_shim_is_no_success(judge):
	assert "not done" in judge("sleep 60", limit_s=1).failures[0]


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


# ---- glibc's tests ----

def test_a_test_of_glibc_is_told_from_its_parts():
	parts = ("tst-stack4mod", "tst-execstack-mod", "modatexit", "tst-cleanup4aux", "tst-atfork2mod", "tst-_res1mod2", "bug-dlsym1-lib1")
	tests = ("tst-chmod", "tst-trim1", "mallocbug", "tst-stack4", "tst-mallocfork2")

	assert [suite_glibc.is_part(name) for name in (*parts, *tests)] == [True] * len(parts) + [False] * len(tests)


@pytest.fixture
def packaged(tmp_path, monkeypatch):
	"""A package of three tests: one passes, one has a part and a helper of support/, one does not compile."""
	files = {"support/help.c": "int help (void) { return 0; }",
	         "malloc/tst-one.c": "int main (void) { return 0; }",
	         "malloc/tst-two.c": "int help (void), part (void); int main (void) { return help () + part (); }",
	         "malloc/tst-two-aux.c": "int part (void) { return 0; }",
	         "malloc/tst-bad.c": "#include <only-within-glibc.h>\n"}
	(tmp_path / "package").mkdir()
	with tarfile.open(tmp_path / "package" / "glibc-2.0.tar.xz", "w:xz") as tar:
		for name, text in files.items():
			entry = tarfile.TarInfo(f"glibc-2.0/{name}")
			entry.size = len(text)
			tar.addfile(entry, io.BytesIO(text.encode()))
	for name, value in {"PACKAGED": tmp_path / "package", "PLACE": tmp_path / "out put"}.items():
		monkeypatch.setattr(suite_glibc, name, value)


def test_tests_of_glibc_are_built_with_their_parts_and_what_does_not_build_is_listed(packaged, session):
	units = {unit.name: unit for unit in suite_glibc.glibc()}

	assert set(units) == {"malloc/tst-one", "malloc/tst-two"}
	assert "malloc/tst-bad: " in (listed := (suite_glibc.PLACE / "glibc-2.0-tests" / "not-built.txt").read_text()) and "only-within-glibc.h" in listed
	assert session.run(units["malloc/tst-two"], "bare").status == session.run(units["malloc/tst-one"], "default").status == "exit 0"


# ---- readers ----

def output(stdout="", results=pathlib.Path("/nonexistent")):
	return suite_read.Output(stdout, "", results)


@pytest.mark.parametrize("dialect, text", [
	("regrtest", '<testsuites><testsuite><testcase name="m.C.a" status="run" result="completed"/>'
	             '<testcase name="m.C.b" status="run" result="completed"><failure>x</failure></testcase>'
	             '<testcase name="m.C.c" status="run" result="completed"><skipped>x</skipped></testcase>'
	             '<testcase name="m.C.d" status="run" result="completed"><output>x</output></testcase>'
	             '<testcase/></testsuite></testsuites>'),
	("pytest", '<testsuites><testsuite><testcase classname="m.C" name="a"/><testcase classname="m.C" name="b">'
	           '<failure message="x">x</failure></testcase><testcase classname="m.C" name="b"/>'
	           '<testcase classname="m.C" name="c"><skipped/></testcase></testsuite></testsuites>'),
	("googletest", '<testsuites><testsuite name="m"><testcase name="a" status="run" result="completed" classname="m.C"/>'
	               '<testcase name="b" status="run" result="completed" classname="m.C"><failure/></testcase>'
	               '<testcase name="c" status="notrun" result="suppressed" classname="m.C"/></testsuite></testsuites>')])
def test_the_xml_of_three_kinds_is_read(tmp_path, dialect, text):
	(tmp_path / "results").write_text(text)

	more = {"m.C.d": "xfail", "(failed in a subtest 1)": "fail"} if dialect == "regrtest" else {}
	assert suite_read.read_junit(output(results=tmp_path / "results")) == \
		{"m.C.a": "pass", "m.C.b": "fail", "m.C.c": "skip", **more}


def test_half_a_file_of_xml_holds_no_case(tmp_path):
	(tmp_path / "results").write_text('<testsuites><testsuite><testcase name="a"/>')

	assert suite_read.read_junit(output(results=tmp_path / "results")) == {} and suite_read.read_junit(output()) == {}


def test_tap_is_read():
	text = ("TAP version 13\n1..5\nok 1 /array/new\nnot ok 2 /array/old\nok 3 /array/odd # SKIP no such thing\n"
	        "# a remark\n    ok 4 - a subtest\nok 5\nBail out! GLib-FATAL\n")

	assert suite_read.read_tap(output(text)) == {"/array/new": "pass", "/array/old": "fail", "/array/odd": "skip",
	                                             "a subtest": "pass", "case 5": "pass", "(bail out)": "fail"}


def test_a_tap_program_that_skips_all_has_one_case():
	assert suite_read.read_tap(output("# looking\n1..0 # SKIP - no AppArmor here\n")) == {"(all)": "skip"}


def test_the_lines_of_mariadb_are_read():
	text = ("TEST                                  WORKER RESULT   TIME (ms) or COMMENT\n"
	        "main.select 'innodb'                     [ pass ]   1234\nmain.view                w2 [ fail ]\n"
	        "main.fulltext                            [ skipped ]  no such engine\nworker[1] Using MTR_BUILD_THREAD 300\n")

	assert suite_read.read_mtr(output(text)) == {"main.select 'innodb'": "pass", "main.view": "fail", "main.fulltext": "skip"}


def test_addresses_in_names_do_not_make_cases_differ(tmp_path):
	(tmp_path / "results").write_text('<testsuite><testcase name="t[&lt;f at 0x7f12a0&gt;]"/></testsuite>')

	assert suite_read.read_junit(output(results=tmp_path / "results")) == {"t[<f at 0xN>]": "pass"}


def test_seeds_in_names_do_not_make_cases_differ():
	assert suite_read.read_tap(output("ok 3 /queue/random/seed:421958113\n")) == {"/queue/random/seed:N": "pass"}


# ---- the tables ----

def test_every_explanation_is_of_a_suite_that_is_run():
	explained = suite_judge.read_explained()

	assert explained and all(len(one.reason) > 20 for one in explained)
	for one in explained:
		suite, _, name = one.unit.partition("/")
		assert suite in suite_table.SUITES and (suite != "cpython" or name in suite_table.CPYTHON)


@pytest.mark.parametrize("text", ["a/b jemalloc pass->fail case\n", "a/b nobody pass->fail case\n why\n",
                                  "a/b jemalloc pass case\n why\n"])
def test_an_explanation_without_a_reason_or_a_change_is_refused(tmp_path, text):
	(tmp_path / "explained").write_text(text)

	with pytest.raises(ValueError):
		suite_judge.read_explained(tmp_path / "explained")
