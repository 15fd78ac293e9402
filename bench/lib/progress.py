"""How far the suite is: one line that is written over on a terminal, else a line for each candidate that is done with a
workload. The time left is learned from the runs that were seen."""
import statistics
import sys

GUESS_S = 5.0   # before anything was seen
GAP_S = 0.1     # from one run's falling idle to the next one's start


class Progress:
	def __init__(self, jobs, idle_s, out=sys.stderr):
		self.total, self.waiting, self.idle_s, self.out = len(jobs), list(jobs), idle_s, out
		self.seen = {}   # label -> seconds until idle
		self.runs = {}   # (label, candidate) -> highest number
		for job in jobs:
			label, name, number = job.key
			self.runs[label, name] = max(number, self.runs.get((label, name), -1))

	def learn(self, label, seconds):
		self.seen.setdefault(label, []).append(seconds)

	def seconds_left(self):
		means = {label: statistics.fmean(times) for label, times in self.seen.items()}
		otherwise = statistics.fmean(means.values()) if means else GUESS_S
		return sum(means.get(job.entry.label, otherwise) + GAP_S for job in self.waiting) + self.idle_s

	def begins(self, job):
		text = f"[{self.total - len(self.waiting) + 1}/{self.total}] {self.name_of(job)}, about {minutes(self.seconds_left())} left"
		self.waiting.remove(job)
		if self.out.isatty():
			print(f"\r\033[K{text}", end="", file=self.out, flush=True)

	def name_of(self, job):
		label, name, number = job.key
		return f"{label} {name} {'first look' if number < 0 else f'run {number + 1}/{self.runs[label, name] + 1}'}"

	def ended(self, job, record):
		"""record: what came of it; failures are always shown."""
		label, name, number = job.key
		if number >= 0 and "figures" in record:
			self.learn(label, record["figures"]["run_s"])
		if "reason" in record:
			self.say(f"FAILED: {self.name_of(job)}: {record['reason']}")
		elif number == self.runs[label, name] and number >= 0 and not self.out.isatty():
			self.say(f"{label} {name}: {counted(number + 1)}, about {minutes(self.seconds_left())} left")

	def say(self, text):
		self.clear()
		print(text, file=self.out, flush=True)

	def clear(self):
		if self.out.isatty():
			print("\r\033[K", end="", file=self.out, flush=True)


def counted(runs):
	return "1 run" if runs == 1 else f"{runs} runs"


def minutes(seconds):
	return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
