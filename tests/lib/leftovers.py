"""Names for files and groups that tests make outside of pytest's folders; each name has the pid of its run. A killed run cannot clean up,
and its files may hold the machine's memory for ever: the next run removes them."""
import os
import pathlib
import re
import shutil
import tempfile

import memory_group

BUILT = pathlib.Path(__file__).resolve().parents[2] / "build" / "tests"
# A pid belongs to a namespace, and containers may share a folder.
_STEM = f"mtshim-test-{os.stat('/proc/self/ns/pid').st_ino}-"


def prefix():
	"""Returns the start of a name for /dev/shm, the folder for temporary files, build/tests or a memory group."""
	return f"{_STEM}{os.getpid()}-"


def sweep():
	"""Removes files and groups of runs that have ended."""
	places = {pathlib.Path("/dev/shm"), pathlib.Path(tempfile.gettempdir()), BUILT}
	try:
		places.add(memory_group.place()[1])
	except memory_group.CannotMake:
		pass
	for place in places:
		for path in place.glob(_STEM + "*"):
			pid = re.match(rf"{_STEM}(\d+)-", path.name)
			if not pid or pathlib.Path("/proc", pid[1]).exists():
				continue
			if (path / "cgroup.procs").exists():
				memory_group.remove(path)
			else:
				shutil.rmtree(path, ignore_errors=True)
