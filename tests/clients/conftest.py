"""A client is a real program: with the shim it must print and answer what it does without."""
import re
import shutil

import pytest


@pytest.fixture(params=["threshold", "busy"])
def settings(request, env):
	"""As shipped, and with a reaper that starts at the first malloc and never rests."""
	if request.param == "threshold":
		return env()
	return env(MIN_MB=0, TICK_MS=20, IDLE_MS=20, SLACK_MB=1, SLACK_PCT=0, SETTLE_MS=200, BUDGET_PCT=50)


@pytest.fixture
def needs():
	def look(*programs):
		for program in programs:
			if shutil.which(program) is None:
				pytest.skip(f"{program} is not installed")
	return look


@pytest.fixture
def same(run, bare, settings):
	"""same(cmd): runs it without and with the shim; status, stdout and (unless told otherwise) stderr must agree."""
	def compare(cmd, timeout=120, stderr=True, clean=lambda text: text, prepare=lambda: None, **options):
		prepare()
		expected = run(cmd, bare, timeout=timeout, **options)
		prepare()
		got = run(cmd, settings, timeout=timeout, **options)
		assert got.returncode == expected.returncode, f"{expected.stderr}\n--- with the shim:\n{got.stderr}"
		assert clean(got.stdout) == clean(expected.stdout)
		if stderr:
			assert clean(got.stderr) == clean(expected.stderr)
		return got
	return compare


@pytest.fixture
def without_times():
	return lambda text: re.sub(r"\d+\.\d+|0x[0-9a-f]+", "N", text)
