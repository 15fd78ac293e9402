"""pytest: `--mtshim-leak-mb=N` fails each test that leaves more than N MB of the heap in use. Without the option pytest
imports this file and calls two functions of it, no more. PYTEST_DONT_REWRITE"""
import argparse
import gc
import math
from typing import Any, Generator

import pytest

import mtshim

MB = 1 << 20


def megabytes(text: str) -> float:
	number = float(text)
	if not 0 < number < math.inf:
		raise argparse.ArgumentTypeError(f"{text} is no limit: it must be above 0")
	return number


def pytest_addoption(parser: Any) -> None:
	parser.getgroup("mtshim").addoption(
		"--mtshim-leak-mb", type=megabytes, metavar="N",
		help="fail a test that leaves more than N MB of the heap in use; needs `mtshim run -- pytest ...`")


def pytest_configure(config: Any) -> None:
	if config.getoption("mtshim_leak_mb") is not None:
		config.pluginmanager.register(Leaks(config.getoption("mtshim_leak_mb")), "mtshim-leaks")


class Leaks:
	"""What a test leaves is the growth of its call, and not more than the growth from before its setup to after its teardown.
	So neither a fixture of a module or session counts, nor what the test's own fixtures free again. Where the call itself asks
	for a wider fixture for the first time (request.getfixturevalue), its growth is taken off. A test that fails is not judged:
	the traceback that pytest keeps holds its local variables."""

	def __init__(self, limit_mb: float) -> None:
		self._limit_mb = limit_mb
		self._before_setup = self._call_growth = self._wide_growth = 0
		self._is_wide = False

	def pytest_report_header(self) -> str:
		state = "on" if mtshim.is_active() else "no effect, since libmtshim.so is not active: mtshim run -- pytest"
		return f"mtshim: --mtshim-leak-mb={self._limit_mb:g}: {state}"

	@pytest.hookimpl(hookwrapper=True, tryfirst=True)
	def pytest_runtest_setup(self) -> Generator[None, None, None]:
		self._call_growth = 0
		self._before_setup = in_use()
		yield

	@pytest.hookimpl(hookwrapper=True, tryfirst=True)
	def pytest_runtest_call(self) -> Generator[None, Any, None]:
		self._wide_growth = 0
		before = mtshim.stats().live_bytes
		outcome = yield
		self._call_growth = 0 if outcome.excinfo else mtshim.stats().live_bytes - before - self._wide_growth

	@pytest.hookimpl(hookwrapper=True, tryfirst=True)
	def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, None, None]:
		if fixturedef.scope == "function" or self._is_wide:  # one that a wider fixture asks for is within that one's growth
			yield
			return
		self._is_wide = True
		before = in_use()
		yield
		self._wide_growth += in_use() - before
		self._is_wide = False

	@pytest.hookimpl(hookwrapper=True, tryfirst=True)
	def pytest_runtest_teardown(self, item: Any) -> Generator[None, Any, None]:
		outcome = yield
		left_mb = min(self._call_growth, in_use() - self._before_setup) / MB
		if left_mb > self._limit_mb and not outcome.excinfo:
			text = f"{item.nodeid} leaves {left_mb:.1f} MB in use; --mtshim-leak-mb is {self._limit_mb:g}"
			failure = pytest.fail.Exception(text, pytrace=False)
			if not hasattr(outcome, "force_exception"):  # pluggy before 1.1
				raise failure
			outcome.force_exception(failure)


def in_use() -> int:
	gc.collect()
	return mtshim.stats().live_bytes
