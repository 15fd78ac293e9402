"""The suite's results as Markdown: made to be read from top to bottom, every figure with what it is compared to."""
import dataclasses
import math
import os

from lib import suite_data
from lib.entries import ENTRIES
from lib.suite_data import FIRST, GROUPS, OURS

SYSTEM = "shim-system"
NOISE_LOW, NOISE_HIGH = 0.97, 1.03


@dataclasses.dataclass
class Figure:
	key: str
	title: str
	unit: str
	about: str


FIGURES = [
	Figure("work_s", "Time", "s", "The program's own time for its work, waits left out."),
	Figure("cpu_s", "CPU time", "s", "User and system time of the program, all of its threads and child processes."),
	Figure("peak_mib", "Peak RSS", "MiB", "The most memory at any moment."),
	Figure("idle_mib", "RSS after idle", "MiB",
		"Memory once the program has had nothing to do for a while: the mean of the last second of its idle time."),
	Figure("integral_mib_s", "Integral of RSS over time", "MiB s", "What a machine that bills memory by the second would bill, "
		"from the start to the end of the work."),
	Figure("minor_faults", "Minor page faults", "",
		"Pages that the kernel had to hand out: the price of memory that was given back and taken again."),
]


def rows_to_text(header, rows, right=1):
	"""A Markdown table; all columns from number `right` on are numbers."""
	rule = ["---" if column < right else "---:" for column in range(len(header))]
	return "\n".join("| " + " | ".join(row) + " |" for row in [header, rule, *rows])


def absolute(value):
	if value is None:
		return "-"
	return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio_text(found, interval=False):
	if found is None:
		return "-"
	text = f"{found.value:.2f}" if found.value < 10 else f"{found.value:.0f}"
	if interval and found.low is not None:
		text += f" <sub>{found.low:.2f}..{found.high:.2f}</sub>"
	return text


def columns_of(suite, key):
	"""Candidates that have this figure anywhere: peers first, then ours, the default first of them."""
	names = [name for name in suite.names if any(suite.values(label, name, key) for label in suite.labels())]
	peers = [name for name in suite.peers() if name in names and name != FIRST]
	ours = sorted((name for name in names if suite_data.is_ours(name)), key=lambda name: name != OURS)
	return peers, ours


def is_tree(label):
	return any(entry.is_tree for entry in ENTRIES if entry.label == label)


# ---- one figure, all workloads and candidates ----

def ratio_row(head, first_text, found, peers, ours):
	"""found: candidate -> ratio to the first. The lowest of the peers is bold, the first among them."""
	known = {name: round(found[name].value, 2) for name in [FIRST, *peers] if found.get(name)}
	least = min(known.values(), default=None)

	def cell(name, text):
		return f"**{text}**" if known.get(name) == least and least is not None else text
	cells = [cell(name, ratio_text(found.get(name))) for name in peers]
	return [head, cell(FIRST, first_text), *cells, *(ratio_text(found.get(name), name == OURS) for name in ours)]


def figure_rows(suite, figure, group, labels, peers, ours):
	rows = []
	names = [FIRST, *peers, *ours]
	for label in labels:
		found = {name: suite.ratio(label, name, FIRST, figure.key) for name in names}
		if any(found.values()):
			mark = " (tree)" if is_tree(label) and figure.key.endswith(("_mib", "mib_s")) else ""
			rows.append(ratio_row(f"{label}{mark}", absolute(suite.value(label, FIRST, figure.key)), found, peers, ours))
	having = [label for label in labels if suite.with_figure(label, FIRST, figure.key)]
	if len(having) > 1:
		ran = [name for name in names if any(suite.runs(label, name) for label in having)]
		means = {name: suite.mean_ratio(having, name, FIRST, figure.key) for name in ran}
		rows.append(ratio_row(f"*{GROUPS.get(group, group)}: geometric mean*", "1", means, peers, ours))
	return rows


