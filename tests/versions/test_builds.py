"""This mtctl over older shims, and older mtctls over this shim: builds of build/versions, which scripts/build-versions makes
from the git history. Each mtctl reads its own version of the files alone; of another one it says so, and the process goes on."""
import json
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYOUT = (ROOT / "shim/core/stats_layout.h").read_text()
PRESENT = int(re.search(r"#define MT_STATS_VERSION +(\d+)u", LAYOUT)[1])
BUILDS = sorted((ROOT / "build/versions").glob("*/stats-version"))
REFUSED = 2


def version_of(build):
	return int(build.read_text())


def name_of(build):
	return f"{build.parent.name}-version{version_of(build)}"


def each_of(builds):
	"""Where there are none, one that is skipped."""
	return pytest.mark.parametrize("build", builds, ids=[name_of(build) for build in builds])


@pytest.fixture
def under(env, puppet, wait_for, mt_dir):
	"""under(library): the puppet under that library, awake, with 200 MB that it has freed; .env as control() wants it."""
	def start(library):
		settings = env(MIN_MB=0, BUDGET_PCT=0) | {"LD_PRELOAD": str(library)}
		actor = puppet(settings)
		actor.env = settings
		wait_for(lambda: any(file.read_bytes()[:8] not in (b"", bytes(8)) for file in mt_dir.glob(f"{actor.pid}-*.stats")))
		return actor
	return start


def every_command(pid):
	return [["stat", pid], ["stat", pid, "--json"], ["trim", pid], ["round", pid], ["set", pid, "gc_rounds=7"],
	        ["reset-peak", pid]]


@each_of([build for build in BUILDS if version_of(build) != PRESENT])
def test_this_mtctl_refuses_a_shim_that_it_cannot_read(build, under, control):
	actor = under(build.with_name("libmtshim.so"))

	for words in every_command(actor.pid):
		got = control(actor.env, *words)
		assert got.returncode == REFUSED and got.stderr.count("\n") == 1, (words, got)
		assert f"another version ({version_of(build)}): restart the process" in got.stderr
	listed = json.loads(control(actor.env, "ps", "--json").stdout)["processes"]
	assert [one["state"] for one in listed if one["pid"] == actor.pid] == ["refused"]
	assert actor.end()[0] == 0


@each_of(BUILDS)
def test_an_older_mtctl_over_this_shim(build, under, shim, bare, mt_dir):
	actor = under(shim)
	plain = dict(bare, MT_DIR=str(mt_dir))

	for words in every_command(str(actor.pid)):
		got = subprocess.run([build.with_name("mtctl"), *words], env=plain, capture_output=True, text=True, timeout=30)
		if version_of(build) != PRESENT:
			# One that looks for a control file of another name says that the process is asleep.
			assert got.returncode == REFUSED and got.stderr.count("\n") == 1 or "asleep" in got.stdout + got.stderr, (words, got)
	assert subprocess.run([build.with_name("mtctl"), "ps"], env=plain, capture_output=True, timeout=30).returncode == 0
	assert actor.tell("hello") == "hello" and actor.end()[0] == 0


@each_of(BUILDS)
def test_shims_of_two_versions_share_a_directory(build, under, shim, control, mt_dir):
	old, new = under(build.with_name("libmtshim.so")), under(shim)

	assert len(list(mt_dir.glob("*.stats"))) == 2
	assert control(new.env, "trim", new.pid).returncode in (0, 1)
	assert old.end()[0] == 0 and new.end()[0] == 0
	assert list(mt_dir.iterdir()) == []
