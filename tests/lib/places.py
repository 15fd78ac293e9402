"""Where things are."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIB = ROOT / "tests" / "lib"
BUILT = ROOT / "build" / "tests"
PYTHON = "/usr/bin/python3"


def helper(name):
	"""The file of that name in any folder of tests/, of which there is one; with a folder in its name it is that file."""
	if "/" in str(name):
		return ROOT / "tests" / name
	found = list((ROOT / "tests").glob(f"*/{name}"))
	assert len(found) == 1, f"{name}: {len(found)} files in tests/*/ have this name"
	return found[0]
