"""What a suite prints at its end: a table for each workload, the means over them, and the noise."""
import statistics

from lib import ratio
from lib.entries import TRAINING
from lib.report import format_number

SHOWN = {"work_s": "time, s", "peak_mib": "peak, MiB", "idle_mib": "idle, MiB", "integral_mib_s": "integral, MiB s"}
FIRST, AGAIN = "glibc", "glibc-again"
NOISE = (0.97, 1.03)


def runs_of(runs, label, name):
	return [run for run in runs if run["workload"] == label and run["candidate"] == name]


def noise_of(runs, rows, key="work_s"):
	"""The same candidate twice in each round: whatever these two differ by is the machine. None where it did not run twice."""
	ratios = {row.label: ratio.paired(runs_of(runs, row.label, AGAIN), runs_of(runs, row.label, FIRST), key) for row in rows}
	known = {label: found for label, found in ratios.items() if found}
	if not known:
		return None
	overall = ratio.over_workloads(known.values())
	outside = [label for label, found in known.items() if is_outside(found)]
	return {"figure": key, "overall": overall.record(), "workloads": {label: found.record() for label, found in known.items()},
		"outside": outside, "is_quiet": not is_outside(overall)}


def is_outside(found):
	"""At the digits in which the bound is written."""
	return not NOISE[0] <= round(found.value, 2) <= NOISE[1]


def cell(runs, firsts, key, is_first):
	values = list(ratio.by_round(runs, key).values())
	if not values:
		return "-"
	found = None if is_first else ratio.paired(runs, firsts, key)
	return format_number(statistics.median(values)) + (f"  {found.text()}" if found else "")


def table(runs, label, names):
	by_name = {name: runs_of(runs, label, name) for name in names}
	by_name = {name: own for name, own in by_name.items() if own}
	first = next(iter(by_name))
	rows = [["", *SHOWN.values()]]
	for name, own in by_name.items():
		rows.append([name, *(cell(own, by_name[first], key, name == first) for key in SHOWN)])
	return aligned(rows)


def aligned(rows):
	widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
	return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows)


def means(result, labels, first):
	"""Over the workloads that candidate and first have both run."""
	rows = [["", *SHOWN.values()]]
	for name in result["candidates"]:
		if name == first:
			continue
		cells = []
		for key in SHOWN:
			ratios = [ratio.paired(runs_of(result["runs"], label, name), runs_of(result["runs"], label, first), key) for label in labels]
			known = [found for found in ratios if found]
			mean = ratio.over_workloads(known)
			cells.append(f"{mean.text()} of {len(known)}" if mean else "-")
		rows.append([name, *cells])
	return aligned(rows)


def print_noise(noise):
	if not noise:
		return
	worst = ", ".join(f"{label} {noise['workloads'][label]['ratio']:.3f}" for label in noise["outside"])
	print(f"\nnoise: the time of {AGAIN} over that of {FIRST}, the same thing: {noise['overall']['ratio']:.3f}")
	if worst:
		print(f"NOISY: outside {NOISE[0]}..{NOISE[1]}: {worst}. Ratios of these rows are not to be trusted that far.")
	if not noise["is_quiet"]:
		print("NOISY: the machine was not quiet enough for this suite: run it again with nothing beside it.")


def remarks(runs, first):
	"""What candidates said on stderr where the first said nothing of the kind: an option that an allocator did not know, say."""
	said = {}
	for run in runs:
		if run.get("stderr"):
			said.setdefault((run["candidate"], run["stderr"].splitlines()[0][:200]), {})[run["workload"]] = True
	usual = {(label, text) for (name, text), labels in said.items() if name == first for label in labels}
	for (name, text), labels in said.items():
		unusual = [label for label in labels if (label, text) not in usual]
		if unusual and name != first:
			yield f"{name} said on {', '.join(unusual)}: {text}"


def print_summary(result):
	names, runs = list(result["candidates"]), result["runs"]
	ran = [label for label in result["entries"] if any(run["workload"] == label for run in runs)]
	for label in ran:
		print(f"\n{label}: {result['entries'][label]['title']}\n{table(runs, label, names)}")
	groups = {"training workloads": [label for label in ran if result["entries"][label]["group"] == TRAINING], "all workloads": ran}
	for title, labels in groups.items():
		if len(labels) > 1 and len(names) > 1:
			print(f"\ngeometric means, {title}, over {names[0]}\n{means(result, labels, names[0])}")
	print_noise(result["noise"])
	for remark in remarks(runs, names[0]):
		print(remark)
	for failure in result["failed"]:
		print(f"FAILED: {failure['workload']} {failure['candidate']} run {failure['number'] + 1}: {failure['reason']}")
