"""What the suite must show, one row for each promise: its value, its bound, PASS or MISS, and for a miss the reason.

Peers are the candidates that are not ours. Against memory only those count that need no change to the program; an
environment variable (PYTHONMALLOC, MALLOC_ARENA_MAX, MALLOC_CONF) is none. A value is compared at the digits in which its
bound is written, 1.004 is within 1.00; its interval stands next to it, so that a miss within the noise is seen as one.
"""
import dataclasses

from lib import ratio, suite_data
from lib.entries import ENTRIES, TRAINING
from lib.suite_data import FIRST, OURS

NOPURGE = "shim-nopurge"
INTEGRAL_ROWS = ("fl_rounds", "dataloader", "server")
STALL_SIZES = ("64B", "5kB", "60kB", "2MB")

# Why a bound is missed, by its id; printed with the row. A miss that is not here is shown as one without a reason.
KEPT_BUFFERS = "freed buffers are kept for reuse until they have been idle for MT_IDLE_MS and come to MT_SLACK_MB, in each process"
EACH_ARENA = "blocks below 256 kB that threads have freed serve only their own arena, of which there are 4 a CPU (decision 12)"
OWN_PAGES = "the library's own pages and jemalloc's first: 2 to 3 MiB in a program that holds nothing else"
SIZE_CLASSES = "jemalloc's size classes and runs for each arena: jemalloc as shipped takes as much or more there"
ONE_PAGE_SLABS = ("slabs of one page, which give memory back between survivors (decision 10), leave what their class does not fill "
	"of each page unused")
FIRST_BALANCE = ("each process may spend 0.3 s on cleanups before the 3 % hold (decision 16): a tenth of a work of 3 s, "
	"nothing of one that lasts an hour")
FAULTS = ("nearly as many minor faults as without purging, and all or most of the purging after the work: what differs is what a "
	"fault costs this machine from one run to the next")
SCHEDULED_AWAY = ("the longest of three runs on a shared machine of 2 cores, where the prober without a cleanup is held up for as long; "
	"the longest wait for a lock in it was 4.7 ms, once")
REASONS = {
	"time-fastest": "tcmalloc gives nothing back: it ends at 7 times glibc's RSS",
	"idle:steps": OWN_PAGES,
	"idle:throughput": OWN_PAGES + "; and jemalloc's records of the 800 MiB that it held",
	"idle:malloc_large": OWN_PAGES,
	"idle:pairs-1-thread": OWN_PAGES,
	"idle:xmalloc": OWN_PAGES,
	"idle:compute": OWN_PAGES,
	"idle:real_sqlite": OWN_PAGES,
	"idle:real_redis": "redis serves itself with a jemalloc of its own, whose freed pages are purged; glibc's second series has 212",
	"peak:dataloader": KEPT_BUFFERS,
	"integral:dataloader": KEPT_BUFFERS,
	"integral:fl_rounds": KEPT_BUFFERS + "; within what two series of one allocator differ by",
	"peak:server": EACH_ARENA,
	"integral:server": EACH_ARENA,
	"peak:throughput": "jemalloc's size classes: a bytearray of 64 kB and a byte takes 80 kB, one of 4 kB and a byte 5",
	"peak:fragmentation": SIZE_CLASSES,
	"peak:pyheavy": SIZE_CLASSES + " (129 with Python's own arenas for small objects, which keep their pages)",
	"peak:malloc_large": KEPT_BUFFERS,
	"peak:pairs-1-thread": ONE_PAGE_SLABS,
	"peak:pairs-2-threads": ONE_PAGE_SLABS,
	"peak:mstress": SIZE_CLASSES,
	"peak:threads_short": SIZE_CLASSES,
	"peak:survivors": ONE_PAGE_SLABS,
	"peak:redis-libc": SIZE_CLASSES,
	"peak:real_sqlite": SIZE_CLASSES,
	"peak:real_starts": OWN_PAGES,
	"own-time:fl_rounds": FIRST_BALANCE + "; one of three runs",
	"own-time:dataloader": FIRST_BALANCE + ", in five processes",
	"own-time:throughput": FAULTS,
	"own-time:fragmentation": FIRST_BALANCE,
	"own-time:threads_short": FAULTS,
	"own-time:compute": "it allocates nothing and purges nothing: the noise of the machine (glibc against itself: 1.06)",
	"own-time:real_redis": "the noise of the machine (glibc against itself: 1.28), and the first 0.3 s",
	"cleaning-30s": "the purges take 0.11 %; the rest is the page faults by which the program takes its 190 MiB a round back, which "
		"any return of memory costs and the 3 % are charged with",
	"own-time:real_sqlite": FIRST_BALANCE,
	"stall:60kB": SCHEDULED_AWAY,
	"stall:2MB": SCHEDULED_AWAY,
}

