"""What a test gives to another user. The tree may lie where others cannot enter, as a home usually does: what another user reads, runs
or preloads is copied to a place that all users can enter."""
import os
import pathlib
import shutil
import tempfile

import pytest

import leftovers


def _all_may_enter(folder):
	return all(path.stat().st_mode & 0o001 for path in (folder, *folder.parents))


def make_folder():
	"""Returns a new folder that all users can enter and read, and only its owner can write to. The caller removes it. It is on a
	file system from which programs run: /dev/shm may be mounted noexec."""
	places = [pathlib.Path(place).resolve() for place in (tempfile.gettempdir(), "/tmp", "/var/tmp")]
	parent = next(place for place in places if _all_may_enter(place) and os.access(place, os.W_OK))
	folder = pathlib.Path(tempfile.mkdtemp(prefix=leftovers.prefix(), dir=parent))
	folder.chmod(0o755)
	return folder


def copy_into(folder, path):
	"""Copies a file under its own name, for all users to read and run. Returns the copy."""
	copy = folder / pathlib.Path(path).name
	shutil.copyfile(path, copy)
	copy.chmod(0o755)
	return copy


@pytest.fixture
def public_folder():
	"""A folder that all users can enter, for this test alone."""
	folder = make_folder()
	yield folder
	shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def public():
	"""public(path): a copy of a file of the tree that all users can read and run; for the same file the same copy."""
	folder, copies = make_folder(), {}

	def copy_of(path):
		if path not in copies:
			place = folder / str(len(copies))
			place.mkdir(mode=0o755)
			place.chmod(0o755)
			copies[path] = copy_into(place, path)
		return copies[path]
	yield copy_of
	shutil.rmtree(folder, ignore_errors=True)
