"""Part `training`: the same steps under every way of caching, each watched alone for its memory, then in turn for the time.

The processes of all ways stay alive, and take short bursts of the same steps one after the other (A B C A B C ...): a ratio is of
bursts that are a second apart, and many of them fit into the time. Where the device is too small for all at once they go in groups,
each beside PyTorch's own cache.
"""
import json
import os
import queue
import signal
import subprocess
import threading
import time

import place as places
from lib import ratio

NO_CACHE = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "PYTORCH_ALLOC_CONF": "expandable_segments:True"}
MALLOC_ASYNC = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync", "PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}
# In the order in which they are worth having: where not all fit at once the first ones are watched first.
WAYS = {"cache": ("bare", {}), "no_cache+wait": ("pool/wait", NO_CACHE), "no_cache+async": ("pool/async", NO_CACHE), "no_cache": ("bare", NO_CACHE),
        "cache+shim": ("auto", {}), "expandable": ("bare", EXPANDABLE), "malloc_async": ("bare", MALLOC_ASYNC)}
MODELS = ("resnet", "transformer")
ALONE_STEPS, WARM_STEPS, SLOW_ROUNDS = 20, 6, 3
ALL_AT_ONCE_MIB, FULL_MIB = 100000, 40000
START_S = 30
SLOW = ("no_cache", "no_cache+wait")


class Trainee:
	def __init__(self, place, model, way, scale, limit_s):
		self.way, self.with_shim, self.limit_s = way, WAYS[way][0] != "bare", limit_s
		command = [place.python, str(places.HERE / "train.py"), model, "--device", place.options.device, "--scale", scale]
		self.process = subprocess.Popen(command, env=place.env(*WAYS[way][:1], **WAYS[way][1]), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
		                                stderr=subprocess.STDOUT, text=True, bufsize=1, start_new_session=True, errors="replace")
		self.records, self.said, self.bursts = queue.Queue(), [], {}
		self.reader = threading.Thread(target=self._read, daemon=True)
		self.reader.start()

	def _read(self):
		for line in self.process.stdout:
			if line.startswith("{"):
				self.records.put(json.loads(line))
			else:
				self.said.append(line)
		self.records.put(None)

	def ask(self, line, event):
		if line:
			try:
				self.process.stdin.write(line + "\n")
				self.process.stdin.flush()
			except BrokenPipeError:
				pass
		until = time.monotonic() + self.limit_s()
		while True:
			try:
				record = self.records.get(timeout=max(0.1, until - time.monotonic()))
			except queue.Empty:
				raise RuntimeError(f"no \"{event}\" in time") from None
			if record is None:
				raise RuntimeError(f"it ended: {''.join(self.said)[-600:].strip()}")
			if record["event"] == event:
				return record

	def end(self):
		if self.process.poll() is None:
			os.killpg(self.process.pid, signal.SIGKILL)
			self.process.wait()


def scale_of(place, total_mib):
	return place.options.scale or ("full" if total_mib >= FULL_MIB else "card")


def groups_of(place, total_mib):
	wanted = [way for way in WAYS if way in place.options.ways and (WAYS[way][0] == "auto" or place.ways_of([WAYS[way][0]]))]
	if total_mib >= ALL_AT_ONCE_MIB or place.options.device == "cpu" or len(wanted) < 3:
		return [wanted]
	others = [way for way in wanted if way != "cache"]
	most = 3 if total_mib >= FULL_MIB else 1
	return [["cache", *others[at:at + most]] for at in range(0, len(others), most)]


