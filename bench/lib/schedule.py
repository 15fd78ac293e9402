"""Runs jobs one after the other, each while those before it still lie idle: they need no CPU, and waiting for each would
take most of the time. Never are two at work at once."""
import selectors
import time

from lib import processes
from lib.monitor import SAMPLE_S

KEEP_FREE_MIB = 6 * 1024


class Schedule:
	"""start(job) answers a monitor; done(record, job) takes what came of it."""
	def __init__(self, jobs, start, done, begins=lambda job: None, huge_pages=None):
		self.huge_pages = huge_pages   # proof.HugePages, for rows that ask for a setting
		self.waiting, self.running = list(jobs), []
		self.start, self.done, self.begins = start, done, begins
		self.selector = selectors.DefaultSelector()

	def may_start(self):
		if not self.waiting or any(monitor.is_active for monitor in self.running):
			return False
		return not self.running or processes.available_mib() >= KEEP_FREE_MIB

	def run(self):
		try:
			while self.waiting or self.running:
				if self.may_start():
					self.begin(self.waiting.pop(0))
				self.listen()
				for monitor in list(self.running):
					self.look_after(monitor)
				if self.huge_pages and not any(monitor.is_active for monitor in self.running):
					self.huge_pages.become("")
		finally:
			for monitor in self.running:
				monitor.kill()
			self.selector.close()

	def begin(self, job):
		self.begins(job)
		if self.huge_pages:
			self.huge_pages.become(job.entry.huge_pages)
		monitor = self.start(job)
		self.running.append(monitor)
		self.selector.register(monitor, selectors.EVENT_READ)

	def listen(self):
		for key, _ in self.selector.select(timeout=SAMPLE_S / 2):
			if key.fileobj.read() == b"":
				self.selector.unregister(key.fileobj)

	def look_after(self, monitor):
		monitor.tick(time.monotonic())
		if not monitor.has_ended:
			return
		if monitor in self.selector.get_map():
			self.selector.unregister(monitor)
		self.running.remove(monitor)
		self.done(monitor.result(), monitor.job)
