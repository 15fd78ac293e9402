"""Medians, ratios with their spread, tables, and files of results."""
import datetime
import json
import os
import statistics


def numbers(runs, key):
	return [run[key] for run in runs if isinstance(run.get(key), (int, float))]


def median(runs, key):
	values = numbers(runs, key)
	return statistics.median(values) if values else None


def paired_ratios(runs, first_runs, key):
	"""Run i of a candidate over run i of the first: neighbours in time, so that slow drift of the machine cancels."""
	pairs = zip(numbers(runs, key), numbers(first_runs, key))
	return [one / other for one, other in pairs if other]


def format_number(value):
	if value is None:
		return "-"
	if value == int(value) and abs(value) >= 100:
		return f"{int(value)}"
	return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}"


def cell(runs, first_runs, key, is_first):
	value = median(runs, key)
	if value is None:
		return "-"
	text = format_number(value)
	ratios = paired_ratios(runs, first_runs, key)
	if is_first or not ratios:
		return text
	spread = f" ({min(ratios):.2f}..{max(ratios):.2f})" if len(ratios) > 1 else ""
	return f"{text}  {statistics.median(ratios):.2f}x{spread}"


def table(results, keys):
	"""results: candidate name -> list of figures, in the order of the command line; ratios are to the first."""
	names = list(results)
	rows = [["", *names]]
	for key in keys:
		if any(numbers(runs, key) for runs in results.values()):
			rows.append([key, *(cell(results[name], results[names[0]], key, name == names[0]) for name in names)])
	widths = [max(len(row[column]) for row in rows) for column in range(len(names) + 1)]
	return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows)


def result_path(label):
	stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
	folder = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "results")
	os.makedirs(folder, exist_ok=True)
	return os.path.join(folder, f"{label}-{stamp}.json")


def as_text(value, depth=0):
	"""JSON in which each element of a list that is too long for a line is one line: a sample on ten lines is no use to anybody."""
	text = json.dumps(value, separators=(",", ":"))
	if len(text) <= 120 or not isinstance(value, (dict, list)):
		return text
	indent = " " * (depth + 1)
	if isinstance(value, list):
		return "[\n" + ",\n".join(indent + json.dumps(one, separators=(",", ":")) for one in value) + "\n" + " " * depth + "]"
	return "{\n" + ",\n".join(f"{indent}{json.dumps(key)}: {as_text(one, depth + 1)}" for key, one in value.items()) + "\n" + " " * depth + "}"


def save(path, record):
	with open(path, "w", encoding="utf-8") as out:
		out.write(as_text(record) + "\n")
	return path
