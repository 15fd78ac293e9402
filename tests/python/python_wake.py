"""Asks for collections from a thread of which Python knows nothing, while its main thread does what programs do. Needs nothing
but the shim and any CPython, so that it can be run with those of other systems:

  LD_PRELOAD=build/libmtshim.so python3 tests/python/python_wake.py busy       the ms until each of 20 has run in a loop
  LD_PRELOAD=build/libmtshim.so python3 tests/python/python_wake.py storm 10   that many seconds of everything at once
"""
import ctypes
import gc
import os
import random
import signal
import sys
import threading
import time

# Keeps the interpreter's lock in calls, which would have the interpreter look at its pending calls when it takes it again.
libc = ctypes.PyDLL(None)
collections = []


def trim_elsewhere():
	"""A thread of C's own, whose start routine is mt_trim and whose argument is its level: a light cleanup."""
	thread = ctypes.c_ulong()
	assert libc.pthread_create(ctypes.byref(thread), None, libc.mt_trim, ctypes.c_void_p(1)) == 0
	libc.pthread_detach(thread)


def busy(count):
	"""In a loop that does nothing else, and never waits."""
	for _ in range(count):
		collections.clear()
		began = time.perf_counter()
		trim_elsewhere()
		while not collections and time.perf_counter() - began < 3:
			pass
		print(f"{(time.perf_counter() - began) * 1000:.1f}" if collections else "never", flush=True)
		while gc.isenabled() and time.perf_counter() - began < 0.05:  # who asked takes the answer
			pass


def spin(seconds=0.002):
	end = time.perf_counter() + seconds
	while time.perf_counter() < end:
		pass


def fork():
	pid = os.fork()
	if pid == 0:
		trim_elsewhere()
		spin()
		if random.random() < 0.5:
			sys.exit(0)
		os._exit(0)
	assert os.waitpid(pid, 0)[1] == 0


def run_threads():
	threads = [threading.Thread(target=spin) for _ in range(3)]
	for thread in threads:
		thread.start()
	for thread in threads:
		thread.join()


def pipe():
	data = os.urandom(200_000)
	read, write = os.pipe()

	def write_all():
		sent = 0
		while sent < len(data):  # a signal may cut one short
			sent += os.write(write, data[sent:sent + 5000])

	thread = threading.Thread(target=write_all)
	thread.start()
	got = b""
	while len(got) < len(data):
		got += os.read(read, 7000)
	thread.join()
	os.close(read)
	os.close(write)
	assert got == data


def garbage():
	for _ in range(1000):
		one = [None]
		one[0] = one


def storm(seconds):
	hits = []
	signal.signal(signal.SIGALRM, lambda *_: hits.append(1))
	signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)
	deeds = [spin, fork, run_threads, pipe, garbage, lambda: time.sleep(0.003), lambda: sum(range(50_000))]
	requests = 0
	end = time.monotonic() + seconds
	while time.monotonic() < end:
		trim_elsewhere()
		requests += 1
		random.choice(deeds)()
	assert hits
	signal.setitimer(signal.ITIMER_REAL, 0)
	print("asked", requests, "collected", len(collections), flush=True)
	trim_elsewhere()  # and ends with it


def main():
	gc.set_threshold(10 ** 9)
	gc.callbacks.append(lambda phase, info: collections.append(phase) if phase == "stop" else None)
	if sys.argv[1] == "busy":
		busy(20)
	else:
		storm(float(sys.argv[2]))


main()
