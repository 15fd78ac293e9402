"""Training fed by six loader processes, each with a buffer of its own of what it has decoded: the tree is what is large."""
import multiprocessing
import os
import time

from patient import goes_on, ready


def load(done):
	parent = os.getppid()
	buffers = [bytearray(b"i") * (1 << 20) for _ in range(30)]
	done.release()
	step = 0
	while os.getppid() == parent:
		step += 1
		buffers[step % len(buffers)] = bytearray(b"j") * (1 << 20)
		time.sleep(0.05)


if __name__ == "__main__":
	fork = multiprocessing.get_context("fork")
	done = fork.Semaphore(0)
	loaders = [fork.Process(target=load, args=(done,), daemon=True) for _ in range(6)]
	for loader in loaders:
		loader.start()
	for _ in loaders:
		done.acquire()
	state = bytearray(b"s") * (20 << 20)
	ready()
	while goes_on(0.2):
		pass
	for loader in loaders:
		loader.kill()
