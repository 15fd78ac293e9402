"""Folders of the tree."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIB = ROOT / "tests" / "lib"
BUILT = ROOT / "build" / "tests"
PYTHON = "/usr/bin/python3"


def helper(name):
	"""Returns the one file of that name in tests/*/, or, for a name with a folder, that file below tests/."""
	if "/" in str(name):
		return ROOT / "tests" / name
	found = list((ROOT / "tests").glob(f"*/{name}"))
	assert len(found) == 1, f"{name}: {len(found)} files in tests/*/ have this name"
	return found[0]
