"""The time that a run of the suite may take, shared out among its parts; what there is no time for is cut by name."""
import sys
import time


class Budget:
	def __init__(self, seconds, weights):
		"""weights: part -> its share. What a part leaves over goes to those after it."""
		self.begin = time.monotonic()
		self.end = self.begin + seconds
		self.weights = dict(weights)
		self.cuts = []
		self.part, self.part_end = "", self.end

	def start(self, part):
		"""Parts come in the order of the weights."""
		left = max(0.0, self.end - time.monotonic())
		share = self.weights.pop(part)
		self.part, self.part_end = part, time.monotonic() + left * share / (share + sum(self.weights.values()))

	def left(self):
		return self.part_end - time.monotonic()

	def left_of_all(self):
		return self.end - time.monotonic()

	def limit_s(self, most):
		"""For a process that may hang: the whole suite ends in time all the same."""
		return max(5.0, min(most, self.left_of_all() + 10))

	def allows(self, what, seconds):
		"""Whether there is time for what is expected to take so long; if not, that is remembered."""
		if self.left() >= seconds:
			self.say(what)
			return True
		if what not in self.cuts:
			self.cuts.append(what)
			self.say(f"cut: {what} (wants {seconds:.0f} s)")
		return False

	def say(self, what):
		print(f"[{time.monotonic() - self.begin:4.0f} s, {max(0.0, self.left_of_all()):4.0f} s left] {what}", file=sys.stderr, flush=True)