def figure_table(suite, figure):
	peers, ours = columns_of(suite, figure.key)
	unit = f" ({figure.unit})" if figure.unit else ""
	header = ["workload", f"{FIRST}{unit}", *peers, *(f"**{name}**" if name == OURS else name for name in ours)]
	rows = []
	for group, labels in suite.groups():
		mine = figure_rows(suite, figure, group, labels, peers, ours)
		if mine:
			rows.append([f"**{GROUPS.get(group, group)}**", *[""] * (len(header) - 1)])
			rows += mine
	return rows_to_text(header, rows) if rows else ""


def figure_sections(suite):
	for figure in FIGURES:
		text = figure_table(suite, figure)
		if text:
			yield f"### {figure.title}\n\n{figure.about} {ratio_note(figure)}\n\n{text}"


def ratio_note(figure):
	unit = f" in {figure.unit}" if figure.unit else ""
	return f"First column{unit}, all others as ratio to it; the lowest of the peers is bold."


# ---- cleaning ----

def cleaning_table(suite):
	rows = []
	ours = [name for name in (OURS, SYSTEM) if any(suite.values(label, name, "clean_s") for label in suite.labels())]
	for label in suite.labels():
		cells = []
		for name in ours:
			seconds, percent, mib = (suite.value(label, name, key) for key in ("clean_s", "clean_pct", "purged_mib"))
			cells += ["-" if seconds is None else f"{seconds:.3f}", "-" if percent is None else f"{percent:.2f}", absolute(mib)]
		if any(cell != "-" for cell in cells):
			rows.append([label, *cells])
	header = ["workload", *(f"{name}, {what}" for name in ours for what in ("s", "% of the run", "MiB purged"))]
	return rows_to_text(header, rows) if rows else ""


# ---- trims ----

def trim_figures(also):
	"""(row, candidate) -> figures of each run, from results of bench/run.py; in the suite nobody asks for a trim."""
	found = {}
	for record in also:
		if isinstance(record.get("runs"), dict):
			for name, runs in record["runs"].items():
				found.setdefault((record["label"], name), []).extend(runs)
	return found


def worst_of(runs, *begins, figure=max):
	"""The worst of all figures whose name begins so (one for each block size), of all runs."""
	values = [value for run in runs for key, value in run.items() if key.startswith(begins) and isinstance(value, (int, float))]
	return figure(values) if values else None


