"""Parts `pairs` and `mixes`: allocation and free by size and in random mixes, in every allocator that is there, in turn."""
import select
import subprocess
import time

import place as places

WAYS = {"driver": ("bare", "sync"), "driver_async": ("bare", "async"), "account": ("account", "sync"), "pool/wait": ("pool/wait", "sync"),
        "pool/async": ("pool/async", "sync")}
MIX_WAYS = {name: WAYS[name] for name in WAYS if name != "account"}
POOLS = ("torch", "cupy", "rmm")
MIXES = {"small": (512, 2 << 20), "large": (1 << 20, 1 << 30)}
POOL_FIRST_S, MIX_S = 15, 3
TELLS_S = 10


class Gathering:
	"""Runs of one part: way -> list of figures, what was skipped, how long each way took the last time."""

	def __init__(self, place, budget):
		self.place, self.budget = place, budget
		self.results, self.skipped, self.took_s = {}, {}, {}

	def take_turn(self, name, what, expected_s, measure):
		if name in self.skipped:
			return
		if not self.budget.allows(f"{what}: {name}", 1.2 * self.took_s.get(name, expected_s)):
			return
		begin = time.monotonic()
		try:
			figures, reason = measure()
		except places.TROUBLE as error:
			figures, reason = None, f"{type(error).__name__}: {error}"
		self.took_s[name] = time.monotonic() - begin
		if figures is None:
			self.budget.say(f"skipped: {name} ({reason})")
			self.skipped[name] = reason
		else:
			self.results.setdefault(name, []).append(figures)


def pool_command(place, name, *words):
	return [place.python, places.HERE / "pools.py", name, *words]


def by_size(place, budget):
	part, options = Gathering(place, budget), place.options
	limit = lambda: budget.limit_s(places.RUN_LIMIT_S)  # pylint: disable=unnecessary-lambda-assignment
	for number in range(options.runs):
		what = f"pairs {number + 1}/{options.runs}"
		expected = 36 * options.pair_ms / 1000 * 1.3 + 1
		part.take_turn("event", what, 1, lambda: places.run_to_end([place.pairs, "event"], place.env("bare"), limit()))
		for name, (way, call) in WAYS.items():
			part.take_turn(name, what, expected, lambda: only_known(place, way, lambda: places.run_to_end(  # pylint: disable=cell-var-from-loop
				[place.pairs, call, options.pair_ms], place.env(way), limit())))  # pylint: disable=cell-var-from-loop
		for name in POOLS:
			part.take_turn(f"{name}_pool", what, POOL_FIRST_S, lambda: only_real(place, lambda: places.run_to_end(
				pool_command(place, name, "pairs", options.pair_ms), place.env("bare"), limit())))  # pylint: disable=cell-var-from-loop
	return part


def only_known(place, way, measure):
	return measure() if place.ways_of([way]) else (None, "this library has no MT_CUDA_FREE")


def only_real(place, measure):
	return (None, "needs a real driver") if place.options.fake else measure()


def mix_once(place, budget, name, way, call):
	"""pairs mix, which waits for us at its end, so that mtctl can be asked for its hits."""
	low, high = MIXES[name]
	steps = place.options.mix_steps if name == "small" else place.options.mix_steps // 4
	process = subprocess.Popen([place.pairs, call, "mix", str(low), str(high), str(steps)], env=place.env(way, HOLD=1),
	                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
	try:
		out = read_line(process, budget.limit_s(places.RUN_LIMIT_S))
		if out is None:
			return None, "killed: no figures in time"
		hits = hit_figures(place, process.pid, places.last_json(out)["steps"]) if way != "bare" and out.startswith("{") else {}
		rest, _ = process.communicate(timeout=20)
	finally:
		if process.poll() is None:
			process.kill()
			process.wait()
	if process.returncode != 0:
		return None, places.reason_of(process.returncode, out + rest, "")
	return places.last_json(out) | hits, None


def read_line(process, limit_s):
	"""The first line, or None where it does not come in time."""
	ready, _, _ = select.select([process.stdout], [], [], limit_s)
	return process.stdout.readline() if ready else None


def hit_figures(place, pid, allocations):
	"""Of all of its allocations, {} where it does not come to tell of them: on a busy machine it may be late."""
	end = time.monotonic() + TELLS_S
	while time.monotonic() < end:
		device = place.gpu_figures(pid)
		if device.get("alloc_count", 0) >= allocations:
			return {"hit_percent": 100 * device["hit_count"] / device["alloc_count"], "driver_allocs": device["num_device_alloc"]}
		time.sleep(0.1)
	return {}


def mixes(place, budget):
	parts = {}
	for name, (low, high) in MIXES.items():
		parts[name] = part = Gathering(place, budget)
		for number in range(place.options.runs):
			what = f"mix of {name} blocks {number + 1}/{place.options.runs}"
			for way, words in MIX_WAYS.items():
				part.take_turn(way, what, MIX_S, lambda: only_known(  # pylint: disable=cell-var-from-loop
					place, words[0], lambda: mix_once(place, budget, name, *words)))  # pylint: disable=cell-var-from-loop
			if number > 0:
				continue  # Starting Python takes longer than the mix.
			steps = place.options.mix_steps if name == "small" else place.options.mix_steps // 4
			for pool in POOLS:
				part.take_turn(f"{pool}_pool", what, POOL_FIRST_S, lambda: only_real(place, lambda: places.run_to_end(
					pool_command(place, pool, "mix", low, high, steps),  # pylint: disable=cell-var-from-loop
					place.env("bare"), budget.limit_s(places.RUN_LIMIT_S))))
	return parts
