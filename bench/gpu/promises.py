"""What must hold on a GPU, checked after the parts that measure it. A promise that is an aim is printed, and breaks nothing."""
import bounds

POOL_PAIR_NS, IDLE_MIB, DECAY_LATE_MS = 1000, 64, 2000


def pair_ns(runs, way, size):
	"""An allocation and its free, on an idle device in one thread."""
	parts = [bounds.of(runs, way, f"idle_1_{call}_{size}_ns") for call in ("alloc", "free")]
	return None if None in parts else sum(parts)


def pair_beyond_event(runs):
	"""ns of a pair that the pool serves, less the event that it cannot do without."""
	one, event = pair_ns(runs, "pool/async", "64KiB"), bounds.of(runs, "event", "event_ns")
	return None if one is None or event is None else one - event


def over(one, other):
	return None if one is None or not other else one / other


def worst(runs, key):
	"""Of all runs; one that never came to it is infinitely late."""
	values = [run[key] for run in runs if key in run]
	return max((float("inf") if value is None else value for value in values), default=None)


def verdict(text, value, bound):
	"""A bound is compared at the digits in which it is written, as in bench/bounds.py."""
	if value is None:
		return bounds.Verdict(text, None, bound, None)
	digits = len(bound.partition(".")[2])
	return bounds.Verdict(text, value, bound, round(value, digits) <= float(bound))


def of_pairs(runs):
	return [verdict("ns of a 64 KiB pair from the pool, beyond the event", pair_beyond_event(runs), str(POOL_PAIR_NS)),
		verdict("time of a 2 MiB pair, pool/wait / driver", over(pair_ns(runs, "pool/wait", "2MiB"), pair_ns(runs, "driver", "2MiB")), "1.00")]


def of_giveback(results, decay_ms):
	signal, decay = results.get("signal", []), results.get("decay", [])
	return [
		verdict("MiB not back after SIGUSR1, worst run", worst(signal, "left_mib"), str(IDLE_MIB)),
		verdict("ms from the last free until the decay has given it all back", worst(decay, "decay_ms"), str(decay_ms + DECAY_LATE_MS)),
	]


def peak_of(results, way):
	return worst(results.get(way, []), "device_peak_mib")


def of_peak(model, results):
	"""What another process sees taken, against a driver without any cache: the bounds of each kind of free."""
	bare = peak_of(results, "no_cache")
	return [
		verdict(f"{model}: peak without PyTorch's cache, pool/wait / no pool", over(peak_of(results, "no_cache+wait"), bare), "1.30"),
		verdict(f"{model}: peak without PyTorch's cache, pool/async / a quarter above no pool and 64 MiB",
			over(peak_of(results, "no_cache+async"), bare and 1.25 * bare + 64), "1.00"),
	]


def of_rescue(results):
	with_rescue = results.get("rescue", [])
	return [verdict("result of an allocation for which another process must give back", worst(with_rescue, "code"), "0")] if with_rescue else []


def of_training(model, ratios, results):
	value = {way: getattr(ratios.get(way), "value", None) for way in ("no_cache+async", "cache+shim")}
	return [
		verdict(f"{model}: step time without PyTorch's cache over the shim / PyTorch's own cache", value["no_cache+async"], "1.05"),
		verdict(f"{model}: step time with PyTorch's cache and the shim counting / without the shim", value["cache+shim"], "1.05"),
		verdict(f"{model}: MiB idle in the pool after SIGUSR1",
			worst(results.get("no_cache+async", []), "idle_after_signal_mib"), str(IDLE_MIB)),
		*of_peak(model, results),
	], [verdict(f"{model}: aim: step time with PyTorch's cache and the shim counting / without the shim", value["cache+shim"], "1.01")]


def line(one):
	return one.line().replace("FAIL", "MISS")
