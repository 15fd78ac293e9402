"""Part `rescue`: one process caches most of the device, another one needs it. With MT_CUDA_RESCUE the second asks the first to give back."""
import subprocess

import place as places

KEPT_PERCENT, WANTED_PERCENT = 60, 70
LIMIT_S = 60


def once(place, way, **settings):
	holder = place.start([place.phases, "keep", KEPT_PERCENT], place.env(way, MT_CUDA_DECAY_MS=0, **settings), stdin=subprocess.PIPE,
	                     stderr=subprocess.DEVNULL)
	try:
		line = holder.stdout.readline()
		if '"kept"' not in line:
			return None, line.strip() or "the process that caches ended"
		before = place.gpu_figures(holder.pid)
		figures, reason = places.run_to_end([place.phases, "want", WANTED_PERCENT], place.env(way, **settings), LIMIT_S)
		after = place.gpu_figures(holder.pid)
	finally:
		place.kill(holder)
		holder.wait()
	if figures and before:
		figures |= {"kept_mib": before["reserved_bytes"] >> 20, "kept_after_mib": after.get("reserved_bytes", 0) >> 20}
	return figures, reason


def measure(place, budget):
	"""way -> [figures], and what was skipped."""
	pool = place.ways_of(["pool/wait", "pool/async"])[0]
	ways = {"bare": ("bare", {}), "no rescue": (pool, {"MT_CUDA_RESCUE": 0}), "rescue": (pool, {"MT_CUDA_RESCUE": 1})}
	results, skipped = {}, {}
	for name, (way, settings) in ways.items():
		if settings and not place.knows("MT_CUDA_RESCUE"):
			skipped[name] = "this library has no MT_CUDA_RESCUE"
		elif budget.allows(f"rescue: {name}", 5):
			try:
				figures, reason = once(place, way, **settings)
			except places.TROUBLE as error:
				figures, reason = None, f"{type(error).__name__}: {error}"
			if figures:
				results[name] = [figures]
			else:
				skipped[name] = reason
	return results, skipped
