"""A service that has switched the collector off "for latency", and whose handlers leave cycles: callbacks that know their owner."""
import gc

from patient import goes_on, ready


class Request:
	def __init__(self, number):
		self.body = bytes(2000)
		self.number = number
		self.on_done = lambda: self.number


gc.disable()
for number in range(20_000):
	Request(number)
ready()
while goes_on(0.05):
	for number in range(100):
		Request(number)
