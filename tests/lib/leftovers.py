"""What tests make outside of pytest's folders has a name that tells whose it is. A run that is killed cannot clean up, and what it
leaves may hold the machine's memory for good: the next run sweeps it."""
import os
import pathlib
import re
import shutil
import signal
import tempfile
import time

BUILT = pathlib.Path(__file__).resolve().parents[2] / "build" / "tests"
GROUPS = pathlib.Path("/sys/fs/cgroup/memory")
# pids are of a namespace, and containers may share a folder.
_STEM = f"mtshim-test-{os.stat('/proc/self/ns/pid').st_ino}-"


def prefix():
	"""Of a name in one of the places that are swept: /dev/shm, the folder for temporary files, build/tests, memory groups."""
	return f"{_STEM}{os.getpid()}-"


def own_group():
	"""The group of cgroup v1's memory controller that we run in; None where there is none."""
	for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
		_, controllers, path = line.split(":", 2)
		if "memory" in controllers.split(","):
			return GROUPS / path.lstrip("/")
	return None


def remove_group(path):
	"""With all that is in it."""
	for _ in range(100):
		try:
			for pid in (path / "cgroup.procs").read_text().split():
				os.kill(int(pid), signal.SIGKILL)
			path.rmdir()
		except FileNotFoundError:
			return
		except OSError:
			time.sleep(0.05)


def sweep():
	"""Of the dead alone."""
	for place in {pathlib.Path("/dev/shm"), pathlib.Path(tempfile.gettempdir()), BUILT, own_group() or GROUPS}:
		for path in place.glob(_STEM + "*"):
			pid = re.match(rf"{_STEM}(\d+)-", path.name)
			if not pid or pathlib.Path("/proc", pid[1]).exists():
				continue
			if (path / "cgroup.procs").exists():
				remove_group(path)
			else:
				shutil.rmtree(path, ignore_errors=True)
