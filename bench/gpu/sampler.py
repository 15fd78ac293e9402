"""The second process: what it sees free on the device, over time."""
import bisect
import subprocess
import threading
import time

MOST_SAMPLES = 300


class Sampler:
	def __init__(self, place, every_ms=2):
		self.samples = []  # (CLOCK_MONOTONIC in s, free bytes); only the reader appends
		self.process = subprocess.Popen([place.phases, "sample", str(every_ms)], env=place.env("bare"), text=True,
		                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
		self.reader = threading.Thread(target=self._read, daemon=True)
		self.reader.start()
		try:
			self.catch_up(time.monotonic(), 60)
		except RuntimeError:
			self.process.kill()  # nobody else would: there is no `with` yet
			self.process.wait()
			raise

	def _read(self):
		for line in self.process.stdout:
			seconds, _, free = line.partition(" ")
			if free.strip().isdigit():
				self.samples.append((float(seconds), int(free)))

	def catch_up(self, moment, limit_s=5):
		"""Until it has looked at the device after this moment."""
		until = time.monotonic() + limit_s
		while not self.samples or self.samples[-1][0] < moment:
			if time.monotonic() > until or self.process.poll() is not None:
				raise RuntimeError("the process that looks at the device does not answer")
			time.sleep(0.01)

	def __enter__(self):
		return self

	def __exit__(self, *_):
		self.process.stdin.close()
		try:
			self.process.wait(timeout=20)
		except subprocess.TimeoutExpired:
			self.process.kill()
			self.process.wait()

	def free_at(self, moment):
		"""As of the last look before it."""
		return self.samples[max(0, bisect.bisect_right(self.samples, (moment, float("inf"))) - 1)][1]

	def between(self, begin, end):
		low, high = bisect.bisect_left(self.samples, (begin, 0)), bisect.bisect_right(self.samples, (end, float("inf")))
		return self.samples[low:high]

	def least(self, begin, end):
		return min([self.free_at(begin)] + [free for _, free in self.between(begin, end)])

	def reaches(self, level, begin, end):
		"""Seconds after begin at which so much is free, and stays free until the end; None where it does not come to that."""
		found = None
		for moment, free in self.between(begin, end):
			if free < level:
				found = None
			elif found is None:
				found = moment - begin
		return found

	def series(self, begin, end):
		"""[[s after begin, MiB free]], the least of each of at most 300 stretches of time."""
		stretch = max((end - begin) / MOST_SAMPLES, 1e-3)
		least = {0: self.free_at(begin)}
		for moment, free in self.between(begin, end):
			number = int((moment - begin) / stretch)
			least[number] = min(free, least.get(number, free))
		return [[round(number * stretch, 3), round(free / 2**20, 1)] for number, free in sorted(least.items())]
