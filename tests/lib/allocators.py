"""Other allocators, to be preloaded beside the shim."""
import pathlib
import subprocess

import pytest

PACKAGES = {
	"jemalloc": ("libjemalloc2", "libjemalloc.so.2"),
	"tcmalloc": ("libtcmalloc-minimal4", "libtcmalloc_minimal.so.4"),
	"mimalloc": ("libmimalloc2.0", "libmimalloc.so.2"),
}


def library_of(name):
	package, file = PACKAGES[name]
	listed = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True).stdout.splitlines()
	found = [line for line in listed if pathlib.Path(line).name == file]
	if not found:
		pytest.skip(f"{package} is not installed")
	return found[0]
