"""The protocol of the suite's Python workloads (bench/lib/entries.py): work, the idle event, nothing for a while, figures.

No dependencies: importing it moves no memory.
"""
import ctypes
import gc
import json
import time


def add_option(parser):
	parser.add_argument("--idle", type=float, default=0.0,
		help="when the work is done, say so in a line of JSON and do nothing for this many seconds")


def go_idle(seconds):
	"""Lies idle, and tells whoever watches from when on; 0: not at all."""
	if seconds <= 0:
		return
	print(json.dumps({"event": "idle", "time": time.monotonic()}), flush=True)
	time.sleep(seconds)


def trim_by_hand():
	"""What the guides of servers and federated-learning frameworks tell people to put into their program."""
	gc.collect()
	ctypes.CDLL(None).malloc_trim(0)
