"""What tests make outside of pytest's folders has a name that tells whose it is. A run that is killed cannot clean up, and what it
leaves may hold the machine's memory for good: the next run sweeps it."""
import os
import pathlib
import re
import shutil
import tempfile

import memory_group

BUILT = pathlib.Path(__file__).resolve().parents[2] / "build" / "tests"
# pids are of a namespace, and containers may share a folder.
_STEM = f"mtshim-test-{os.stat('/proc/self/ns/pid').st_ino}-"


def prefix():
	"""Of a name in one of the places that are swept: /dev/shm, the folder for temporary files, build/tests, memory groups."""
	return f"{_STEM}{os.getpid()}-"


def sweep():
	"""Of the dead alone."""
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
