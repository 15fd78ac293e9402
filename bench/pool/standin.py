#!/usr/bin/env python3
"""What MT_CUDA_FREE=wait costs on the stand-in driver over the driver alone, and why: `make bench-pool` ends with this table.

The stand-in's cuMemFree waits for all streams of the context (FAKECUDA_FREE_WAITS=2), or for its blocking ones alone (1). A call of it
takes a lock, which is most of its time. How many calls a pair makes is exact."""
import argparse
import json
import os
import pathlib
import subprocess
import tempfile

WAYS = {"the driver alone": None, "pool, wait": {"MT_CUDA_FREE": "wait"}, "pool, async": {"MT_CUDA_FREE": "async"},
        "account": {"MT_CUDA": "account"}}


def measure(build, settings, folder, waits=2):
	environment = {name: value for name, value in os.environ.items() if not name.startswith("MT_") and name != "LD_PRELOAD"}
	environment |= {"LD_LIBRARY_PATH": str(build / "tests/fakecuda"), "FAKECUDA_FREE_WAITS": str(waits)}
	if settings is not None:
		environment |= {"LD_PRELOAD": str(build / "libmtshim.so"), "MT_DIR": folder, "MT_CUDA": "pool", **settings}
	return json.loads(subprocess.run([build / "bench/standin"], env=environment, stdout=subprocess.PIPE, check=True).stdout)


def main():
	parser = argparse.ArgumentParser(description=__doc__)
	parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
	build = parser.parse_args().build.resolve()
	print("\non the stand-in driver: ns of a pair of 4 kB, in each of 4 threads, of sizes that no cached block fits; ms of a free behind a kernel")
	print("of 2 ms in a non-blocking stream, on a driver that waits for it and on one that does not; calls of the driver a pair of 4 kB")
	with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
		for way, settings in WAYS.items():
			found = measure(build, settings, folder)
			figures = [found.pop(name) for name in ("pair_ns", "threads_ns", "miss_ns", "busy_free_ms")]
			figures.append(measure(build, settings, folder, waits=1)["busy_free_ms"])
			calls = ", ".join(f"{name.removesuffix('_v2')} {count:.2f}" for name, count in found.items() if count >= 0.01)
			print(f"  {way:17}" + "{:7.0f} {:7.0f} {:7.0f} ns {:6.2f} {:5.2f} ms  ".format(*figures) + calls)


if __name__ == "__main__":
	main()
