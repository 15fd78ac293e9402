"""A part of other people's test suites under the preload, as much as CI has time for; `make check-suites` runs them all."""
import pytest

import suite_judge
import suite_run
import suite_table


@pytest.fixture(scope="module")
def judge(shim):
	session = suite_run.Session(shim)
	yield suite_judge.Judge(session)
	session.close()


@pytest.mark.parametrize("name", suite_table.CI_CPYTHON)
def test_cpythons_own_tests_say_the_same(judge, name):
	missing = suite_table.missing_packages("cpython")
	if missing:
		pytest.skip(f"not installed: {', '.join(missing)}")

	verdict = judge.judge(suite_table.cpython_unit(name), ["jemalloc", "system"])

	assert not verdict.failures, "\n".join(verdict.failures + [one.tail for one in verdict.differences])
	assert len(verdict.bare.tests) > 1 and verdict.bare.status == "exit 0"
	assert sum(run.cleanups for run in verdict.runs.values()) > 0
