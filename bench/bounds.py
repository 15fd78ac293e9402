"""What must hold: one row for each promise, checked after the workload of its label has run.

A row reads: label, what is promised in words, the figure, the bound. The figure is a function of the results
(candidate -> list of runs); it answers None where a candidate that it needs was skipped, and the row is then reported
as not checked. A bound is compared at the digits in which it is written: 1.004 is within 1.00.
"""
import dataclasses
from typing import Callable

from lib.report import median, numbers


@dataclasses.dataclass
class Verdict:
	text: str
	value: float | None
	bound: str
	holds: bool | None

	def line(self):
		word = {True: "PASS", False: "FAIL", None: "not checked"}[self.holds]
		value = "-" if self.value is None else f"{self.value:.4g}"
		return f"  {word}: {self.text}: {value} (at most {self.bound})"

	def record(self):
		return dataclasses.asdict(self)


def of(results, name, key):
	return median(results.get(name, []), key)


def ratio(name, key, other, other_key=None):
	"""Median of one candidate over the median of another."""
	def figure(results):
		one, two = of(results, name, key), of(results, other, other_key or key)
		return None if one is None or not two else one / two
	return figure


def ratio_to_fastest(name, key, others):
	def figure(results):
		one = of(results, name, key)
		known = [value for value in (of(results, other, key) for other in others) if value]
		return None if one is None or len(known) < len(others) else one / min(known)
	return figure


def worst(name, key):
	"""The highest of all runs: for promises that every run has to keep."""
	return lambda results: max(numbers(results.get(name, []), key), default=None)


def difference(name, key, other):
	def figure(results):
		one, two = of(results, name, key), of(results, other, key)
		return None if one is None or two is None else one - two
	return figure


def difference_of_fastest(name, key, other):
	"""For a few nanoseconds: whatever else the machine does only adds to a run."""
	def figure(results):
		one, two = (min(numbers(results.get(who, []), key), default=None) for who in (name, other))
		return None if one is None or two is None else one - two
	return figure


def stall_share(size):
	"""The longest stall in all trims, over what it may be: 3 ms, or 1.2 times the worst without a trim if that is more."""
	def figure(results):
		during = worst("shim", f"trim_worst_ms_{size}")(results)
		without = worst("shim", f"quiet_worst_ms_{size}")(results)
		return None if during is None else during / max(3.0, 1.2 * without)
	return figure


def least_over(least, name, key):
	"""For what has to be at least so much."""
	def figure(results):
		value = of(results, name, key)
		return None if value is None else least / value if value > 0 else float("inf")
	return figure


@dataclasses.dataclass
class Bound:
	label: str
	text: str
	figure: Callable
	bound: str

	def check(self, results):
		value = self.figure(results)
		if value is None:
			return Verdict(self.text, None, self.bound, None)
		digits = len(self.bound.partition(".")[2])
		return Verdict(self.text, value, self.bound, round(value, digits) <= float(self.bound))


BOUNDS = [
	Bound("fl_rounds", "RSS at the end of each of the last 4 rounds / floor, worst run",
		worst("shim", "end_over_floor"), "1.10"),
	Bound("fl_rounds", "peak / peak of jemalloc", ratio("shim", "peak_mib", "jemalloc"), "1.08"),
	Bound("fl_rounds", "time without the waits / glibc", ratio("shim", "active_s", "glibc"), "1.02"),
	Bound("fl_rounds", "time without the waits / jemalloc", ratio("shim", "active_s", "jemalloc"), "1.00"),
	Bound("rounds-30s", "% of the time spent cleaning, rounds of 30 s", worst("shim", "clean_pct"), "0.20"),
	Bound("malloc_large", "time / the faster of glibc and jemalloc",
		ratio_to_fastest("shim", "total_s", ["glibc", "jemalloc"]), "1.05"),
	Bound("fragmentation", "MiB above the start after one SIGUSR1, worst run",
		worst("shim", "above_start_signal_mib"), "3.0"),
	Bound("fragmentation-settle", "MiB above the start within 15 s of falling idle, worst run",
		worst("shim", "above_start_settled_mib"), "3.0"),
]
for method in ("fedavg", "fedprox", "scaffold"):
	BOUNDS += [
		Bound(f"soak-{method}", "MB of RSS more a round, over the last half", worst("shim-server", "slope_mb_a_round"), "0.10"),
		Bound(f"soak-{method}", "0.1 MB / what it is under glibc, which has to hoard for this to show anything",
			least_over(0.1, "glibc", "slope_mb_a_round"), "1.00"),
		Bound(f"soak-{method}", "RSS at the end / glibc", ratio("shim-server", "last_rss_mib", "glibc"), "0.80"),
	]
