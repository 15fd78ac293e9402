"""Pairs of allocation and free in pools that Python programs use, by size or in a random mix; one JSON object on the last line.

  pools.py torch|cupy|rmm pairs [MS]
  pools.py torch|cupy|rmm mix LOW HIGH COUNT     the same numbers as `pairs WAY mix`

Python's own call is in these figures: the `nothing_ns` beside them is a call that only makes an object. No kernel runs on
the blocks, as each pool would want it on a stream of its own.
"""
import ctypes
import json
import statistics
import sys
import time

SIZES = {"512B": 512, "4KiB": 4096, "64KiB": 1 << 16, "1MiB": 1 << 20, "2MiB": 2 << 20, "16MiB": 16 << 20, "128MiB": 128 << 20,
         "1GiB": 1 << 30, "8GiB": 8 << 30}
MOST_LIVE, LOOK_EVERY, MOVES_EVERY = 4096, 32, 500


def pool_of(name):
	"""Functions that take a block and drop one, the pool's version, and what was free on the device before it held anything."""
	if name == "torch":
		import torch
		torch.cuda.init()
		torch.empty(1, device="cuda")
		return torch.cuda.caching_allocator_alloc, torch.cuda.caching_allocator_delete, torch.__version__, free_bytes()
	if name == "cupy":
		import cupy
		cupy.zeros(1)
		return cupy.get_default_memory_pool().malloc, lambda block: None, cupy.__version__, free_bytes()
	import rmm
	rmm.DeviceBuffer(size=256)  # The context.
	free = free_bytes()
	# Not half of the device at once, which is its default: what it holds is one of the figures.
	rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 28)
	return lambda size: rmm.DeviceBuffer(size=size), lambda block: None, rmm.__version__, free


def free_bytes():
	free, total = ctypes.c_size_t(), ctypes.c_size_t()
	result = ctypes.CDLL("libcuda.so.1").cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
	if result != 0:
		sys.exit(f"cuMemGetInfo answers {result}")
	return free.value


def quantile(values, share):
	return sorted(values)[int((len(values) - 1) * share)]


def both(what, samples):
	return {f"{what}_ns": statistics.median(samples), f"{what}_p95_ns": quantile(samples, 0.95)}


def measure(take, drop, size, seconds):
	"""ns of each call that takes a block, and of each that drops one."""
	takes, drops = [], []
	until = time.monotonic() + seconds
	for number in range(20000):
		if number > 20 and time.monotonic() > until:
			break
		begin = time.perf_counter_ns()
		holder = [take(size)]
		middle = time.perf_counter_ns()
		# The only reference: for CuPy and RMM losing it is the free.
		drop(holder.pop())
		takes.append(middle - begin)
		drops.append(time.perf_counter_ns() - middle)
	return takes, drops


def pairs(take, drop, seconds):
	figures = {}
	for name, size in SIZES.items():
		if size <= free_bytes() / 4:
			takes, drops = measure(take, drop, size, seconds)
			figures |= both(f"idle_1_alloc_{name}", takes) | both(f"idle_1_free_{name}", drops)
	takes, _ = measure(lambda size: object(), lambda block: None, 0, seconds)
	return figures | both("nothing", takes)


class Mix:
	"""See random_mix in pairs.c."""

	def __init__(self, take, drop, free_at_start):
		self.take, self.drop, self.free_at_start = take, drop, free_at_start
		self.random = 88172645463325252
		self.live, self.live_bytes, self.peak_live = [], 0, 0
		self.takes, self.frees, self.held = [], [], []

	def number(self):
		value = self.random
		value ^= (value << 13) & (2**64 - 1)
		value ^= value >> 7
		value ^= (value << 17) & (2**64 - 1)
		self.random = value
		return value

	def size(self, low, high):
		uniform = (self.number() >> 11) / 2**53
		return (int(low * (high / low) ** uniform) + 511) // 512 * 512

	def free_one(self):
		which = self.number() % len(self.live)
		self.live[which], self.live[-1] = self.live[-1], self.live[which]
		# The only reference goes to drop with the list's own: for CuPy and RMM losing it is the free.
		self.live_bytes -= self.live[-1][1]
		holder = [self.live.pop()[0]]
		begin = time.perf_counter_ns()
		self.drop(holder.pop())
		self.frees.append(time.perf_counter_ns() - begin)

	def take_one(self, size):
		begin = time.perf_counter_ns()
		block = self.take(size)
		self.takes.append(time.perf_counter_ns() - begin)
		self.live.append((block, size))
		self.live_bytes += size
		self.peak_live = max(self.peak_live, self.live_bytes)

	def run(self, low, high, count):
		bound = min(self.free_at_start // 4, 512 << 20 if high < 64 << 20 else 16 << 30)
		high = min(high, bound // 4)
		for number in range(count):
			size = self.size(low, high)
			most = bound * 2 // 5 if number // MOVES_EVERY % 2 else bound
			while self.live and (self.live_bytes + size > most or len(self.live) == MOST_LIVE):
				self.free_one()
			self.take_one(size)
			if number % LOOK_EVERY == LOOK_EVERY - 1:
				self.held.append((max(0, self.free_at_start - free_bytes()), self.live_bytes))
		return both("take", self.takes) | both("free", self.frees) | {
			"step_mean_ns": (sum(self.takes) + sum(self.frees)) / count, "steps": count,
			"peak_held_mib": max(held for held, _ in self.held) / 2**20, "peak_live_mib": self.peak_live / 2**20,
			"held_over_live": sum(held for held, _ in self.held) / sum(live for _, live in self.held)}


def main():
	take, drop, version, free = pool_of(sys.argv[1])
	if sys.argv[2] == "mix":
		figures = Mix(take, drop, free).run(*map(int, sys.argv[3:6]))
	else:
		figures = pairs(take, drop, int(sys.argv[3]) / 1000 if len(sys.argv) > 3 else 0.1)
	print(json.dumps({"version": version, **figures}))


main()
