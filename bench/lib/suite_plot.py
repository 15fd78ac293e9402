"""The suite's plots, each as SVG and PNG: ratios as dots, RSS over time as lines.

Colours are those of Okabe and Ito, which people with any kind of colour-blindness can tell apart; each candidate has its
own marker or dashes as well. Text in the SVGs stays text, so that it can be searched and tested.
"""
import math
import os
import textwrap

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot, ticker  # pylint: disable=wrong-import-position  # the backend has to be chosen first
from matplotlib.transforms import offset_copy  # pylint: disable=wrong-import-position

from lib import suite_data  # pylint: disable=wrong-import-position
from lib.entries import TRAINING  # pylint: disable=wrong-import-position
from lib.suite_data import FIRST, GROUPS, OURS  # pylint: disable=wrong-import-position

GREY, PALE = "#5f6368", "#e3e6e8"
# name: colour, marker, dashes. What is not here is one of the others: a small grey ring.
STYLES = {
	FIRST: ("#000000", "|", "solid"),
	"jemalloc": ("#0072b2", "s", "solid"),
	"jemalloc-background": ("#56b4e9", "D", (0, (5, 1.5))),
	"tcmalloc": ("#cc79a7", "^", (0, (3, 1.2, 1, 1.2))),
	"mimalloc": ("#009e73", "v", (0, (1.2, 1))),
	OURS: ("#d55e00", "o", "solid"),
}
OTHER_STYLE = {"s": 16, "facecolors": "none", "edgecolors": GREY, "linewidths": 0.8, "zorder": 2}
MARKS = (0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2, 1.3, 1.5, 2, 3, 4, 5)
LINE_ROWS = ("fl_rounds", "dataloader", "server", "steps")
WIDTH = 9.0   # inches; the README shows it at about 880 pixels
TITLE_CHARACTERS = 88
BEYOND_INCHES = 1.75   # right of the plot, for ratios that it does not reach
FONTS = {"svg.fonttype": "none", "svg.hashsalt": "mtshim", "font.size": 10,
	"axes.spines.top": False, "axes.spines.right": False, "path.simplify_threshold": 0.5}


def save(figure, folder, name):
	"""Both forms; answers the path of the SVG. Without a date in it the same figures make the same file."""
	path = os.path.join(folder, name + ".svg")
	figure.savefig(path, metadata={"Date": None})
	figure.savefig(os.path.join(folder, name + ".png"), dpi=130)
	pyplot.close(figure)
	return path


def put_title(figure, words):
	"""A sentence above the panels, broken where it is too long. Answers its height in inches, with the space around it."""
	lines = textwrap.wrap(words, TITLE_CHARACTERS)
	figure.text(0.015, 1 - 0.12 / figure.get_figheight(), "\n".join(lines), fontsize=12, fontweight="bold", ha="left", va="top",
		linespacing=1.25)
	return 0.12 + 0.21 * len(lines)


# ---- ratios as dots ----

def dot_rows(suite, groups, key):
	"""(label shown, candidate -> ratio, is a mean) for each line of the plot; a group's mean comes after its rows."""
	names = [OURS, *(name for name in suite.peers() if name != FIRST)]
	for group in groups:
		labels = [label for label in suite.labels(group) if suite.ratio(label, OURS, FIRST, key)]
		for label in labels:
			yield label, {name: suite.ratio(label, name, FIRST, key) for name in names}, False
		if len(labels) > 1:
			means = {name: suite.mean_ratio(labels, name, FIRST, key) for name in names}
			yield f"{GROUPS.get(group, group)}: mean", means, True


def spread(names, row):
	"""Height of each dot within its row: ours in the middle, nobody hidden behind a neighbour of nearly the same ratio."""
	known = sorted((name for name in names if row.get(name) and name != OURS), key=lambda name: row[name].value)
	places = (-0.27, 0.27, -0.18, 0.18)
	return {name: places[number % len(places)] for number, name in enumerate(known)}