class Training:
	"""One model."""

	def __init__(self, place, budget, sampler, model, total_mib):
		self.place, self.budget, self.sampler, self.model = place, budget, sampler, model
		self.scale, self.total_mib = scale_of(place, total_mib), total_mib
		self.results, self.ratios, self.skipped, self.series = {}, {}, {}, {}

	def run(self):
		groups = groups_of(self.place, self.total_mib)
		for number, ways in enumerate(groups):
			share = self.budget.left() / (len(groups) - number)
			if self.budget.allows(f"{self.model}: {', '.join(ways)}", START_S if self.place.options.device == "cuda" else 4):
				self.run_group(ways, time.monotonic() + share)
		return self

	def run_group(self, ways, until):
		trainees = [Trainee(self.place, self.model, way, self.scale, lambda: self.budget.limit_s(120)) for way in ways]
		try:
			alive = [trainee for trainee in trainees if self.guarded(trainee, self.watch_alone)]
			self.take_turns(alive, until)
			for trainee in alive:
				self.guarded(trainee, self.finish)
		finally:
			for trainee in trainees:
				trainee.end()
		self.compare(trainees)

	def guarded(self, trainee, what):
		"""One way that fails (out of memory, a release that lacks something) does not take the others with it."""
		try:
			what(trainee)
			return True
		except places.TROUBLE as error:
			self.skipped[f"{self.model} {trainee.way}"] = str(error) or type(error).__name__
			self.budget.say(f"skipped: {self.model} {trainee.way} ({error})")
			trainee.end()
			return False

	def watch_alone(self, trainee):
		self.budget.say(f"{self.model}: {trainee.way}, alone")
		trainee.ask("", "loaded")
		start = trainee.ask("start", "start")["time"]
		trainee.ask("", "ready")
		burst = trainee.ask(f"burst {WARM_STEPS} {ALONE_STEPS if self.scale != 'small' else 2}", "burst")
		end = burst["end"]
		self.sampler.catch_up(end)
		at_start = self.sampler.free_at(start)
		trainee.figures = {
			"alone_step_ms": 1000 * burst["seconds"] / burst["steps"],
			"device_peak_mib": (at_start - self.sampler.least(start, end)) / 2**20,
			"device_end_mib": (at_start - self.sampler.free_at(end)) / 2**20}
		self.series[f"{self.model} {trainee.way}"] = {"samples": self.sampler.series(start, end), "events": {}}

	def take_turns(self, trainees, until):
		if not trainees:
			return
		step_s = min(trainee.figures["alone_step_ms"] for trainee in trainees) / 1000
		steps = max(2, min(40, round(self.place.options.burst_s / step_s)))
		first = WARM_STEPS + ALONE_STEPS
		for number in range(self.place.options.rounds):
			begin = time.monotonic()
			at = number % len(trainees)
			for trainee in trainees[at:] + trainees[:at]:
				if trainee.process.poll() is None and (trainee.way not in SLOW or number < SLOW_ROUNDS):
					self.guarded(trainee, lambda one: one.bursts.update({number: one.ask(  # pylint: disable=cell-var-from-loop
						f"burst {first + number * steps} {steps}", "burst")["seconds"] / steps}))
			took = time.monotonic() - begin
			if min(until, self.budget.part_end) - time.monotonic() < 1.3 * took + 3 * len(trainees):
				self.budget.say(f"{self.model}: {number + 1} rounds of {steps} steps in turn")
				return

	def finish(self, trainee):
		figures = trainee.figures
		figures.update({key: value for key, value in trainee.ask("figures", "figures").items() if key != "event"})
		if trainee.bursts:
			steps_ms = sorted(1000 * seconds for seconds in trainee.bursts.values())
			figures["step_ms"] = steps_ms[len(steps_ms) // 2]
		if trainee.with_shim:
			figures.update(self.after_signal(trainee.process.pid))
		self.results.setdefault(trainee.way, []).append(figures)

	def after_signal(self, pid):
		device = self.place.gpu_figures(pid)
		self.sampler.catch_up(time.monotonic())
		before = self.sampler.free_at(time.monotonic())
		os.kill(pid, signal.SIGUSR1)
		# The worker takes its turn at once; what it asks of Python, within two seconds.
		time.sleep(2.5)
		after = self.place.gpu_figures(pid)
		figures = {"given_back_mib": (self.sampler.free_at(time.monotonic()) - before) / 2**20}
		if device.get("alloc_count"):
			figures["hit_percent"] = 100 * device["hit_count"] / device["alloc_count"]
			figures["idle_after_signal_mib"] = (after["idle_bytes"] + after["pending_bytes"]) / 2**20
			figures["shim_reserved_peak_mib"] = device["reserved_peak_bytes"] / 2**20
		return figures

	def compare(self, trainees):
		base = next((trainee for trainee in trainees if trainee.way == "cache"), None)
		for trainee in trainees:
			if base and trainee is not base:
				both = sorted(set(trainee.bursts) & set(base.bursts))
				found = ratio.of([trainee.bursts[number] for number in both], [base.bursts[number] for number in both])
				if found:
					self.ratios[trainee.way] = found
