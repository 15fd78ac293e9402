"""Ratios of runs that stand next to each other in time, and how sure they are.

A ratio is a geometric mean: twice as much and half as much cancel, and it does not matter who is divided by whom. Its 95 %
interval is Student's, on the logarithms. Pure functions: lists of numbers and of records in, a Ratio out.
"""
import math
import statistics
import typing

# Student's t, two-sided 95 %, by degrees of freedom from 1 on. Beyond the table the expansion of Fisher and Cornish is exact
# to five digits.
T_TABLE = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)
NORMAL = 1.959964


def student_t(degrees):
	"""The 97.5 % quantile; between whole numbers of degrees (Welch) on a line, which errs by little and to the wide side."""
	if degrees >= len(T_TABLE):
		z, n = NORMAL, degrees
		first = (z**3 + z) / (4 * n)
		second = (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
		third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
		return z + first + second + third
	below = max(1, int(degrees))
	low, high = T_TABLE[below - 1], T_TABLE[below]
	return low + (high - low) * max(0.0, degrees - below)


class Ratio(typing.NamedTuple):
	value: float
	low: float | None    # of the 95 % interval; None where a single pair says nothing about it
	high: float | None
	pairs: int
	log_variance: float | None = None   # of the mean of the logarithms: what means over workloads are made of

	def text(self, digits=2):
		if self.low is None:
			return f"{self.value:.{digits}f}x"
		high = f"{self.high:.{digits}f}" if self.high < 100 else ">99"  # two runs that differ say next to nothing
		return f"{self.value:.{digits}f}x [{self.low:.{digits}f}, {high}]"

	def record(self):
		return {"ratio": self.value, "low": self.low, "high": self.high, "pairs": self.pairs}


def from_logs(mean, variance, degrees, pairs):
	if variance is None or degrees is None:
		return Ratio(math.exp(mean), None, None, pairs)
	width = student_t(degrees) * math.sqrt(variance)
	return Ratio(math.exp(mean), math.exp(mean - width), math.exp(mean + width), pairs, variance)


def of(ones, others):
	"""Of pairs of positive numbers. None when there is no pair."""
	logs = [math.log(one / other) for one, other in zip(ones, others) if one > 0 and other > 0]
	if not logs:
		return None
	variance = statistics.variance(logs) / len(logs) if len(logs) > 1 else None
	return from_logs(statistics.fmean(logs), variance, len(logs) - 1, len(logs))


def by_round(runs, key):
	return {run["number"]: run["figures"][key] for run in runs if isinstance(run["figures"].get(key), (int, float))}


def paired(ones, others, key):
	"""One candidate's records over another's, paired by round. None where one of them has no such figure."""
	one, other = by_round(ones, key), by_round(others, key)
	both = sorted(set(one) & set(other))
	return of([one[number] for number in both], [other[number] for number in both])


def over_workloads(ratios):
	"""The geometric mean of ratios of several workloads, each of which weighs the same. The interval says how sure this mean
	is on these workloads: the errors of the single ones, with degrees of freedom by Welch and Satterthwaite. It says nothing
	about other workloads."""
	known = [ratio for ratio in ratios if ratio is not None]
	if not known:
		return None
	mean = statistics.fmean(math.log(ratio.value) for ratio in known)
	pairs = sum(ratio.pairs for ratio in known)
	if any(ratio.log_variance is None for ratio in known):
		return from_logs(mean, None, None, pairs)
	total = sum(ratio.log_variance for ratio in known)
	parts = sum(ratio.log_variance**2 / (ratio.pairs - 1) for ratio in known)
	return from_logs(mean, total / len(known)**2, total**2 / parts if parts else 1, pairs)