def style_of(name):
	"""(marker, keywords of scatter)."""
	if name not in STYLES:
		return "o", OTHER_STYLE
	colour, marker, _ = STYLES[name]
	return marker, {"s": 34, "color": colour, "zorder": 3}


def draw_row(axes, height, row, limits):
	offsets = spread(STYLES, row)
	beyond = []
	for name, found in row.items():
		if found is None or name == OURS:
			continue
		if found.value > limits[1]:
			beyond.append((found.value, name))
			continue
		marker, style = style_of(name)
		axes.scatter([max(found.value, limits[0])], [height + offsets.get(name, 0)], marker=marker, clip_on=False, **style)
	draw_beyond(axes, height, sorted(beyond))
	if row.get(OURS):
		draw_ours(axes, height, row[OURS], limits)


def draw_ours(axes, height, ours, limits):
	"""The dot and its interval. An interval that goes on beyond the plot has an arrow there."""
	colour, marker, _ = STYLES[OURS]
	if ours.low is not None:
		ends = [min(max(end, limits[0]), limits[1]) for end in (ours.low, ours.high)]
		axes.plot(ends, [height, height], color=colour, linewidth=2.2, solid_capstyle="butt", zorder=4)
		for end, shown, arrow in ((ours.low, ends[0], "<"), (ours.high, ends[1], ">")):
			if end != shown:
				axes.scatter([shown], [height], marker=arrow, s=30, color=colour, clip_on=False, zorder=4)
	style = {"s": 62, "color": colour, "edgecolors": "white", "linewidths": 0.8, "zorder": 5}
	axes.scatter([min(max(ours.value, limits[0]), limits[1])], [height], marker=marker, clip_on=False, **style)


def draw_beyond(axes, height, found):
	"""Ratios beyond the right edge, as their marks with the numbers behind them, the smallest first. Of the other peers one."""
	others = [one for one in found if one[1] not in STYLES]
	place = 12
	for value, name in sorted([one for one in found if one[1] in STYLES] + others[:1]):
		colour = STYLES[name][0] if name in STYLES else GREY
		marker, style = style_of(name)
		where = offset_copy(axes.get_yaxis_transform(), axes.figure, place, 0, "points")
		axes.scatter([1], [height], marker=marker, transform=where, clip_on=False, **{**style, "s": 22})
		text = f"{value:.3g}"
		axes.annotate(text, (1, height), xycoords=axes.get_yaxis_transform(), xytext=(place + 5, 0), textcoords="offset points",
			ha="left", va="center", fontsize=7.5, color=colour, annotation_clip=False)
		place += 12 + 4.4 * len(text)


def limits_of(rows):
	"""The marks that enclose nearly all ratios, and of the intervals those that are not wide: a few far-off ones may not squeeze
	the rest."""
	values = sorted(found.value for _, row, _ in rows for found in row.values() if found)
	ours = [row[OURS] for _, row, _ in rows if row.get(OURS)]
	ends = [end for one in ours if one.low is not None for end in (one.low, one.high) if 0.5 <= end / one.value <= 2]
	most = values[min(len(values) - 1, int(len(values) * 0.93))]
	low = max((mark for mark in MARKS if mark < min([*values, *ends, 0.9])), default=MARKS[0])
	return low, min((mark for mark in MARKS if mark > max([most, *(one.value for one in ours), *ends, 1.1])), default=MARKS[-1])


def set_scale(axes, limits):
	"""Logarithmic, as befits ratios: half and twice as much are as far from 1. As many marks from 1 outwards as have room."""
	axes.set_xscale("log")
	axes.set_xlim(*limits)
	marks, gap = [1], math.log(limits[1] / limits[0]) / 14
	for mark in sorted(MARKS, key=lambda mark: abs(math.log(mark))):
		if limits[0] <= mark <= limits[1] and all(abs(math.log(mark / other)) > gap for other in marks):
			marks.append(mark)
	axes.set_xticks(marks, [f"{mark:g}" for mark in marks])
	axes.xaxis.set_minor_locator(ticker.NullLocator())


