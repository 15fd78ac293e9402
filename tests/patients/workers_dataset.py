"""A DataLoader in small: the dataset is a list of Python objects, and each worker that only reads it writes its reference counts."""
import multiprocessing
import os
import time

from patient import goes_on, ready

dataset = [{"id": i, "label": float(i)} for i in range(250_000)]


def load(done):
	parent = os.getppid()
	for item in dataset:
		item["label"]
	done.release()
	while os.getppid() == parent:
		dataset[int(time.monotonic() * 1000) % len(dataset)]["label"]
		time.sleep(0.05)


if __name__ == "__main__":
	fork = multiprocessing.get_context("fork")
	done = fork.Semaphore(0)
	workers = [fork.Process(target=load, args=(done,), daemon=True) for _ in range(3)]
	for worker in workers:
		worker.start()
	for _ in workers:
		done.acquire()
	ready()
	while goes_on(0.2):
		pass
	for worker in workers:
		worker.kill()
