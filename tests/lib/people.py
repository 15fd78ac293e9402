"""Other users of the machine, for tests that show what they cannot do. They are numbers without a name, a new one for each test and role:
the folders in /dev/shm have the number in their name. Tests need root to become them."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

import leftovers
from public import copy_into, make_folder

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become others")
NOBODY = 65534
ROOT = pathlib.Path(__file__).resolve().parents[2]
FIRST_UID = 20000  # 16 numbers for each process that runs tests; below 65536, which is all that some containers have


class Person:
	"""A user by number. .run and .spawn start a program as that user, .shim under the shim with its default folder."""

	def __init__(self, uid, stage):
		self.uid, self.stage = uid, stage
		self.folder = pathlib.Path(f"/dev/shm/mtshim-{uid}")
		self.prefix = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"] if uid else []

	def words(self, cmd, **settings):
		"""Preloads the shim behind setpriv, so that setpriv runs without it."""
		names = [f"{name}={value}" for name, value in settings.items()]
		return [str(word) for word in [*self.prefix, *(["env", *names] if names else []), *cmd]]

	def run(self, *cmd, timeout=30, **settings):
		return subprocess.run(self.words(cmd, **settings), env=self.stage.bare, capture_output=True, text=True, timeout=timeout,
		                      errors="replace", stdin=subprocess.DEVNULL)

	def ctl(self, *words, **settings):
		return self.run(self.stage.mtctl, *words, **settings)

	def shimmed(self, **settings):
		"""Settings of a program under the shim that is awake from its first byte."""
		return {"LD_PRELOAD": self.stage.shim, "MT_MIN_MB": "0", **{f"MT_{name}": value for name, value in settings.items()}}

	def puppet(self, wait_for, **settings):
		"""Starts a puppet under the shim and waits for its files; returns its process with .tell."""
		process = self.stage.spawn(self.words([self.stage.puppet], **self.shimmed(**settings)), self.stage.bare)

		def tell(line):
			process.stdin.write(line + "\n")
			process.stdin.flush()
			return process.stdout.readline().strip()
		process.tell = tell
		assert tell("alloc 2000 1000 2000") == "2000", process.stderr.read()
		folder = pathlib.Path(settings.get("DIR", self.folder))
		wait_for(lambda: list(folder.glob(f"{process.pid}-*.stats")), 15, "the files of the puppet")
		return process

	def files(self, pid, folder=None):
		return sorted((folder or self.folder).glob(f"{pid}-*"))


class Stage:
	"""Copies of the programs that persons run, where all users may read them."""


@pytest.fixture
def stage(bare, shim, mtctl, compile_c, spawn):
	here = Stage()
	here.place = make_folder()
	here.memory = pathlib.Path(tempfile.mkdtemp(prefix=leftovers.prefix(), dir="/dev/shm"))  # the shim makes files in memory alone
	here.memory.chmod(0o755)
	here.bare, here.spawn = bare, spawn
	for source in (shim, mtctl, mtctl.with_name("mtctl-serve"), mtctl.with_name("mtctl-plot"), compile_c("puppet.c")):
		copy = copy_into(here.place, source)
	here.shim, here.mtctl, here.puppet = here.place / shim.name, here.place / "mtctl", copy
	yield here
	shutil.rmtree(here.place, ignore_errors=True)
	shutil.rmtree(here.memory, ignore_errors=True)


@pytest.fixture
def person(stage):
	"""person(number): a user; the same number is the same user. person(uid=0): root."""
	known = {}

	def make(number=0, uid=None):
		uid = FIRST_UID + os.getpid() % 2500 * 16 + number if uid is None else uid
		return known.setdefault(uid, Person(uid, stage))
	yield make
	for one in known.values():
		if one.uid not in (0, NOBODY) and one.folder.is_dir() and not one.folder.is_symlink():
			shutil.rmtree(one.folder, ignore_errors=True)
		elif one.uid not in (0, NOBODY):
			one.folder.unlink(missing_ok=True)


@pytest.fixture
def everybodys(stage):
	"""A folder as /tmp is."""
	place = stage.memory / "tmp"
	place.mkdir()
	place.chmod(0o1777)
	return place


@pytest.fixture
def fake_of(stage):
	"""fake_of(owner, folder, key=value...): starts fake_shim.py as the owner; returns its process."""
	for source in ("tests/lib/fake_shim.py", "shim/core/figures.def"):
		target = stage.place / source
		target.parent.mkdir(parents=True, exist_ok=True)
		shutil.copyfile(ROOT / source, target)

	def start(owner, folder, environment=None, **options):
		words = owner.words(["/usr/bin/python3", "-S", stage.place / "tests/lib/fake_shim.py", stage.shim, folder,
		                     json.dumps(options)], **(environment or {"MT_DIR": folder}))
		process = stage.spawn(words, stage.bare)
		assert process.stdout.readline() == "ready\n", process.stderr.read()
		return process
	return start


@pytest.fixture
def home_of(stage):
	"""home_of(owner): a folder of the owner's that is fit for MT_DIR."""
	def make(owner, name=None):
		place = stage.memory / (name or f"home-{owner.uid}")
		place.mkdir(mode=0o700)
		os.chown(place, owner.uid, owner.uid)
		return place
	return make