KINDS = {
	"time-glibc": "time on the training workloads / glibc, geometric mean",
	"time-fastest": "time on the training workloads / the fastest peer",
	"time-fastest-each": "time on the training workloads / the fastest peer of each (harsher than promised)",
	"idle": "RSS after idle / the lowest peer, each workload",
	"peak": "peak RSS / the lowest peer, each workload",
	"integral": "integral of RSS over time / the lowest peer",
	"own-time": "the program's time / the same without purging, each workload",
	"stall": "longest malloc+free during a cleanup, ms",
	"survivors": "survivors: RSS after a trim, MiB",
	"survivors-glibc": "survivors: RSS after a trim / glibc's",
	"cleaning-30s": "% of the time spent cleaning, rounds of 30 s",
}


@dataclasses.dataclass
class Row:
	ident: str
	text: str
	bound: str
	value: float | None = None
	low: float | None = None
	high: float | None = None
	note: str = ""
	below: bool = False        # the value has to be below its bound, whatever the digits, not at most there
	is_promise: bool = True    # else it is shown next to the promises, and neither kept nor missed

	@property
	def holds(self):
		if self.value is None or not self.is_promise:
			return None
		if self.below:
			return self.value < float(self.bound)
		return round(self.value, len(self.bound.partition(".")[2])) <= float(self.bound)

	@property
	def within_noise(self):
		"""A miss whose interval reaches the bound."""
		return self.holds is False and self.low is not None and self.low <= float(self.bound)

	@property
	def verdict(self):
		if not self.is_promise:
			return "shown"
		word = {True: "PASS", False: "MISS", None: "not measured"}[self.holds]
		return word + (" (within noise)" if self.within_noise else "")

	@property
	def reason(self):
		return REASONS.get(self.ident, "" if self.holds is not False else "no reason given yet")

	def shown_value(self):
		return "-" if self.value is None else f"{self.value:.3f}" if self.value < 10 else f"{self.value:.0f}"

	def shown_interval(self):
		return "" if self.low is None else f"{self.low:.3f}..{self.high:.3f}"

	def shown_bound(self):
		if not self.is_promise:
			return "no promise"
		return ("below " if self.below else "at most ") + self.bound

	def record(self):
		return {"id": self.ident, "text": self.text, "value": self.value, "low": self.low, "high": self.high, "bound": self.bound,
			"holds": self.holds, "within_noise": self.within_noise, "note": self.note}

	def line(self):
		interval = f" ({self.shown_interval()})" if self.low is not None else ""
		extra = "; ".join(filter(None, [self.note, self.reason]))
		text = f"{self.verdict}: {self.text}: {self.shown_value()}{interval}, {self.shown_bound()}"
		return text + (f"; {extra}" if extra else "")


def row_of(ident, text, bound, found, note=""):
	if found is None:
		return Row(ident, text, bound, note=note)
	return Row(ident, text, bound, found.value, found.low, found.high, note)


# ---- time ----

