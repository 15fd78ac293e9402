"""Other allocators, to be preloaded beside the shim."""
import pathlib

import pytest

# The packages have other names in each release: libtcmalloc-minimal4t64, libmimalloc3.
FILES = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4", "mimalloc": "libmimalloc.so.[0-9]"}


def library_of(name):
	found = sorted(map(str, pathlib.Path("/usr/lib").glob(f"*-linux-gnu/{FILES[name]}")))
	if not found:
		pytest.skip(f"no {FILES[name]} is installed")
	return found[-1]
