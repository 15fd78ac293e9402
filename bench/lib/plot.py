"""RSS over time of two runs, one above the other on the same axes, as SVG and PNG."""
import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot  # pylint: disable=wrong-import-position  # the backend has to be chosen first

COLOURS = {"without": "#b0413e", "with": "#1f6f8b"}
GREY = "#5f6368"


def rounds_of(run):
	"""(begin of the training, end of it) of each round."""
	begins = [event["time"] for event in run.events if event["event"] == "round"]
	ends = [event["time"] for event in run.events if event["event"] == "wait"]
	return list(zip(begins, ends))


def ends_of_rounds(run, wait_s):
	"""(time, RSS) at the end of each round's wait, as the workload itself read it."""
	times = [event["time"] + wait_s for event in run.events if event["event"] == "wait"]
	return list(zip(times, run.figures["end_rss_mib"]))


def draw_run(axes, run, wait_s, title, colour):
	for number, (begin, end) in enumerate(rounds_of(run)):
		axes.axvspan(begin, end, color="#eceff1", linewidth=0, zorder=0)
		axes.text((begin + end) / 2, 0.975, str(number + 1), transform=axes.get_xaxis_transform(), ha="center", va="top",
			fontsize=8, color=GREY)
	end_times, end_rss = zip(*ends_of_rounds(run, wait_s))
	times, rss = zip(*(sample for sample in run.samples if sample[0] <= end_times[-1]))
	axes.plot(times, rss, color=colour, linewidth=1.3, zorder=3, label="RSS, sampled 10 times a second")
	axes.scatter(end_times, end_rss, s=22, color=colour, edgecolors="white", linewidths=0.6, zorder=4,
		label="end of a round")
	floor = run.figures["floor_mib"]
	axes.axhline(floor, color=GREY, linestyle=(0, (4, 3)), linewidth=1, zorder=2,
		label="floor: after import torch, plus the model")
	axes.annotate(f"floor {floor:.0f} MB", (1, floor), xycoords=axes.get_yaxis_transform(), xytext=(-2, -4),
		textcoords="offset points", ha="right", va="top", fontsize=8, color=GREY)
	axes.annotate(f"{end_rss[-1]:.0f} MB", (end_times[-1], end_rss[-1]), xytext=(6, 0), textcoords="offset points",
		ha="left", va="center", fontsize=9, color=colour, fontweight="bold")
	axes.set_title(title, loc="left", fontsize=11, color=colour, fontweight="bold")
	axes.set_ylabel("resident memory (MB)")
	axes.spines[["top", "right"]].set_visible(False)
	axes.tick_params(labelsize=9)


def mark_signals(axes, run):
	for number, moment in enumerate(run.signals):
		axes.axvline(moment, color="#d17a00", linewidth=1.2, zorder=2.5, label="kill -USR1" if number == 0 else None)


def sentence(without, with_shim):
	"""What is seen: the memory at the end of the last rounds."""
	one, two = (sum(run.figures["end_rss_mib"][-4:]) / len(run.figures["end_rss_mib"][-4:]) for run in (without, with_shim))
	return f"After a round this PyTorch program holds {one:.0f} MB; with the library it holds {two:.0f} MB"


def draw(without, with_shim, wait_s, title, paths):
	"""title: what the lower panel shows."""
	figure, panels = pyplot.subplots(2, 1, sharex=True, sharey=True, figsize=(10, 6.4), layout="constrained")
	draw_run(panels[0], without, wait_s, "without mtshim", COLOURS["without"])
	draw_run(panels[1], with_shim, wait_s, title, COLOURS["with"])
	mark_signals(panels[1], with_shim)
	highest = max(rss for run in (without, with_shim) for _, rss in run.samples)
	panels[0].set_ylim(0, highest * 1.15)
	last = max(ends_of_rounds(run, wait_s)[-1][0] for run in (without, with_shim))
	panels[0].set_xlim(0, last * 1.08)
	panels[1].set_xlabel("time since the start (s); shaded and numbered: a round, in which four clients train")
	panels[1].legend(loc="upper center", bbox_to_anchor=(0.5, -0.17), ncol=4, fontsize=8, frameon=False)
	figure.suptitle(sentence(without, with_shim), fontsize=13, fontweight="bold", x=0.01, ha="left")
	for path in paths:
		figure.savefig(path, dpi=130)
	pyplot.close(figure)