def fastest_peer(suite, labels):
	"""(the peer with the lowest geometric mean over rows, those that ran on some of the rows only and so have no mean)."""
	names = [name for name in suite.peers() if any(suite.runs(label, name) for label in labels)]
	means = {name: suite.mean_ratio(labels, name, FIRST, "work_s") for name in names}
	known = {name: found.value for name, found in means.items() if found}
	return min(known, key=known.get, default=None), [name for name in names if name not in known]


def harsher_mean(suite, labels):
	"""Ours over another peer on each row, whichever was the fastest there: no program can have them all."""
	best = {label: suite.lowest(label, "work_s") for label in labels}
	ratios = [suite.ratio(label, OURS, name, "work_s") for label, name in best.items()]
	if not ratios or None in ratios:
		return None, ""
	return ratio.over_workloads(ratios), ", ".join(f"{label}: {name}" for label, name in best.items())


def time_rows(suite):
	labels = suite.labels(TRAINING)
	missing = [label for label in labels if not suite.with_figure(label, OURS, "work_s")]
	note = f"{len(labels)} of {sum(entry.group == TRAINING for entry in ENTRIES)} workloads"
	note += f"; without a figure of ours: {', '.join(missing)}" if missing else ""
	yield row_of("time-glibc", "time on the training workloads / glibc, geometric mean", "1.00",
		suite.mean_ratio(labels, OURS, FIRST, "work_s"), note)
	fastest, partial = fastest_peer(suite, labels)
	who = "; ".join(filter(None, [fastest and f"the fastest is {fastest}", partial and f"not on all rows: {', '.join(partial)}"]))
	yield row_of("time-fastest", "time on the training workloads / the fastest peer, geometric mean", "1.03",
		suite.mean_ratio(labels, OURS, fastest, "work_s") if fastest else None, who)
	found, who = harsher_mean(suite, labels)
	harsher = row_of("time-fastest-each", "the same against the fastest peer of each workload by itself (harsher than promised)",
		"1.03", found, who)
	yield dataclasses.replace(harsher, is_promise=False)


def own_time_rows(suite):
	for label in suite.labels():
		if suite.runs(label, NOPURGE):
			yield row_of(f"own-time:{label}", f"{label}: time / without purging", "1.03",
				suite.ratio(label, OURS, NOPURGE, "work_s"))


# ---- memory ----

def memory_rows(suite, labels, ident, text, key, bound):
	for label in labels:
		if not any(suite.values(label, name, key) for name in suite.names):
			continue
		lowest = suite.lowest(label, key, by_hand=False)
		found = suite.ratio(label, OURS, lowest, key) if lowest else None
		yield row_of(f"{ident}:{label}", f"{label}: {text} / the lowest peer", bound, found,
			lowest_note(suite, label, key, lowest) if lowest else "no peer ran")


def lowest_note(suite, label, key, lowest):
	"""Who it is, in absolute terms too (a ratio of 2 may be one of 2 MiB), and who is lower by hand."""
	note = f"the lowest is {lowest}"
	theirs, ours = suite.value(label, lowest, key), suite.value(label, OURS, key)
	if ours is not None:
		note += f", {theirs:.0f}; ours {ours:.0f}" if theirs >= 10 else f", {theirs:.1f}; ours {ours:.1f}"
	best = suite.lowest(label, key)
	if best != lowest:
		note += f"; {best}, by hand, has {suite.ratio(label, best, lowest, key).value:.2f} of it"
	return note


# ---- what other runs measure ----

def program_runs(also, label):
	"""Figures by candidate of a result of bench/run.py that has this label."""
	found = {}
	for record in also:
		if record.get("label") == label and isinstance(record.get("runs"), dict):
			for name, runs in record["runs"].items():
				found.setdefault(name, []).extend(runs)
	return found


def stall_rows(also):
	runs = program_runs(also, "stall").get(OURS, [])
	for size in STALL_SIZES:
		during = [run[f"trim_worst_ms_{size}"] for run in runs if f"trim_worst_ms_{size}" in run]
		without = [run[f"quiet_worst_ms_{size}"] for run in runs if f"quiet_worst_ms_{size}" in run]
		bound = max(3.0, 1.2 * max(without, default=0))
		yield Row(f"stall:{size}", f"longest malloc+free of {size} during a cleanup, ms, of {len(during)} runs", f"{bound:.1f}",
			max(during, default=None), note="3 ms, or 1.2 x the prober's own without one" if during else "")


