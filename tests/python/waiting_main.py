"""A server whose work is done by a pool of 8 threads, and whose main thread waits. Its threads leave garbage in cycles, for which it
never collects by itself.

  waiting_main.py WAY [PREPARE]    WAY: how the main thread waits. PREPARE: code that runs before the garbage is made
"""
import concurrent.futures
import gc
import select
import signal
import sys
import threading
import time

gc.set_threshold(10 ** 9)


class Node:
	dead = 0
	threads = set()

	def __init__(self, load=None):
		self.itself = self
		self.load = load or bytearray(2000)

	def __del__(self):
		Node.dead += 1
		Node.threads.add(threading.get_ident())


def make_garbage(_):
	for _ in range(3000):
		Node()


def naps():
	while True:
		time.sleep(0.3)


def join():
	thread = threading.Thread(target=threading.Event().wait)
	thread.start()
	thread.join()


def lock():
	one = threading.Lock()
	one.acquire()
	one.acquire()


WAYS = {"join": join, "sleep": lambda: time.sleep(1000), "pause": signal.pause, "lock": lock,
        "select": lambda: select.select([], [], []), "naps": naps, "input": sys.stdin.read}


def answer():
	"""A thread that tells what the finalizers have seen."""
	for _ in iter(sys.stdin.readline, ""):
		print(Node.dead, threading.main_thread().ident in Node.threads, flush=True)


def main():
	exec(sys.argv[2] if len(sys.argv) > 2 else "", globals())
	pool = concurrent.futures.ThreadPoolExecutor(8)
	list(pool.map(make_garbage, range(8)))
	if sys.argv[1] != "input":
		threading.Thread(target=answer, daemon=True).start()
	print("ready", flush=True)
	WAYS.get(sys.argv[1], lambda: exec(sys.argv[1], globals()))()
	print("done", flush=True)


main()
