"""Where the tests make groups with a memory limit: on machines that have cgroup v1, v2 or both, made of files."""
import errno
import pathlib

import pytest

import memory_group

V1 = "35 31 0:32 {} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
V2 = "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


@pytest.fixture
def machine(tmp_path):
	"""machine(mounts, own, folder=controllers for its children, ...): a root with these files."""
	def make(mounts, own, folders=()):
		(tmp_path / "proc/self").mkdir(parents=True)
		(tmp_path / "proc/self/mountinfo").write_text(mounts)
		(tmp_path / "proc/self/cgroup").write_text(own)
		for folder, controllers in dict(folders).items():
			(tmp_path / folder).mkdir(parents=True, exist_ok=True)
			(tmp_path / folder / "cgroup.subtree_control").write_text(controllers + "\n")
		return tmp_path
	return make


def test_with_version_2_alone_a_group_is_made_where_memory_is_given_to_children(machine):
	root = machine(V2, "0::/user.slice/session/leaf\n", {
		"sys/fs/cgroup": "cpu memory", "sys/fs/cgroup/user.slice": "cpu memory", "sys/fs/cgroup/user.slice/session": "cpu",
		"sys/fs/cgroup/user.slice/session/leaf": ""})

	group = memory_group.MemoryGroup("group", 256 << 20, root)

	assert (group.version, group.path) == (2, root / "sys/fs/cgroup/user.slice/group")
	assert (group.path / "memory.max").read_text() == str(256 << 20)
	(group.path / "memory.peak").write_text("1000\n")
	(group.path / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 1\n")
	assert (group.read("memory.max_usage_in_bytes"), group.read("memory.failcnt")) == (1000, 7)


def test_in_a_container_that_is_one_group_its_processes_move_to_a_child_and_groups_get_memory(machine, monkeypatch):
	"""The kernel refuses to give a controller to children while the group itself has processes."""
	root = machine(V2, "0::/\n", {"sys/fs/cgroup": ""})
	own = root / "sys/fs/cgroup"
	(own / "cgroup.controllers").write_text("cpu memory pids\n")
	(own / "cgroup.procs").write_text("17\n")

	def kernel(path, value):
		if path == own / "cgroup.subtree_control" and (own / "cgroup.procs").read_text():
			raise OSError(errno.EBUSY, "Device or resource busy")
		if path.name == "cgroup.procs":
			(own / "cgroup.procs").write_text("")
		path.write_text(str(value))
	monkeypatch.setattr(memory_group, "_write", kernel)

	group = memory_group.MemoryGroup("group", 256 << 20, root)

	assert (group.version, group.path) == (2, own / "group")
	assert (own / "cgroup.subtree_control").read_text() == "+memory"
	assert (own / "mtshim-test-processes/cgroup.procs").read_text() == "17"


def test_no_group_can_be_made_without_the_right_to_give_memory_to_children(machine, monkeypatch):
	root = machine(V2, "0::/\n", {"sys/fs/cgroup": ""})
	(root / "sys/fs/cgroup/cgroup.controllers").write_text("memory\n")

	def kernel(path, value):
		raise OSError(errno.EROFS, "Read-only file system")
	monkeypatch.setattr(memory_group, "_write", kernel)

	with pytest.raises(memory_group.CannotMake):
		memory_group.MemoryGroup("group", 256 << 20, root)


def test_no_group_can_be_made_where_nobody_gives_memory_to_children(machine):
	root = machine(V2, "0::/\n", {"sys/fs/cgroup": ""})

	with pytest.raises(memory_group.CannotMake, match="no cgroup of version 1 or 2 above this process gives memory"):
		memory_group.MemoryGroup("group", 256 << 20, root)


@pytest.mark.parametrize("mount_root, own, folder", [("/", "/a/b", "a/b"), ("/docker/abc", "/docker/abc", ""), ("/docker/abc", "/docker/abc/d", "d")])
def test_version_1_is_taken_where_it_has_the_memory_controller(machine, mount_root, own, folder):
	place = pathlib.Path("sys/fs/cgroup/memory") / folder
	root = machine(V1.format(mount_root) + V2, f"4:memory:{own}\n0::/\n", {place: "", "sys/fs/cgroup": "memory"})

	group = memory_group.MemoryGroup("group", 100, root)

	assert (group.version, group.path) == (1, root / place / "group")
	assert (group.path / "memory.limit_in_bytes").read_text() == "100"