BOUNDS += [
	Bound("soak-quick", "MB of RSS more a round / glibc", ratio("shim-server", "slope_mb_a_round", "glibc"), "0.50"),
	Bound("soak-quick", "RSS at the end / glibc", ratio("shim-server", "last_rss_mib", "glibc"), "0.80"),
]
for period in ("0.5s", "1s", "2s", "5s"):
	BOUNDS += [
		Bound(f"steps-{period}", "time / the same without purging", ratio("shim", "total_s", "shim-nopurge"), "1.03"),
		Bound(f"steps-{period}", "time / glibc", ratio("shim", "total_s", "glibc"), "1.00"),
	]
# A step's memory costs 0.5 to 0.8 s a GB to give back and take again where it is measured, a budget of 3 % pays for that
# every fourth or fifth step of 5 s: so it is the mean over the steps that must fall.
BOUNDS.append(Bound("steps-5s", "mean RSS between steps / the same without purging",
	ratio("shim", "rss_between_mean_mib", "shim-nopurge"), "0.90"))

for name, against, most in (("shim", "jemalloc", "6"), ("shim-system", "glibc", "30")):
	for pair, shape in (("pair_64B", "64 B"), ("pair_mixed", "mixed sizes")):
		BOUNDS.append(Bound("instructions", f"{name}: instructions a pair more than bare {against}, {shape}",
			difference(name, pair, against), most))
for name in ("shim", "shim-system"):
	BOUNDS += [
		Bound("idle", f"{name}: % CPU of an idle process", worst(name, "cpu_percent"), "0.05"),
		Bound("idle", f"{name}: wake-ups in 5 s", worst(name, "wakeups_in_5s"), "1.0"),
		Bound("idle-large", f"{name}: % CPU of an idle process of 4 GiB and 200 threads", worst(name, "cpu_percent"), "0.05"),
		Bound("idle-large", f"{name}: wake-ups in 5 s", worst(name, "wakeups_in_5s"), "1.0"),
		Bound("startup", f"{name}: ms more for /bin/true", difference(name, "start_ms", "glibc"), "1.0"),
		Bound("startup", f"{name}: files of /bin/true", worst(name, "files"), "0"),
	]
BOUNDS += [
	Bound("dlsym", "ns more for a dlsym", difference_of_fastest("shim", "ns_plain", "glibc"), "3.0"),
	Bound("dlsym", "ns more for a dlsym of a name that begins like the driver's", difference_of_fastest("shim", "ns_cu", "glibc"), "50"),
]
for text, key, most in (("ns of a pair from the device pool, 4 kB", "pair_4kB_ns", "150"), ("the same, 20 MB", "pair_20MB_ns", "150"),
		("the same with all blocks live / with 100", "growth", "1.5"), ("ns of a pair in each of 4 threads on 2 contexts", "threads_ns", "400")):
	BOUNDS.append(Bound("pool", text, worst("glibc", key), most))
for name, most, factor in (("shim-prof-ready", "5", "1.05"), ("shim-prof-on", "60", "1.60")):
	for pair, shape in (("pair_64B", "64 B"), ("pair_mixed", "mixed sizes")):
		BOUNDS.append(Bound("prof-instructions", f"{name}: instructions a pair more than without, {shape}",
			difference(name, pair, "shim"), most))
	BOUNDS += [
		Bound("prof-larson", f"{name}: time / without", ratio(name, "ns_per_replacement", "shim"), factor),
		Bound("prof-mstress", f"{name}: time / without", ratio(name, "ns_per_block", "shim"), factor),
		Bound("prof-mstress", f"{name}: peak RSS / without", ratio(name, "peak_mib", "shim"), "1.10"),
	]
for shape in ("idle", "still", "churn", "fragments"):
	for arenas in (8, 64, 512):
		BOUNDS.append(Bound("tick", f"us of CPU of a tick that finds nothing to do, {shape}, {arenas} arenas, 200 threads",
			worst("shim", f"tick_us_{shape}_{arenas}"), "30"))
for size in ("64B", "5kB", "60kB", "2MB"):
	BOUNDS.append(Bound("stall", f"longest malloc+free of {size} during a trim, of 3 ms or 1.2 x without it",
		stall_share(size), "1.00"))


def check(label, results):
	return [bound.check(results) for bound in BOUNDS if bound.label == label]