def legend(figure, axes, names, others):
	"""One for the whole figure, below it."""
	handles = []
	for name in names:
		colour, marker, _ = STYLES[name]
		words = "shim, with its 95 % interval" if name == OURS else name
		handles.append(axes.scatter([], [], marker=marker, s=45, color=colour, label=words))
	if others:
		handles.append(axes.scatter([], [], marker="o", s=20, facecolors="none", edgecolors=GREY, label="other peers"))
	figure.legend(handles=handles, loc="lower center", ncol=len(handles), fontsize=9, frameon=False, handletextpad=0.2,
		columnspacing=1.4)


def draw_dots(suite, groups, key, title, axis):
	rows = list(dot_rows(suite, groups, key))
	if not rows:
		return None
	with pyplot.rc_context(FONTS):
		figure, axes = pyplot.subplots(figsize=(WIDTH, 1.95 + 0.34 * len(rows)))
		limits = limits_of(rows)
		for number, (label, row, is_mean) in enumerate(rows):
			if is_mean:
				axes.axhspan(number - 0.5, number + 0.5, color=PALE, alpha=0.6, linewidth=0, zorder=0)
			draw_row(axes, number, row, limits)
		axes.axvline(1, color="black", linewidth=1, zorder=1)
		axes.text(1, -0.62, "glibc", ha="center", va="bottom", fontsize=9)
		axes.set_yticks(range(len(rows)), [label for label, _, _ in rows])
		for text, (_, _, is_mean) in zip(axes.get_yticklabels(), rows):
			text.set_fontweight("bold" if is_mean else "normal")
		axes.set_ylim(len(rows) - 0.5, -0.6)
		set_scale(axes, limits)
		axes.grid(axis="x", color=PALE, linewidth=0.8)
		axes.set_axisbelow(True)
		axes.tick_params(axis="y", length=0)
		axes.spines["left"].set_visible(False)
		axes.set_xlabel(axis)
		inches = figure.get_figheight()
		top = put_title(figure, title) + 0.4
		labels = max(text.get_window_extent(figure.canvas.get_renderer()).width for text in axes.get_yticklabels()) / figure.dpi
		beyond = any(found and found.value > limits[1] for _, row, _ in rows for found in row.values())
		right = BEYOND_INCHES if beyond else 0.3
		figure.subplots_adjust(left=(labels + 0.25) / WIDTH, right=1 - right / WIDTH, top=1 - top / inches, bottom=0.95 / inches)
		seen = {name for _, row, _ in rows for name, found in row.items() if found}
		legend(figure, axes, [name for name in STYLES if name in seen], bool(seen - set(STYLES)))
		return figure


# ---- RSS over time ----

def draw_line(axes, name, run):
	times, mib = zip(*run["samples"])
	colour, _, dashes = STYLES[name]
	width, order = (2.2, 4) if name == OURS else (1.4, 3)
	axes.plot(times, mib, color=colour, linestyle=dashes, linewidth=width, zorder=order, label=name)


def draw_panel(suite, axes, label):
	ends = []
	for name in STYLES:
		run = suite.middle_run(label, name)
		if run:
			draw_line(axes, name, run)
			ends.append(run["samples"][-1][0])
	axes.set_title(label, loc="left", fontsize=10.5, fontweight="bold")
	axes.set_xlim(0, max(ends))
	ours = suite.middle_run(label, OURS)["figures"]
	if "idle_mib" in ours:
		axes.axvspan(ours["run_s"], max(ends), color=PALE, alpha=0.6, linewidth=0, zorder=0)
	axes.set_ylim(0, None)
	axes.xaxis.set_major_locator(ticker.MaxNLocator(6, integer=True))
	axes.grid(axis="y", color=PALE, linewidth=0.8)


