"""A bare root for the kit, and what runs a command in it: Python, a shell and the stand-in driver; no compiler, no network, no package."""
import os
import pathlib
import re
import shutil
import subprocess

PYTHON = "/usr/bin/python3"
# In a mount, process and network namespace of its own. "$1" is the root, the rest the command.
ENTER = """
root=$1
shift
mount --bind "$root" "$root" && cd "$root" || exit 125
mount -t proc proc proc && mount -t tmpfs tmpfs dev || exit 125
for one in null zero urandom; do : >dev/$one && mount --bind /dev/$one dev/$one || exit 125; done
mkdir dev/shm && ln -s /proc/self/fd dev/fd
exec chroot . "$@"
"""
FOLDERS = ("proc", "dev", "tmp", "out", "kit")


def namespace():
	mapped = [] if os.getuid() == 0 else ["--map-root-user"]
	return ["unshare", *mapped, "--mount", "--pid", "--net", "--fork", "--kill-child", "--propagation", "private"]


def can_enter():
	return subprocess.run([*namespace(), "mount", "-t", "proc", "proc", "/proc"], capture_output=True, check=False).returncode == 0


def command_in(root, *words):
	return [*namespace(), "sh", "-c", ENTER, "sh", root, "/usr/bin/env", "-i", "PATH=/usr/bin:/bin", *words]


def libraries_of(*files):
	text = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True, check=False).stdout
	return {pathlib.Path(path) for path in re.findall(r"(/\S+\.so[.\d]*) \(", text)}


def copy(root, path):
	target = root / str(path).lstrip("/")
	target.parent.mkdir(parents=True, exist_ok=True)
	shutil.copy(path, target)


def make_small_root(root):
	"""Of this machine's own files: Python with its standard library, sh, env, and what they are linked with."""
	library = pathlib.Path(subprocess.run([PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"], capture_output=True,
	                                      text=True, check=True).stdout.strip())
	programs = [pathlib.Path(PYTHON), pathlib.Path("/bin/sh"), pathlib.Path("/usr/bin/env")]
	ignored = shutil.ignore_patterns("site-packages", "dist-packages", "test", "idlelib", "ensurepip", "lib2to3", "config-*", "__pycache__")
	shutil.copytree(library, root / str(library).lstrip("/"), ignore=ignored, ignore_dangling_symlinks=True)
	unwinder = pathlib.Path("/usr/lib").glob("*-linux-gnu/libgcc_s.so.1")  # libc opens it where a thread ends by pthread_exit
	for path in {*programs, *unwinder, *libraries_of(*programs, *(library / "lib-dynload").glob("*.so"))}:
		copy(root, path)


def furnish(root, kit, driver):
	"""The kit, and the stand-in driver where the loader finds it by itself."""
	for name in FOLDERS:
		(root / name).mkdir(exist_ok=True)
	shutil.copytree(kit, root / "kit" / "anywhere", dirs_exist_ok=True)
	libc = next(root.glob("lib/*/libc.so.6"), None) or next(root.glob("usr/lib/*/libc.so.6"))
	shutil.copy(driver, libc.parent / "libcuda.so.1")
