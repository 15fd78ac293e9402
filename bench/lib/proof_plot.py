"""The three pictures of docs/benchmarks.md. Each line and bar has its name beside it, so none needs a legend."""
import textwrap

from matplotlib import pyplot

from lib import proof, suite_plot
from lib.entries import ALLOCATOR, PYTHON, REAL, TRAINING
from lib.suite_data import FIRST, OURS

PALE, DARK, OWN = "#b9c2c9", "#5f6368", "#d55e00"
# Of each peer the newest, and how its documents advise to run it; what a picture has room for.
DRAWN = (OURS, FIRST, "glibc-testing", "jemalloc-testing", "jemalloc-tuned", "mimalloc-testing", "tcmalloc")
GROUPS = (TRAINING, PYTHON, REAL, ALLOCATOR)
GAP_POINTS = 11   # between two names at the ends of lines
WIDTH = 9.0
LONGEST = 2.0     # of a bar, as a ratio to glibc; a longer one is cut, and marked


def titled(figure, words):
	figure.text(0.015, 0.99, "\n".join(textwrap.wrap(words, 90)), fontsize=12, fontweight="bold", ha="left", va="top", linespacing=1.25)


def spread(places, gap):
	"""Heights for names that stand beside lines: in the order of the lines, no two nearer than gap."""
	order = sorted(places, key=places.get)
	heights, last = {}, None
	for name in order:
		height = places[name] if last is None else max(places[name], last + gap)
		heights[name], last = height, height
	return heights


def until_the_end_of_rest(suite, run):
	"""Its samples up to the time at which the program was told to end: what it gives up at its exit is no allocator's work."""
	end = run["figures"]["run_s"] + suite.record["options"]["idle_s"]
	return [sample for sample in run["samples"] if sample[0] <= end]


def draw_lines(suite, page, label, words):
	runs = {name: until_the_end_of_rest(suite, run) for name in DRAWN if (run := suite.middle_run(label, name))}
	if OURS not in runs:
		return None
	with pyplot.rc_context(suite_plot.FONTS):
		figure, axes = pyplot.subplots(figsize=(WIDTH, 4.2))
		end = max(samples[-1][0] for samples in runs.values())
		for name, samples in runs.items():
			times, mib = zip(*samples)
			axes.plot([*times, end], [*mib, mib[-1]], color=OWN if name == OURS else DARK, linewidth=2.4 if name == OURS else 1.1,
				zorder=4 if name == OURS else 3)
		axes.set_xlim(0, end)
		axes.set_ylim(0, None)
		axes.set_xlabel("seconds since the start")
		axes.set_ylabel("resident memory (MB)")
		axes.grid(axis="y", color=suite_plot.PALE, linewidth=0.8)
		figure.subplots_adjust(left=0.085, right=0.8, top=0.85, bottom=0.13)
		points = axes.get_window_extent().height * 72 / figure.dpi
		heights = spread({name: samples[-1][1] for name, samples in runs.items()}, GAP_POINTS / points * axes.get_ylim()[1])
		for name, height in heights.items():
			axes.annotate(page.name(name), xy=(end, runs[name][-1][1]), xytext=(end * 1.02, height), fontsize=9, va="center",
				color=OWN if name == OURS else DARK, fontweight="bold" if name == OURS else "normal", annotation_clip=False,
				arrowprops={"arrowstyle": "-", "color": PALE, "linewidth": 0.8, "relpos": (0, 0.5), "shrinkA": 1, "shrinkB": 0})
		titled(figure, words)
		return figure


def mark_as_cut(axes, height):
	for place in (LONGEST - 0.25, LONGEST - 0.17):
		axes.plot((place - 0.04, place + 0.04), (height + 0.4, height - 0.4), color="white", linewidth=1.6)


def draw_bars(suite, page):
	"""Memory at rest of each group, one bar an allocator, with its name and ratio beside it."""
	groups = [group for group in GROUPS if page.mean(group, OURS, "idle_mib")]
	names = [name for name in DRAWN if name in suite.names]
	if not groups:
		return None
	with pyplot.rc_context(suite_plot.FONTS):
		figure, panels = pyplot.subplots(1, len(groups), figsize=(WIDTH, 0.9 + 0.36 * len(names)), sharey=True, squeeze=False)
		for axes, group in zip(panels.flat, groups):
			for height, name in enumerate(names):
				found = page.mean(group, name, "idle_mib")
				value = found.value if found else 0.0
				axes.barh(height, min(value, LONGEST), color=OWN if name == OURS else PALE, height=0.68)
				axes.text(min(value, LONGEST) + 0.06, height, f"{value:.2f}" if found else "-", va="center", fontsize=9,
					bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6})  # over the line at 1
				if value > LONGEST:
					mark_as_cut(axes, height)
			axes.axvline(1, color=DARK, linewidth=0.8)
			axes.set_title("\n".join(textwrap.wrap(proof.TITLES[group], 20)), fontsize=9.5, loc="left")
			axes.set_xlim(0, 2.5)
			axes.set_xticks([])
			axes.spines["bottom"].set_visible(False)
		panels[0][0].set_yticks(range(len(names)), [page.name(name) for name in names])
		panels[0][0].invert_yaxis()
		figure.subplots_adjust(left=0.19, right=0.99, top=0.72, bottom=0.03, wspace=0.08)
		ours = [f"{page.mean(group, OURS, 'idle_mib').value:.2f}" for group in groups]
		titled(figure, f"Memory at rest, as a ratio to {page.name(FIRST)}: under mtshim {', '.join(ours[:-1])} and {ours[-1]}")
		return figure


def words_of_lines(suite, page, label, key, program):
	ours = suite.value(label, OURS, key)
	peers = {name: value for name in DRAWN if name != OURS and (value := suite.value(label, name, key)) is not None}
	if ours is None or not peers:
		return program
	best = min(peers, key=peers.get)
	return f"{program}: {ours:.0f} MB under mtshim, {peers[best]:.0f} under {page.name(best)}, {peers[FIRST]:.0f} under glibc"


def draw(suite, page, folder):
	"""Paths of the pictures for which there are figures."""
	survivors = "Small blocks of which 1 in 16 stays, and nobody calls for a trim"
	wanted = {
		"proof-rest": draw_bars(suite, page),
		"proof-rounds": draw_lines(suite, page, "fl_rounds", words_of_lines(suite, page, "fl_rounds", "idle_mib",
			"Federated rounds, then rest")),
		"proof-survivors": draw_lines(suite, page, "survivors", words_of_lines(suite, page, "survivors", "idle_mib", survivors)),
	}
	paths = []
	for name, figure in wanted.items():
		if figure:
			path = f"{folder}/{name}.svg"
			with pyplot.rc_context(suite_plot.FONTS):  # text stays text
				figure.savefig(path, metadata={"Date": None})
			pyplot.close(figure)
			paths.append(path)
	return paths
