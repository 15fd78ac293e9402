"""The figures as tables, and where matplotlib is there, the series as plots."""
import os

from lib import report

SIZES = ("512B", "4KiB", "64KiB", "1MiB", "2MiB", "16MiB", "128MiB", "1GiB", "8GiB")
SHAPES = {f"{load}_{threads}_{call}": f"a block {call}{'ated' if call == 'alloc' else 'd'}, {what}, {threads} thread{'s' if threads > 1 else ''}"
	for load, what in (("idle", "idle device"), ("busy", "behind a kernel of 2 ms")) for threads in (1, 16) for call in ("alloc", "free")}
RESCUE_KEYS = ("want_ms", "code", "kept_mib", "kept_after_mib")
MIX_KEYS = ("hit_percent", "step_mean_ns", "take_ns", "take_p95_ns", "free_ns", "free_p95_ns", "peak_live_mib",
	"peak_held_mib", "held_over_live", "retries")
TRAINING_KEYS = ("step_ms", "alone_step_ms", "device_peak_mib", "device_end_mib", "torch_allocated_peak_mib", "torch_reserved_peak_mib",
	"shim_reserved_peak_mib", "hit_percent", "given_back_mib", "idle_after_signal_mib")
GIVEBACK_KEYS = ("height_mib", "idle_mib", "back_90_s", "left_mib", "signal_ms", "decay_ms")


def grouped(cuts):
	"""`what: name` as what -> names."""
	found = {}
	for cut in cuts:
		what, _, name = cut.partition(": ")
		found.setdefault(what, []).append(name)
	return found


def grid(rows):
	widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
	return "\n".join("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows)


def number(runs, key):
	return report.format_number(report.median(runs, key))


def pairs(results):
	ways = [name for name in results if name != "event"]
	parts = []
	for shape, title in SHAPES.items():
		rows = [["us, median (p95)", *ways]]
		for size in SIZES:
			cells = []
			for way in ways:
				middle, high = (report.median(results[way], f"{shape}_{size}{end}") for end in ("_ns", "_p95_ns"))
				cells.append("-" if middle is None else f"{middle / 1000:.2f} ({high / 1000:.2f})")
			if set(cells) != {"-"}:
				rows.append([size, *cells])
		parts.append(f"{title}\n{grid(rows)}" if len(rows) > 1 else "")
	if "event" in results:
		parts.append(f"an event recorded and asked for, which the pool needs: {number(results['event'], 'event_ns')} ns")
	return "\n\n".join(part for part in parts if part)


def by_way(results, keys):
	"""Ways down, figures across."""
	known = [key for key in keys if any(key in run for runs in results.values() for run in runs)]
	return grid([["", *known]] + [[way, *(number(runs, key) for key in known)] for way, runs in results.items()])


def training(results, ratios):
	lines = [f"  step time of {way} / cache, {found.pairs} bursts in turn: {found.text(3)}" for way, found in ratios.items()]
	return "\n".join([by_way(results, TRAINING_KEYS), *lines])


def giveback(results):
	rows = [["", *GIVEBACK_KEYS]]
	for name, runs in results.items():
		cells = {key: number(runs, key) if key in runs[0] else "" for key in GIVEBACK_KEYS}
		if runs[0]["back_90_s"] is None:
			cells["back_90_s"] = f"> {runs[0]['watched_s']:.0f}"
		rows.append([name, *cells.values()])
	return grid(rows)


def plots(series, folder):
	"""One picture for the programs that fall idle, one for each model."""
	import matplotlib
	matplotlib.use("Agg")
	from matplotlib import pyplot
	os.makedirs(folder, exist_ok=True)
	groups = {}
	for name, one in series.items():
		model = name.partition(" ")[0]
		groups.setdefault(model if model in ("resnet", "transformer") else "giveback", {})[name] = one
	paths = []
	for group, members in groups.items():
		figure, axes = pyplot.subplots(figsize=(10, 5), layout="constrained")
		for name, one in members.items():
			held = one["samples"][0][1]
			moments, free = zip(*one["samples"])
			line, = axes.step(moments, [held - mib for mib in free], where="post", label=name)
			if "freed" in one["events"]:
				axes.axvline(one["events"]["freed"], color=line.get_color(), linestyle=":", linewidth=0.8)
		axes.set(xlabel="s since the start", ylabel="MiB that another process sees taken", ylim=(0, None))
		axes.set_title({"giveback": "much, then little, then idle (dotted: freed)"}.get(group, f"{group}: warm-up and 20 steps, alone"))
		axes.legend(fontsize=8, frameon=False)
		for suffix in ("svg", "png"):
			paths.append(os.path.join(folder, f"gpu-{group}.{suffix}"))
			figure.savefig(paths[-1], dpi=130)
		pyplot.close(figure)
	return paths
