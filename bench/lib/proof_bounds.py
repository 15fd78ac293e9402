"""What a proof must show, and where a peer is ahead. Pure functions over a suite_data.Suite.

Bounds are rows as those of lib/suite_bounds.py: a value, its 95 % interval, its bound, whether it holds. A mean is geometric. The best peer
is the one that is lowest of all that ran, with and without the settings that its documents advise.
"""
import dataclasses
import statistics

from lib import proof
from lib.entries import ALLOCATOR, PYTHON, REAL, TRAINING
from lib.suite_bounds import Row, row_of
from lib.suite_data import FIRST, OURS

# Group: bounds of CPU time, peak, memory at rest, each over glibc's.
MEANS = {TRAINING: ("1.00", "1.00", "0.80"), PYTHON: ("1.00", "1.15", "1.00"), ALLOCATOR: ("1.00", "1.11", "0.50"),
	REAL: ("1.05", "1.15", "0.80"), proof.ALWAYS: ("1.05", "1.08", "0.80")}
FIGURES = {"cpu_s": "CPU time", "peak_mib": "peak", "idle_mib": "memory at rest"}
BEHIND = 1.05        # over the best peer: below, the two are alike
BEHIND_MIB = 1.0     # as much is one allocator's own pages


@dataclasses.dataclass
class Behind:
	"""One figure of one row that a peer has lower than we."""
	label: str
	key: str
	peer: str
	ours: float
	theirs: float
	ratio: float


def mean_rows(suite):
	for group, bounds in MEANS.items():
		labels = suite.labels(group)
		for (key, words), bound in zip(FIGURES.items(), bounds):
			known = [label for label in labels if suite.ratio(label, OURS, FIRST, key)]
			if known:
				yield row_of(f"{key}:{group}", f"{proof.TITLES[group]}: {words} / glibc, mean of {len(known)}", bound,
					suite.mean_ratio(known, OURS, FIRST, key))


def federated_rows(suite):
	label = "fl_rounds"
	if label in suite.labels():
		for key, words in (("end_rss_last4_max_mib", "RSS at the end of a round"), ("peak_mib", "peak")):
			lowest = suite.lowest(label, key)
			yield row_of(f"{key}:{label}", f"federated rounds: {words} / the lowest peer", "1.00" if key != "peak_mib" else "1.08",
				suite.ratio(label, OURS, lowest, key) if lowest else None, lowest or "")


def short_rows(suite):
	if "starts" in suite.labels():
		yield row_of("starts", "500 short processes: CPU time / glibc", "1.08", suite.ratio("starts", OURS, FIRST, "cpu_s"))
	if "grep" in suite.labels():
		peaks = [suite.value("grep", name, "peak_mib") for name in (OURS, FIRST)]
		yield Row("grep", "grep: MiB of peak more than glibc", "0.40", peaks[0] - peaks[1] if None not in peaks else None)


def survivors_row(suite):
	"""What went back without a call, of what is free: the rest and the peak are read from outside, what lives the program says."""
	shares = {name: share for name in suite.names if (share := returned_share(suite, name)) is not None}
	if OURS in shares:
		best = max((share for name, share in shares.items() if name in suite.peers()), default=0.0)
		yield Row("survivors", "scattered survivors: share of the free memory that stays, without a call", "0.30", 1 - shares[OURS],
			note=f"the best peer keeps {1 - best:.2f}")


def returned_share(suite, name):
	"""Of the survivors' program: how much of the memory that it has freed is no longer resident at rest."""
	peak, rest, live = (suite.value("survivors", name, key) for key in ("full_rss_mib", "idle_mib", "live_mib"))
	return None if None in (peak, rest, live) else (peak - rest) / (peak - live)


def check(suite):
	return [*mean_rows(suite), *federated_rows(suite), *short_rows(suite), *survivors_row(suite)]


def behind(suite):
	"""Every figure in which the best peer is clearly lower: beyond its interval and by more than pages of its own. The widest first."""
	found = []
	for label in suite.labels():
		for key in FIGURES:
			if not suite.with_figure(label, OURS, key):
				continue
			ratios = {name: suite.ratio(label, OURS, name, key) for name in suite.peers(label)}
			peer = max((name for name, ratio in ratios.items() if ratio), key=lambda name: ratios[name].value, default=None)
			if peer is None:
				continue
			ratio, ours, theirs = ratios[peer], suite.value(label, OURS, key), suite.value(label, peer, key)
			is_clear = ratio.value > BEHIND and (ratio.low is None or ratio.low > 1)
			if is_clear and (key == "cpu_s" or ours - theirs > BEHIND_MIB):
				found.append(Behind(label, key, peer, ours, theirs, ratio.value))
	return sorted(found, key=lambda one: -one.ratio)


def runs_of_each(suite):
	"""The fewest and the most runs that a row has under a candidate."""
	counts = [len(suite.runs(label, name)) for label in suite.labels() for name in suite.names if suite.runs(label, name)]
	return min(counts), max(counts), statistics.median(counts)
