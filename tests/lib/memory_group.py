"""Memory groups with a limit that the kernel keeps, of cgroup v1 or v2, whichever has the machine's memory controller."""
import os
import pathlib
import signal
import time

# The names of v1, by which tests ask, and where v2 has the same figure.
V2_NAMES = {"memory.limit_in_bytes": "memory.max", "memory.usage_in_bytes": "memory.current", "memory.max_usage_in_bytes": "memory.peak"}


class CannotMake(Exception):
	"""Says why no group can be made here."""


def _mounts(root, kind):
	for line in (root / "proc/self/mountinfo").read_text().splitlines():
		fields, _, rest = line.partition(" - ")
		if rest.split()[0] == kind:
			yield rest.split()[2].split(","), fields.split()[3], fields.split()[4]


def _own(root, controller):
	"""The path of the group that this process is in; None where that hierarchy is not there."""
	for line in (root / "proc/self/cgroup").read_text().splitlines():
		_, controllers, path = line.split(":", 2)
		if controller in controllers.split(",") or (controller is None and not controllers):
			return path
	return None


def _folder(root, mount_root, mount_point, path):
	"""Where a group is seen: below the mount point, without what is above the mount's own root."""
	below = path.removeprefix(mount_root.rstrip("/")) if path.startswith(mount_root) else "/"
	return root / mount_point.lstrip("/"), root / (mount_point + below).strip("/")


def place(root=pathlib.Path("/")):
	"""(1 or 2, the folder in which a group can be made). In v2 a group gives controllers to its children or has processes, never both:
	so it is the nearest one above this process's that gives memory to its children. Raises CannotMake."""
	path = _own(root, "memory")
	for options, mount_root, mount_point in _mounts(root, "cgroup") if path else ():
		if "memory" in options:
			return 1, _folder(root, mount_root, mount_point, path)[1]
	path = _own(root, None)
	for _, mount_root, mount_point in _mounts(root, "cgroup2") if path else ():
		top, folder = _folder(root, mount_root, mount_point, path)
		while True:
			control = folder / "cgroup.subtree_control"
			if control.exists() and "memory" in control.read_text().split():
				return 2, folder
			if folder in (top, root):
				break
			folder = folder.parent
	raise CannotMake("no cgroup of version 1 or 2 above this process gives memory to groups below it")


def remove(path):
	"""A group with all that is in it."""
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
		self.version, folder = place(root)
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
		(self.path / self.name_of(file)).write_text(str(value))

	def read(self, file):
		"""A figure, by its name in version 1."""
		if self.version == 2 and file == "memory.failcnt":
			events = dict(line.split() for line in (self.path / "memory.events").read_text().splitlines())
			return int(events["max"])
		return int((self.path / self.name_of(file)).read_text())

	def enter(self):
		"""For preexec_fn."""
		self.write("cgroup.procs", os.getpid())

	def command(self, words):
		"""A command that runs these words in the group."""
		return ["/bin/sh", "-c", f'echo $$ >{self.path}/cgroup.procs && exec "$@"', "sh", *words]

	def remove(self):
		remove(self.path)
