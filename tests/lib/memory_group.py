"""Control groups with a memory limit, of cgroup v1 or v2, whichever has the machine's memory controller."""
import errno
import os
import pathlib
import signal
import time

# Tests use the names of v1; these are the files of v2 with the same figures.
V2_NAMES = {"memory.limit_in_bytes": "memory.max", "memory.usage_in_bytes": "memory.current", "memory.max_usage_in_bytes": "memory.peak"}


class CannotMake(Exception):
	"""No group can be made here; the text has the reason."""


def _mounts(root, kind):
	for line in (root / "proc/self/mountinfo").read_text().splitlines():
		fields, _, rest = line.partition(" - ")
		if rest.split()[0] == kind:
			yield rest.split()[2].split(","), fields.split()[3], fields.split()[4]


def _own(root, controller):
	"""Returns the path of this process's group in a hierarchy; None where there is no such hierarchy."""
	for line in (root / "proc/self/cgroup").read_text().splitlines():
		_, controllers, path = line.split(":", 2)
		if controller in controllers.split(",") or (controller is None and not controllers):
			return path
	return None


def _folder(root, mount_root, mount_point, path):
	"""Returns the mount point and the folder of a group below it. The mount may begin at a group of its own."""
	below = path.removeprefix(mount_root.rstrip("/")) if path.startswith(mount_root) else "/"
	return root / mount_point.lstrip("/"), root / (mount_point + below).strip("/")


def _write(path, value):
	path.write_text(str(value))


def _words(path):
	return path.read_text().split() if path.exists() else []


def _give_memory(folder):
	"""Lets the children of a group of v2 have the memory controller. The kernel refuses while the group has processes (EBUSY): then they
	move to a child first, as an init of a container does. Returns whether the kernel took it."""
	for _ in range(3):
		try:
			_write(folder / "cgroup.subtree_control", "+memory")
			return True
		except OSError as error:
			if error.errno != errno.EBUSY:
				return False
		leaf = folder / "mtshim-test-processes"
		try:
			leaf.mkdir(exist_ok=True)
		except OSError:
			return False
		for pid in _words(folder / "cgroup.procs"):
			try:
				_write(leaf / "cgroup.procs", pid)
			except OSError:
				pass  # it has ended, or it is the kernel's
	return False


def place(root=pathlib.Path("/"), may_give=False):
	"""(1 or 2, the folder in which a group can be made). v1 where it has the memory controller. In v2 the nearest group, from this
	process's upwards, that gives memory to its children. If none does, and may_give: the nearest that can begin to. Raises CannotMake."""
	path = _own(root, "memory")
	for options, mount_root, mount_point in _mounts(root, "cgroup") if path else ():
		if "memory" in options:
			return 1, _folder(root, mount_root, mount_point, path)[1]
	path = _own(root, None)
	folders = []
	for _, mount_root, mount_point in _mounts(root, "cgroup2") if path else ():
		top, folder = _folder(root, mount_root, mount_point, path)
		while folder.is_relative_to(top):
			folders.append(folder)
			folder = folder.parent
	for folder in folders:
		if "memory" in _words(folder / "cgroup.subtree_control"):
			return 2, folder
	for folder in folders if may_give else ():
		if "memory" in _words(folder / "cgroup.controllers") and _give_memory(folder):
			return 2, folder
	raise CannotMake("no cgroup of version 1 or 2 above this process gives memory to groups below it")


def remove(path):
	"""Kills all processes of a group and removes it."""
	for _ in range(100):
		try:
			for pid in (path / "cgroup.procs").read_text().split():
				os.kill(int(pid), signal.SIGKILL)
			path.rmdir()
		except FileNotFoundError:
			return
		except OSError:
			time.sleep(0.05)


class MemoryGroup:
	"""A new group; .version is that of its hierarchy. Raises CannotMake."""

	def __init__(self, name, limit_bytes, root=pathlib.Path("/")):
		self.version, folder = place(root, may_give=True)
		self.path = folder / name
		try:
			self.path.mkdir()
			self.write("memory.limit_in_bytes", limit_bytes)
		except OSError as error:
			self.remove()
			raise CannotMake(f"no memory group can be made here: {error}") from error
		if (self.path / "memory.swap.max").exists():
			self.write("memory.swap.max", 0)  # else it is no limit but a way to the disk

	def name_of(self, file):
		return V2_NAMES.get(file, file) if self.version == 2 else file

	def write(self, file, value):
		_write(self.path / self.name_of(file), value)

	def read(self, file):
		"""Returns a figure, by its name in version 1."""
		if self.version == 2 and file == "memory.failcnt":
			events = dict(line.split() for line in (self.path / "memory.events").read_text().splitlines())
			return int(events["max"])
		return int((self.path / self.name_of(file)).read_text())

	def enter(self):
		"""Moves the calling process into the group; for preexec_fn."""
		self.write("cgroup.procs", os.getpid())

	def command(self, words):
		"""Returns a command that runs these words in the group."""
		return ["/bin/sh", "-c", f'echo $$ >{self.path}/cgroup.procs && exec "$@"', "sh", *words]

	def remove(self):
		remove(self.path)