def draw_lines(suite):
	labels = [label for label in LINE_ROWS if label in suite.labels() and suite.middle_run(label, OURS)]
	if not labels:
		return None
	with pyplot.rc_context(FONTS):
		columns = min(2, len(labels))
		lines = (len(labels) + 1) // 2
		figure, panels = pyplot.subplots(lines, columns, figsize=(WIDTH, 1.2 + 2.75 * lines), squeeze=False)
		for axes, label in zip(panels.flat, labels):
			draw_panel(suite, axes, label)
		for axes in list(panels.flat)[len(labels):]:
			axes.set_visible(False)
		for row in panels:
			row[0].set_ylabel("resident memory (MiB)")
		for axes in panels[-1]:
			axes.set_xlabel("time since the start (s); shaded: idle, under the shim")
		inches = figure.get_figheight()
		top = put_title(figure, rest_title(suite, labels)) + 0.36
		figure.subplots_adjust(left=0.085, right=0.985, top=1 - top / inches, bottom=0.95 / inches, hspace=0.32, wspace=0.16)
		handles, names = merged_handles(panels)
		figure.legend(handles, names, loc="lower center", ncol=len(names), fontsize=9, frameon=False, columnspacing=1.4)
		return figure


def merged_handles(panels):
	found = {}
	for axes in panels.flat:
		for handle, name in zip(*axes.get_legend_handles_labels()):
			found.setdefault(name, handle)
	names = [name for name in STYLES if name in found]
	return [found[name] for name in names], names


# ---- what is seen, as sentences ----

def listed(items):
	return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]


def time_title(suite):
	labels = [label for label in suite.labels(TRAINING) if suite.ratio(label, OURS, FIRST, "work_s")]
	means = {name: suite.mean_ratio(labels, name, FIRST, "work_s") for name in STYLES if name != FIRST}
	ours = means.pop(OURS)
	if not ours:
		return "Time of the training programs against glibc's"
	others = [f"{value:.2f} under {name}" for value, name in sorted((found.value, name) for name, found in means.items() if found)]
	return (f"{len(labels)} training programs take {ours.value:.2f} of glibc's time under the shim"
		+ (f", {listed(others)}" if others else ""))


def idle_title(suite):
	parts = []
	for group, words in GROUPS.items():
		labels = [label for label in suite.labels(group) if suite.ratio(label, OURS, FIRST, "idle_mib")]
		mean = suite.mean_ratio(labels, OURS, FIRST, "idle_mib") if labels else None
		if mean:
			parts.append(f"{mean.value:.2f} ({words})")
	return f"At rest a program under the shim holds {listed(parts)} of the memory that it holds under glibc"


def rest_title(suite, labels):
	"""Of how many programs the shim holds the least once they rest, of those candidates that are drawn."""
	lowest = known = 0
	for label in labels:
		runs = {name: suite.middle_run(label, name) for name in STYLES}
		rest = {name: run["figures"]["idle_mib"] for name, run in runs.items() if run and "idle_mib" in run["figures"]}
		known += OURS in rest
		lowest += OURS in rest and rest[OURS] <= min(rest.values())
	return f"In {lowest} of these {known} programs the shim holds the least memory once the program rests"


# ---- all ----

def draw_suite(suite, folder):
	"""(path of the SVG, what it shows) of each plot that there are figures for."""
	time = draw_dots(suite, [TRAINING], "work_s", time_title(suite),
		"time as ratio to glibc, left is faster; an arrow: the interval goes on")
	idle = draw_dots(suite, list(GROUPS), "idle_mib", idle_title(suite),
		"RSS after idle as ratio to glibc, left is less; an arrow: the interval goes on")
	wanted = [
		(time, "bench-time", "Time of the training workloads as ratio to glibc, for the shim and its peers"),
		(idle, "bench-idle", "RSS after idle as ratio to glibc, for the shim and its peers"),
		(draw_lines(suite), "bench-rss", "RSS over time of four workloads under glibc, jemalloc, tcmalloc, mimalloc and the shim"),
	]
	return [(save(figure, folder, name), alt) for figure, name, alt in wanted if figure]