def survivors_rows(also):
	"""In the suite nobody asks for a trim: these are runs of their own, and the highest counts."""
	runs = program_runs(also, "survivors")
	ours, glibc = (max((run["trimmed_rss_mib"] for run in runs.get(name, []) if "trimmed_rss_mib" in run), default=None)
		for name in (OURS, FIRST))
	yield Row("survivors", "survivors: RSS after a trim, MiB", "642", ours, below=True)
	yield Row("survivors-glibc", "survivors: RSS after a trim / glibc's", "1.00",
		ours / glibc if ours and glibc else None, note=f"glibc has {glibc:.0f} MiB" if glibc else "", below=True)


def cleaning_row(also):
	shares = [run["clean_pct"] for run in program_runs(also, "rounds-30s").get(OURS, []) if "clean_pct" in run]
	return Row("cleaning-30s", "% of the time spent cleaning, rounds of 30 s, worst run", "0.20", max(shares, default=None), below=True)


def check(suite, also=()):
	"""All rows: those of the suite's file, and of results of other runs (dictionaries as read from their files)."""
	rows = list(time_rows(suite))
	rows += memory_rows(suite, suite.labels(), "idle", "RSS after idle", "idle_mib", "1.00")
	rows += memory_rows(suite, suite.labels(), "peak", "peak RSS", "peak_mib", "1.08")
	integral = [label for label in INTEGRAL_ROWS if label in suite.labels()]
	rows += memory_rows(suite, integral, "integral", "integral of RSS over time", "integral_mib_s", "1.00")
	rows += own_time_rows(suite)
	rows += stall_rows(also)
	rows += survivors_rows(also)
	rows.append(cleaning_row(also))
	return rows


def count(rows):
	"""How many are kept, are missed, were not measured."""
	return [sum(row.is_promise and row.holds is answer for row in rows) for answer in (True, False, None)]


def summary(rows):
	counts = count(rows)
	unexplained = sum(row.holds is False and row.ident not in REASONS for row in rows)
	within = sum(row.within_noise for row in rows)
	return f"{counts[0]} PASS, {counts[1]} MISS ({within} within noise, {unexplained} without a reason), {counts[2]} not measured"


def table(rows):
	lines = ["| promise | value | 95 % interval | bound | verdict | note, reason for a miss |", "|---|---:|---|---|---|---|"]
	for row in rows:
		verdict = f"**{row.verdict}**" if row.holds is False else row.verdict
		extra = "; ".join(filter(None, [row.note, row.reason]))
		lines.append(f"| {row.text} | {row.shown_value()} | {row.shown_interval()} | {row.shown_bound()} | {verdict} | {extra} |")
	return "\n".join(lines)


def kinds_table(rows):
	"""One line for all workloads of a promise: how many keep it, and who is worst."""
	lines = ["| promise | bound | PASS | MISS | not measured | worst |", "|---|---|---:|---:|---:|---|"]
	kinds = {}
	for row in rows:
		kinds.setdefault(row.ident.partition(":")[0], []).append(row)
	for kind, mine in kinds.items():
		passes, *others = count(mine)
		counts = [str(passes), *(str(number or "") for number in others)] if mine[0].is_promise else [""] * 3
		known = [row for row in mine if row.value is not None]
		worst = max(known, key=lambda row: row.value / float(row.bound), default=None)
		where = f" ({worst.ident.partition(':')[2]})" if worst and ":" in worst.ident else ""
		lines.append(f"| {KINDS.get(kind, kind)} | {mine[0].shown_bound()} | {' | '.join(counts)} | "
			f"{worst.shown_value() + where if worst else '-'} |")
	return "\n".join(lines)
