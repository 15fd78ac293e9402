"""Takes memory in one way, at so many MB a second, until the kernel ends it: black_box.py WAY MB_A_SECOND [MB to stop at].

With a third word it stops there, says "full", and does what each line of stdin asks for: "free" gives all back, "fork" runs
a child to its end, "_exit" ends it without exit handlers.
"""
import mmap
import os
import sys
import threading
import time

MB = 1 << 20
PARTS = 100  # of a second
held = []


def lists(count):
	held.append([float(i) + 0.5 for i in range(count // 32)])  # line: lists


def strings(count):
	held.append(b"x" * count)  # line: strings


def numpy(count):
	import numpy
	held.append(numpy.arange(count // 8))  # line: numpy


def thread(count):
	worker = threading.Thread(target=lambda: held.append(bytearray(count)))  # line: thread
	worker.start()
	worker.join()


def mapped(count):
	area = mmap.mmap(-1, count, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
	for at in range(0, count, 4096):
		area[at] = 1
	held.append(area)


def shared(count):
	area = mmap.mmap(-1, count)
	for at in range(0, count, 4096):
		area[at] = 1
	held.append(area)


def tensors(count):
	import torch
	held.append(torch.ones(count // 4))  # line: tensors


def loader(count):
	"""A dataset that keeps what it reads, in the workers of a DataLoader."""
	import torch.utils.data

	class Kept(torch.utils.data.Dataset):
		def __len__(self):
			return 1 << 30

		def __getitem__(self, index):
			held.append(torch.ones(count // 4))  # line: loader
			time.sleep(1 / PARTS)
			return torch.tensor(index)

	for _ in torch.utils.data.DataLoader(Kept(), num_workers=1):
		pass


def main():
	take, rate = globals()[sys.argv[1]], float(sys.argv[2])
	most = float(sys.argv[3]) if len(sys.argv) > 3 else float("inf")
	# What a program of some size has: below MT_MIN_MB nothing watches.
	base = [bytes(3000) for _ in range(8000)]
	began, turns = time.monotonic(), 0
	while turns * rate / PARTS < most:
		turns += 1
		take(max(int(rate / PARTS * MB), 4096))
		time.sleep(max(began + turns / PARTS - time.monotonic(), 0))
	print("full", flush=True)
	for line in sys.stdin:
		if line == "free\n":
			held.clear()
			print("freed", flush=True)
		elif line == "fork\n":
			child = os.fork()
			if not child:
				os._exit(0)
			os.waitpid(child, 0)
			print("forked", flush=True)
		elif line == "_exit\n":
			os._exit(0)
	del base


main()
