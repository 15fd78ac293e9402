"""Shared by the tests of mtctl: mtctl with a private MT_DIR, and processes that only seem to run under the shim."""
import json
import pathlib
import subprocess

import pytest

import fake_shim

PYTHON = "/usr/bin/python3"
FAKE = pathlib.Path(fake_shim.__file__)
ROOT = FAKE.parents[2]
MB = 1 << 20
DONE, NOTHING, USAGE, NO_PROCESS, NO_ANSWER, NOT_SHIMMED, NOT_PERMITTED = range(7)
FREED = DONE


@pytest.fixture
def plain(bare, mt_dir):
	return dict(bare, MT_DIR=str(mt_dir))


@pytest.fixture
def ctl(mtctl, plain):
	"""ctl(words..., NAME=VALUE...): mtctl with the MT_DIR of the test, and these variables as they are."""
	def call(*words, **environment):
		return subprocess.run([mtctl, *map(str, words)], env=dict(plain, **environment), capture_output=True, text=True,
		                      timeout=120, errors="replace")
	return call


@pytest.fixture
def fake(spawn, plain, mt_dir, tmp_path):
	"""fake(key=value...): starts a process that seems to run under the shim (fake_shim.py); returns its pid."""
	library = tmp_path / "libmtshim.so"
	library.write_bytes(bytes(8192))

	def start(environment=None, **options):
		process = spawn([PYTHON, "-S", FAKE, library, mt_dir, json.dumps(options)], environment or plain)
		assert process.stdout.readline() == "ready\n"
		return process.pid
	return start


def files_of(pid, mt_dir, suffix):
	found = [file for file in mt_dir.iterdir() if file.name.startswith(f"{pid}-") and file.suffix == "." + suffix]
	assert len(found) == 1
	return found[0]
