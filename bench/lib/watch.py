"""Runs a workload and watches its resident memory from outside, ten times a second, together with what it says."""
import dataclasses
import json
import signal
import subprocess
import threading
import time

from lib import execute, processes

SAMPLES_A_SECOND = 10


@dataclasses.dataclass
class Watched:
	"""One run. Times are seconds since the program was started."""
	samples: list = dataclasses.field(default_factory=list)   # (time, RSS in MiB)
	events: list = dataclasses.field(default_factory=list)    # what the workload said, as it said it
	signals: list = dataclasses.field(default_factory=list)   # times at which a signal was sent
	figures: dict = dataclasses.field(default_factory=dict)   # its last line

	def rss_at(self, moment):
		"""The sample nearest to a moment."""
		return min(self.samples, key=lambda sample: abs(sample[0] - moment))[1]


def sample_until(process, run, begun, over):
	while not over.is_set():
		try:
			rss = processes.rss_mib(process.pid)
		except (OSError, IndexError):
			return
		if rss:
			run.samples.append((time.monotonic() - begun, rss))
		over.wait(1 / SAMPLES_A_SECOND)


def is_shimmed(pid):
	"""Whether the shim is mapped into a process: SIGUSR1 kills a program that has neither it nor a handler."""
	with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as maps:
		return any("libmtshim" in line for line in maps)


def watch(command, candidate, on_event):
	"""on_event(event, send) is called for each line the workload prints while it runs; send() sends it SIGUSR1,
	if the shim is there to take it, and says whether it did."""
	run, over, begun = Watched(), threading.Event(), time.monotonic()
	process = subprocess.Popen(command, env=execute.environment_of(candidate), stdout=subprocess.PIPE, text=True)

	def send():
		if not is_shimmed(process.pid):
			return False
		run.signals.append(time.monotonic() - begun)
		process.send_signal(signal.SIGUSR1)
		return True

	sampler = threading.Thread(target=sample_until, args=(process, run, begun, over))
	sampler.start()
	try:
		for line in process.stdout:
			said = json.loads(line)
			if "event" not in said:
				run.figures = said
				continue
			run.events.append({**said, "time": said["time"] - begun})
			on_event(said, send)
		process.wait()
	finally:
		over.set()
		sampler.join()
		if process.poll() is None:
			process.kill()
			process.wait()
	if process.returncode != 0 or not run.figures:
		raise RuntimeError(f"{candidate.name}: the workload ended with {process.returncode}")
	return run
