"""Part `giveback`: a program uses much device memory, then little, then idles: when is it there for others?"""
import json
import subprocess

import place as places

NO_CACHE = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
FRAMEWORK_DECAY_MS = 3000
TORCH_S = 12  # to load it, to work, to end
PIECES = 16 << 20  # bytes; drivers charge in pieces of 2 MiB, for each block: less than that is not what lies idle


def programs(place, free_mib):
	"""name -> (command, way, settings, seconds)."""
	options = place.options
	pool = place.ways_of(["pool/wait", "pool/async"])[0]
	idle_s = 1.2 * options.decay_ms / 1000 + 2
	decay = {"MT_CUDA_DECAY_MS": options.decay_ms}
	found = {
		"decay": ([place.phases, "idle", idle_s], pool, decay, idle_s + 4),
		"signal": ([place.phases, "signal", options.signals], pool, decay, 3 * options.signals + 2),
		"driver": ([place.phases, "idle", 1], "bare", {}, 5),
	}
	idler = [place.python, places.HERE / "idler.py", "--device", options.device, "--mib", min(2048, free_mib // 4), "--idle"]
	frameworks = {"MT_FRAMEWORK_DECAY_MS": FRAMEWORK_DECAY_MS}
	if not options.fake:
		found |= {
			"torch cache": ([*idler, 3], "bare", {}, 3 + TORCH_S),
			"torch cache+shim": ([*idler, FRAMEWORK_DECAY_MS / 1000 + 4], "auto", frameworks, 7 + TORCH_S),
			"torch no_cache+shim": ([*idler, idle_s], pool, decay | NO_CACHE, idle_s + TORCH_S),
		}
	return {name: one for name, one in found.items() if not options.programs or name in options.programs.split(",")}


def watch(command, environment, limit_s):
	"""Events of a program in turns [{name: time}], a turn from `start` to `end`, and its last line; or why not."""
	try:
		done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True, timeout=limit_s,
		                      stdin=subprocess.DEVNULL, check=False, errors="replace")
	except subprocess.TimeoutExpired:
		return None, None, f"killed after {limit_s:.0f} s"
	if done.returncode != 0:
		return None, None, places.reason_of(done.returncode, done.stdout, done.stderr)
	turns = []
	for line in done.stdout.splitlines():
		record = json.loads(line) if line.startswith("{") else {}
		if record.get("event") == "start":
			turns.append({})
		if turns and "event" in record:
			turns[-1][record["event"]] = record["time"]
	return turns, places.last_json(done.stdout), None


def figures_of(sampler, events, kept_bytes):
	"""What the second process saw between start and end."""
	end = events["end"]
	target = sampler.free_at(events["start"]) - kept_bytes
	freed, low = events["freed"], sampler.least(events["start"], events["freed"])
	held_then = sampler.free_at(freed + 0.02)
	idle = target - held_then
	figures = {"height_mib": (target - low) / 2**20, "idle_mib": idle / 2**20, "left_mib": (target - sampler.free_at(end)) / 2**20}
	back = 0.0 if idle < PIECES else sampler.reaches(held_then + 0.9 * idle, freed, end)
	# None: not by the end, watched_s later.
	figures["back_90_s"], figures["watched_s"] = back, end - freed
	# The last free is that of the little work, where there is any.
	for name, moment in (("signal_ms", "signal"), ("decay_ms", "idle")):
		if moment in events:
			reached = sampler.reaches(target - max(0.01 * idle, PIECES), events[moment], end)
			figures[name] = 1000 * reached if reached is not None else None
	return figures


def measure_program(place, budget, sampler, command, way, settings):
	"""(Figures of each turn, what is drawn of it), None; or None and the reason why there are none."""
	turns, last, reason = watch(command, place.env(way, **settings), budget.limit_s(places.RUN_LIMIT_S))
	if reason:
		return None, reason
	sampler.catch_up(turns[-1]["end"])
	figures, first = [figures_of(sampler, events, last["kept_bytes"]) for events in turns], turns[0]["start"]
	return (figures, {"samples": sampler.series(first - 0.2, turns[-1]["end"]),
		"events": {event: round(moment - first + 0.2, 3) for event, moment in turns[0].items()}, "settings": settings}), None


def measure(place, budget, sampler, torch_is_there, free_mib):
	results, skipped, series = {}, {}, {}
	for name, (command, way, settings, seconds) in programs(place, free_mib).items():
		if name.startswith("torch") and not torch_is_there:
			skipped[name] = "no PyTorch with a device"
			continue
		if not budget.allows(f"giveback: {name}", seconds):
			continue
		try:
			measured, reason = measure_program(place, budget, sampler, command, way, settings)
		except places.TROUBLE as error:
			measured, reason = None, f"{type(error).__name__}: {error}"
		if reason:
			skipped[name] = reason
			budget.say(f"skipped: {name} ({reason})")
		else:
			results[name], series[name] = measured
	return results, skipped, series