def middle_of(runs, key):
	values = sorted(run[key] for run in runs if isinstance(run.get(key), (int, float)))
	return values[len(values) // 2] if values else None


def trim_table(also):
	rows = []
	for (label, name), runs in trim_figures(also).items():
		returned, cpu_s, rate = (middle_of(runs, key) for key in ("returned_mib", "trim_cpu_s", "returned_mib_per_cpu_s"))
		stalls = [worst_of(runs, begin) for begin in ("trim_p999_us", "trim_p999_arrival_us", "trim_worst_ms", "quiet_worst_ms")]
		if returned is None and stalls[0] is None:
			continue
		rows.append([label, name, absolute(returned), absolute(cpu_s), absolute(rate),
			*("-" if stall is None else f"{stall:,.1f}" for stall in stalls)])
	header = ["workload", "candidate", "returned (MiB)", "CPU of the trim (s)", "MiB returned per CPU-second",
		"p99.9 of malloc+free during it (us)", "the same, by moments of arrival (us)", "longest during it (ms)",
		"longest without (ms)"]
	return rows_to_text(header, rows, 2) if rows else ""


# ---- noise, failures, who is who ----

def again_of(suite):
	return next((name for name in suite.names if suite_data.is_again(name)), None)


def noise_rows(suite):
	"""(workload, figure -> ratio of the second glibc to the first)."""
	again = again_of(suite)
	for label in suite.labels() if again else []:
		found = {figure.key: suite.ratio(label, again, FIRST, figure.key) for figure in FIGURES}
		if any(found.values()):
			yield label, found


def is_noisy(found):
	return found is not None and not NOISE_LOW <= round(found.value, 2) <= NOISE_HIGH


def noise_table(suite):
	def cell(found):
		text = ratio_text(found, interval=True)
		return f"**{text}**" if is_noisy(found) else text
	rows = [[label, *(cell(found[figure.key]) for figure in FIGURES)] for label, found in noise_rows(suite)]
	return rows_to_text(["workload", *(figure.title for figure in FIGURES)], rows) if rows else ""


def noise_words(suite):
	"""One sentence, loud where the machine was not quiet enough."""
	found = {label: ratios["work_s"] for label, ratios in noise_rows(suite)}
	noisy = {label: ratio for label, ratio in found.items() if is_noisy(ratio)}
	if not found:
		return "glibc did not run twice: how much noise there was is not known."
	if not noisy:
		return f"Time of glibc against itself is within {NOISE_LOW}..{NOISE_HIGH} on every workload."
	names = ", ".join(f"{label} {ratio.value:.2f}" for label, ratio in noisy.items())
	return (f"**NOISE: glibc's time against its own is outside {NOISE_LOW}..{NOISE_HIGH} on {names}: "
		"differences of that size there mean nothing.**")


def failure_lines(suite, only=None):
	"""Who is not in the tables, and why; the same reason in many rounds is said once. only: of this candidate."""
	said = {}
	for failed in suite.failures:
		if only not in (None, failed.get("candidate")):
			continue
		reason = " ".join(str(failed.get("reason", "no reason")).split())[:200]
		said.setdefault((failed.get("candidate"), failed.get("workload"), reason), []).append(failed)
	lines = [f"- {candidate} on {workload}: {reason} ({len(times)} {'run' if len(times) == 1 else 'runs'})"
		for (candidate, workload, reason), times in said.items()]
	skipped = suite.record.get("skipped") or {}
	pairs = skipped.items() if isinstance(skipped, dict) else ((row.get("candidate"), row.get("reason")) for row in skipped)
	return [f"- {name}: skipped, {reason}" for name, reason in pairs if only in (None, name)] + lines


def environment_text(environment):
	"""Where a library lies on the machine measured tells nothing: its name does."""
	shown = {**environment}
	if shown.get("LD_PRELOAD"):
		shown["LD_PRELOAD"] = os.path.basename(shown["LD_PRELOAD"])
	return " ".join(f"`{name}={value}`" for name, value in shown.items()) or "nothing"


def what_it_is(name):
	if suite_data.is_again(name):
		return "the noise"
	if suite_data.is_ours(name):
		return "ours, the default" if name == OURS else "ours, a variant"
	return "peer, the program itself trims (by hand)" if suite_data.flag(name, "by_hand") else "peer"


def candidates_table(suite):
	rows = [[name, what_it_is(name), environment_text(environment)] for name, environment in suite.environments.items()]
	return rows_to_text(["candidate", "what it is", "what is set"], rows, 3)


def arguments_text(entry):
	return f"`{' '.join(entry['arguments'])}`" if entry.get("arguments") else ""


def workloads_table(suite):
	rows = [[label, entry.get("title", ""), arguments_text(entry)]
		for _, labels in suite.groups() for label in labels for entry in [suite.entries[label]]]
	return rows_to_text(["workload", "what it is", "arguments"], rows, 3)


def machine_text(about):
	versions = about.get("versions") or {}
	facts = [f"{about.get('cpu')}, {about.get('cores')} cores, {math.ceil((about.get('memory_mib') or 0) / 1024)} GiB",
		f"{about.get('distribution')}, kernel {about.get('kernel')}", f"transparent huge pages {about.get('thp') or 'unknown'}",
		f"commit {about.get('commit') or 'unknown'}"]
	return "; ".join(facts) + ".\n\n" + ", ".join(f"{name} {version}" for name, version in versions.items())
