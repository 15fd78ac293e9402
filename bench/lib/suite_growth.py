"""What bench/growth.py has measured, as a plot and as tables: the cost of a malloc, a trim and a tick as a program grows."""
from lib import suite_plot
from lib.report import format_number
from lib.suite_data import OURS
from lib.suite_plot import FONTS, GREY, PALE, STYLES, WIDTH, pyplot, ticker

AXES = {"threads": "threads", "heap_gb": "heap (GB)", "blocks": "live blocks"}
FIGURES = {"malloc_ns": "a malloc+free (ns)", "trim_ms": "a trim (ms)", "tick_us": "a tick (us of CPU)"}
MORE_FIGURES = {"trim_cpu_ms": "CPU time of a trim (ms)", "returned_mib": "MiB returned by it"}


def known(values):
	return [value for value in values if value is not None and value > 0]


def panels_of(series):
	"""(figure, axis) -> its series; of those figures alone that are a cost."""
	found = {}
	for one in series:
		if one["figure"] in FIGURES and known(one["y"]):
			found.setdefault((one["figure"], one["axis"]), []).append(one)
	return found


def draw_panel(axes, axis, figure, series):
	for one in series:
		colour, marker, dashes = STYLES.get(one["candidate"], (GREY, ".", "dotted"))
		points = [(x, y) for x, y in zip(one["x"], one["y"]) if y is not None and y > 0]
		axes.plot(*zip(*points), color=colour, marker="+" if marker == "|" else marker, markersize=4.5, linestyle=dashes,
			linewidth=2 if one["candidate"] == OURS else 1.3, zorder=4 if one["candidate"] == OURS else 3, label=one["candidate"])
	axes.set_xscale("log")
	axes.set_yscale("log")
	axes.set_title(FIGURES[figure], loc="left", fontsize=10, fontweight="bold")
	axes.set_xlabel(AXES.get(axis, axis))
	axes.set_xticks(sorted({x for one in series for x in one["x"]}))
	axes.xaxis.set_major_formatter(ticker.LogFormatterMathtext() if axis == "blocks" else plain_number)
	axes.xaxis.set_minor_locator(ticker.NullLocator())
	at_least_a_decade(axes, [y for one in series for y in known(one["y"])])
	axes.yaxis.set_major_formatter(plain_number)
	axes.yaxis.set_minor_locator(ticker.NullLocator())
	axes.grid(color=PALE, linewidth=0.8)


@ticker.FuncFormatter
def plain_number(value, _):
	return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def at_least_a_decade(axes, values):
	"""What hardly grows has to look like it: no axis shows less than a factor of ten. Ticks at 1, 2, 5 where they fit."""
	low, high = min(values), max(values)
	widen = max(1.25, (10 / (high / low)) ** 0.5)
	axes.set_ylim(low / widen, high * widen)
	axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if high / low < 100 else (1,), numticks=12))


def title_of(series):
	"""What the panels show of the shim, with its figures."""
	def values(figure, axis=None):
		return [value for one in series if one["candidate"] == OURS and one["figure"] == figure and axis in (None, one["axis"])
			for value in known(one["y"])]
	mallocs, trims = values("malloc_ns"), values("trim_ms", "heap_gb")
	parts = []
	if mallocs:
		parts.append(f"a malloc with its free takes {min(mallocs):.0f} to {max(mallocs):.0f} ns under the shim, however large the program is")
	if trims:
		parts.append(f"a trim takes {min(trims):.0f} to {max(trims):.0f} ms, by the size of the heap")
	words = "; ".join(parts) or "what it costs as a program grows"
	return words[0].upper() + words[1:]


def draw_figure(series):
	"""A row of panels for each figure, a column for each axis."""
	panels = panels_of(series)
	rows = [figure for figure in FIGURES if any(key[0] == figure for key in panels)]
	columns = [axis for axis in AXES if any(key[1] == axis for key in panels)]
	figure, grid = pyplot.subplots(len(rows), len(columns), figsize=(WIDTH, 1.2 + 2.4 * len(rows)), squeeze=False)
	for (name, axis), axes in zip(((name, axis) for name in rows for axis in columns), grid.flat):
		if (name, axis) in panels:
			draw_panel(axes, axis, name, panels[name, axis])
		else:
			axes.set_visible(False)
	inches = figure.get_figheight()
	top = suite_plot.put_title(figure, title_of(series)) + 0.36
	figure.subplots_adjust(left=0.08, right=0.985, top=1 - top / inches, bottom=1.0 / inches, hspace=0.65, wspace=0.3)
	handles, names = suite_plot.merged_handles(grid)
	figure.legend(handles, names, loc="lower center", ncol=len(names), fontsize=9, frameon=False)
	return figure


def draw(records, folder):
	series = [one for record in records for one in record["series"]]
	if not panels_of(series):
		return []
	with pyplot.rc_context(FONTS):
		return [(suite_plot.save(draw_figure(series), folder, "bench-growth"),
			"Cost of a malloc, a trim and a tick as threads, heap and blocks grow")]


# ---- tables ----

def axis_table(axis, series):
	points = list(dict.fromkeys(x for one in series for x in one["x"]))
	header = [AXES.get(axis, axis), "candidate", *(plain_number(x, None) for x in points)]
	lines = ["| " + " | ".join(header) + " |", "|---|---|" + "---:|" * len(points)]
	for figure, title in {**FIGURES, **MORE_FIGURES}.items():
		for one in (one for one in series if one["figure"] == figure):
			values = dict(zip(one["x"], one["y"]))
			name = f"**{one['candidate']}**" if one["candidate"] == OURS else one["candidate"]
			lines.append(f"| {title} | {name} | " + " | ".join(format_number(values.get(x)) for x in points) + " |")
	return "\n".join(lines)


def text(records):
	"""A table for each axis, then what was left out and what grows worse than its axis does."""
	series = [one for record in records for one in record["series"]]
	axes = dict.fromkeys(one["axis"] for one in series)
	parts = [axis_table(axis, [one for one in series if one["axis"] == axis]) for axis in axes]
	remarks = [f"- not measured: {AXES.get(point['axis'], point['axis'])} {point['x']:g}, {point['why']}"
		for record in records for point in record.get("skipped", [])]
	remarks += [f"- worse than linear: {words}" for record in records for words in record.get("worse_than_linear", [])]
	return parts + (["\n".join(remarks)] if remarks else [])
