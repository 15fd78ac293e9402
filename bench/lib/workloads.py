"""What is measured: each workload is a command that prints one JSON line, or a function that measures from outside."""
import dataclasses
import os
from typing import Callable

from lib import outside, rounds

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYTHON = os.environ.get("PYTHON", "/usr/bin/python3")
EVERYBODY = ["glibc", "jemalloc", "shim", "shim-system"]
TRIMMERS = ["glibc", "jemalloc", "tcmalloc", "mimalloc", "shim", "shim-system"]


@dataclasses.dataclass
class Workload:
	name: str
	show: list                     # figures in the table, the most telling first
	candidates: list = dataclasses.field(default_factory=lambda: list(EVERYBODY))
	runs: int = 5
	arguments: list = dataclasses.field(default_factory=list)
	measure: Callable | None = None  # measure(candidate, arguments) -> figures; None: run the program of this name
	variants: list = dataclasses.field(default_factory=list)  # (label, arguments) that `make bench` runs one by one

	def command(self, build):
		script = os.path.join(BENCH, "workloads", self.name + ".py")
		if os.path.exists(script):
			return [PYTHON, script]
		program = os.path.join(build, "bench", self.name)
		if not os.path.exists(program):
			raise SystemExit(f"{program} is not built: make {program}")
		return [program]


LIST = [
	Workload("fl_rounds", ["end_rss_last4_max_mib", "end_over_floor", "floor_mib", "peak_mib", "active_s", "total_s",
		"minor_faults"], ["glibc", "glibc-trim", "jemalloc", "shim"]),
	Workload("soak", ["slope_mb_a_round", "least_squares_mb_a_round", "floor_mib", "half_rss_mib", "last_rss_mib", "peak_mib", "total_s"],
		["glibc", "shim-server"], runs=1, variants=[
			(f"soak-{method}", ["--method", method]) for method in ("fedavg", "fedprox", "scaffold")]),
	Workload("steps", ["total_s", "touch_s", "touch_median_s", "rss_between_median_mib", "rss_between_mean_mib",
		"minor_faults"], ["glibc", "shim-nopurge", "shim"], runs=3, variants=[
			("steps-0.5s", ["--period", "0.5", "--steps", "20"]), ("steps-1s", ["--period", "1", "--steps", "12"]),
			("steps-2s", ["--period", "2", "--steps", "8"]), ("steps-5s", ["--period", "5", "--steps", "10"])]),
	Workload("malloc_large", ["total_s", "peak_mib", "minor_faults"], ["glibc", "jemalloc", "jemalloc-nodecay", "shim"]),
	Workload("fragmentation", ["start_mib", "peak_mib", "dropped_mib", "after_signal_mib", "after_trim_mib",
		"settled_mib", "churn_s"], runs=3, variants=[
			("fragmentation", []), ("fragmentation-settle", ["--settle", "15"])]),
	Workload("stall", [f"{phase}_{figure}_{size}" for size in ("64B", "5kB", "60kB", "2MB")
		for phase in ("quiet", "trim") for figure in ("worst_ms", "wait_ms", "p999_us", "p999_arrival_us")]
		+ ["trim_longest_ms", "trim_cpu_s", "returned_mib", "returned_mib_per_cpu_s"], TRIMMERS, runs=3),
	Workload("survivors", ["live_mib", "full_rss_mib", "freed_rss_mib", "trimmed_rss_mib", "trim_s", "trim_cpu_s",
		"returned_mib", "returned_mib_per_cpu_s", "churn_s"], TRIMMERS, runs=1),
	Workload("rounds_30s", ["clean_pct", "clean_s", "purge_cost_ms", "refault_cost_ms", "gc_cost_ms", "ticks_cost_ms", "over_s",
		"purge_count", "purged_mib", "end_rss_last4_max_mib"], ["shim", "shim-system"], runs=1, measure=rounds.measure_rounds,
		variants=[("rounds-30s", [])]),
	Workload("idle", ["cpu_percent", "wakeups_in_5s", "wakeups", "threads"], ["glibc", "shim", "shim-system"], runs=1,
		measure=outside.measure_idle, variants=[("idle", []), ("idle-large", ["--threads", "200"])]),
	Workload("tick", [f"{figure}_{shape}_{arenas}" for shape in outside.TICK_SHAPES for arenas in outside.TICK_ARENAS
		for figure in ("tick_us", "wake_median_us", "wake_mean_us", "cpu_percent", "ticks")], ["shim"], runs=1,
		measure=outside.measure_tick),
	Workload("startup", ["start_ms"], ["glibc", "jemalloc", "shim", "shim-system"], runs=200,
		measure=outside.measure_startup),
	Workload("instructions", ["pair_64B", "pair_mixed", "pair_small_64B"], runs=1, measure=outside.measure_instructions),
	Workload("pool", ["pair_4kB_ns", "pair_20MB_ns", "few_ns", "many_ns", "growth", "few_random_ns", "many_random_ns", "threads_ns",
		"threads_median_ns", "list_ns", "tree_ns", "lock_ns", "clock_ns"], ["glibc"], runs=1),
	Workload("dlsym", ["ns_plain", "ns_cu"], ["glibc", "shim"], runs=7),
	Workload("small_pairs", ["ns_per_pair", "peak_mib"], runs=3, variants=[
		("pairs-1-thread", ["--threads", "1"]), ("pairs-2-threads", ["--threads", "2"])]),
	Workload("throughput", ["ns_256B", "ns_4096B", "ns_65536B", "peak_mib"], runs=3),
	Workload("larson", ["ns_per_replacement", "peak_mib"], runs=3),
	Workload("xmalloc", ["ns_per_block", "peak_mib"], runs=3),
	Workload("mstress", ["ns_per_block", "peak_mib", "end_rss_mib"], runs=3, arguments=["--generations", "200"]),
	Workload("threads_short", ["us_per_thread", "peak_mib", "end_rss_mib"], runs=3),
	Workload("compute", ["total_s"], runs=3, arguments=["--rounds", "24000"]),
]


def by_name(name):
	known = {workload.name: workload for workload in LIST}
	wanted = name.replace("-", "_")
	if wanted not in known:
		raise SystemExit(f"no workload {name}; there are: {', '.join(known)}")
	return known[wanted]
