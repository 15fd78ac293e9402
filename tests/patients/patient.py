"""What all sample programs in Python share: see patient.h."""
import select
import sys
import time


def ready():
	print("ready", flush=True)


def goes_on(seconds):
	"""Waits so long, in short steps as an event loop does; False once stdin has ended."""
	end = time.monotonic() + seconds
	while True:
		left = end - time.monotonic()
		if select.select([sys.stdin], [], [], min(max(left, 0), 0.05))[0]:
			return False
		if left <= 0:
			return True
