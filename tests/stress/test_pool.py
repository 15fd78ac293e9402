"""The device pool against a model: millions of operations, no stale touch, nothing left at the end; and the model finds out
where the events are done too early."""
import hashlib
import json
import pathlib

import pytest

HERE = pathlib.Path(__file__).parent
SHIM = HERE.parent.parent / "shim"
SOURCES = [SHIM / f"{name}.c" for name in (
	"gpu/blocks", "gpu/capture", "gpu/context", "gpu/fence", "gpu/pool", "gpu/release",
	"core/config", "core/log", "sys/format", "sys/raw_syscall", "sys/os", "sys/lock", "sys/loader", "sys/loader_gate", "sys/main_thread")]
EVERYTHING = ["captures", "deaths", "worker", "ooms"]


@pytest.fixture
def model(run, bare, compile_c):
	"""model(operations, words): runs the model with 8 threads; returns its output."""
	def play(operations, words=(), timeout=240):
		files = [*SOURCES, HERE / "pool_model.h", *(SHIM / "gpu").glob("*.h")]
		version = hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]
		program = compile_c(HERE / "pool_model.c", "-O2", *SOURCES, f"-DPOOL_VERSION=0x{version}")
		got = run([program, operations, 8, *words], bare, timeout=timeout)
		assert got.returncode == 0, got.stderr
		return json.loads(got.stdout), got.stderr
	return play


def well(result, errors):
	assert result["stale"] == 0, (result, errors)
	assert result["wrongs"] == 0, (result, errors)
	assert result["ledger_blocks"] == 0 and result["ledger_events"] == 0, result
	assert result["work"] > result["operations"] / 10, "the device had work"


@pytest.mark.parametrize("operations", [3_000_000, pytest.param(10_000_000, marks=pytest.mark.long)])
def test_millions_of_operations_leave_nothing_behind(model, operations):
	result, errors = model(operations, ["worker", "ooms"])

	assert result["operations"] == operations
	well(result, errors)
	assert result["hits"] > operations // 10


@pytest.mark.parametrize("operations", [5_000_000, pytest.param(10_000_000, marks=pytest.mark.long)])
def test_captures_and_deaths_in_between_leave_nothing_behind(model, operations):
	result, errors = model(operations, EVERYTHING)

	well(result, errors)
	assert result["captures"] > 10 and result["deaths"] > 10


@pytest.mark.parametrize("words", [[], EVERYTHING], ids=["alone", "everything"])
def test_the_model_finds_events_that_are_done_too_early(model, words):
	result, _ = model(200_000, [*words, "lies"])

	assert result["stale"] > 100
