"""The modules of mtshim.integrations with the real packages, from PyPI. `make check-frameworks` installs them; tests whose packages
are not there are skipped."""
import pathlib
import subprocess

import pytest

from places import ROOT

HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope="session")
def programs():
	return HERE / "programs"


@pytest.fixture(scope="session")
def wheel(shim, tmp_path_factory):
	done = subprocess.run([ROOT / "scripts/wheel/pack", shim.parent, "0.1.0", tmp_path_factory.mktemp("wheel")], capture_output=True,
	                      text=True, check=True)
	return done.stdout.strip()


@pytest.fixture(scope="session")
def commands(wheel):
	"""commands(name): the folder of programs of build/frameworks/name, with the wheel of this build installed in it."""
	ready = {}

	def install(name):
		folder = ROOT / "build/frameworks" / name
		listed = folder / "packages.txt"
		if not listed.exists() or listed.read_bytes() != (HERE / f"{name}.txt").read_bytes():
			pytest.skip(f"build/frameworks/{name} is not there: tests/frameworks/venv {name}")
		if name not in ready:
			subprocess.run([folder / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index", "--no-deps",
			                "--force-reinstall", wheel], check=True)
			ready[name] = folder / "bin"
		return ready[name]
	return install


@pytest.fixture
def both(run, bare, env):
	"""both(command, prepare, **settings): runs it without and with the library, compares exit code and stdout, and returns the runs.
	prepare() is called before each."""
	def compare(command, prepare=lambda: {}, timeout=300, **options):
		without = run(command, dict(bare, **prepare()), timeout=timeout, **options)
		under = run(command, dict(env(), **prepare()), timeout=timeout, **options)
		assert (under.returncode, under.stdout) == (without.returncode, without.stdout), under.stderr
		return without, under
	return compare
