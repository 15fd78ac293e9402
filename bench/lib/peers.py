"""Peers that this release of Debian does not have: roots below build/peers, which bench/peers/get unpacks (`make bench-peers`).

A candidate of such a root runs the programs of this machine on the root's libc: its files lie over this machine's in a mount namespace.
So one program is compared on two versions of glibc, and under allocators that this machine's libc cannot load. Needs root.
"""
import ctypes
import functools
import glob
import gzip
import os
import signal
import subprocess
import sys

PLACE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "build", "peers")
MS_BIND, MS_REC, MS_PRIVATE, CLONE_NEWNS, PR_SET_PDEATHSIG = 1 << 12, 1 << 14, 1 << 18, 0x20000, 1
# Libraries of the root that are not its libc stay out of the programs; candidates name them by their paths.
LIBC = ("ld-linux", "libBrokenLocale", "libanl", "libc.", "libc_malloc_debug", "libdl.", "libm.", "libmvec", "libnsl", "libnss_",
	"libpthread", "libresolv", "librt.", "libthread_db", "libutil")


def root(name):
	return os.path.join(PLACE, name)


def library(name, file):
	found = glob.glob(os.path.join(root(name), "usr", "lib", "*", file))
	return found[0] if found else os.path.join(root(name), file)


def found(name):
	return os.path.exists(library(name, "libc.so.6")) and os.getuid() == 0


def versions(name):
	"""Source package and version of each package in the root, by its changelog."""
	known = {}
	for path in sorted(glob.glob(os.path.join(root(name), "usr", "share", "doc", "lib*", "changelog.Debian.gz"))):
		with gzip.open(path, "rt", encoding="utf-8", errors="replace") as text:
			words = text.readline().split()
		known[os.path.basename(os.path.dirname(path))] = words[1].strip("()") if len(words) > 1 else ""
	return known


def lay_over(folder):
	"""In a namespace of its own, this process and its children find the root's libc in the place of the machine's."""
	libc = ctypes.CDLL(None, use_errno=True)

	def mount(source, target, flags):
		if libc.mount(source.encode(), target.encode(), None, flags, None) != 0:
			raise OSError(ctypes.get_errno(), f"mount {target}")
	libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
	if libc.unshare(CLONE_NEWNS) != 0:
		raise OSError(ctypes.get_errno(), "unshare")
	mount("none", "/", MS_REC | MS_PRIVATE)
	ours = os.path.join("/usr/lib", os.path.basename(folder))
	for file in os.listdir(folder):
		if file.startswith(LIBC) and os.path.exists(os.path.join(ours, file)):
			mount(os.path.join(folder, file), os.path.realpath(os.path.join(ours, file)), MS_BIND)


@functools.lru_cache(maxsize=None)
def holder(name):
	"""A process that keeps the namespace; it ends with this one."""
	words = [sys.executable, os.path.abspath(__file__), os.path.dirname(library(name, "libc.so.6"))]
	process = subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
	if process.stdout.readline().strip() != "ready":
		raise SystemExit(f"the libc of {root(name)} cannot be laid over this machine's")
	return process


def entering(name):
	"""The words before a command that runs it on the root's libc, from the present folder, as the same process."""
	return ["nsenter", f"--mount=/proc/{holder(name).pid}/ns/mnt", f"--wd={os.getcwd()}"]


if __name__ == "__main__":
	lay_over(sys.argv[1])
	print("ready", flush=True)
	signal.pause()
