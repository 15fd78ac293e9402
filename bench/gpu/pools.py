"""Pairs of allocation and free in pools that Python programs use, by size, in ns; one JSON object on the last line.

  pools.py torch|cupy|rmm

Python's own call is in these figures: the `pair_nothing_ns` beside them is a call that only makes an object.
"""
import json
import statistics
import sys
import time

SIZES = {"512B": 512, "64KiB": 65536, "1MiB": 1 << 20, "16MiB": 16 << 20, "256MiB": 256 << 20, "1GiB": 1 << 30}


def pair_of(name):
	"""A function of a size that takes a block and drops it."""
	if name == "torch":
		import torch
		torch.cuda.init()
		def pair(size):
			torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(size))
		return pair, torch.__version__
	if name == "cupy":
		import cupy
		pool = cupy.get_default_memory_pool()
		return lambda size: pool.malloc(size) and None, cupy.__version__
	import rmm
	rmm.reinitialize(pool_allocator=True)
	return lambda size: rmm.DeviceBuffer(size=size) and None, rmm.__version__


def measure(pair, size):
	samples = []
	for _ in range(20):
		pair(size)
	until = time.monotonic() + 0.25
	while time.monotonic() < until and len(samples) < 20000:
		begin = time.perf_counter_ns()
		pair(size)
		samples.append(time.perf_counter_ns() - begin)
	return statistics.median(samples)


pair, version = pair_of(sys.argv[1])
figures = {f"pair_{name}_ns": measure(pair, size) for name, size in SIZES.items()}
figures["pair_nothing_ns"] = measure(lambda size: object() and None, 0)
print(json.dumps({"version": version, **figures}))
