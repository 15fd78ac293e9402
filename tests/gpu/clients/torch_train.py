"""Trains a small network from a fixed seed, on a GPU with or without CUDA graphs, and prints its losses as JSON.

  torch_train.py [--device cuda] [--steps 30] [--graph] [--signal]

--graph captures a whole training step and replays it; --signal raises SIGUSR1 in the middle of the run (with --graph:
also during the capture), which only a preloaded shim survives.
"""
import argparse
import os
import signal
import time

import torch

from client import finish

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--graph", action="store_true")
parser.add_argument("--signal", action="store_true")
options = parser.parse_args()

torch.manual_seed(1)
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = False
torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
device = torch.device(options.device)
model = torch.nn.Sequential(
	torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
	torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(),
	torch.nn.Linear(32 * 16 * 16, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
criterion = torch.nn.CrossEntropyLoss()
images = torch.randn(64, 3, 32, 32).to(device)
labels = torch.randint(0, 10, (64,)).to(device)


def step():
	optimizer.zero_grad(set_to_none=not options.graph)
	loss = criterion(model(images), labels)
	loss.backward()
	optimizer.step()
	return loss


def interrupt():
	if options.signal:
		os.kill(os.getpid(), signal.SIGUSR1)
		for _ in range(20):  # what the shim asks Python to do runs between two bytecodes
			time.sleep(0.05)


def train_eagerly():
	losses = []
	for number in range(options.steps):
		losses.append(step().item())
		# Sizes that change from step to step keep an allocator busy.
		scratch = [torch.ones(1000 * (number + 1) * (i + 1), device=device) for i in range(8)]
		assert sum(float(one.sum()) for one in scratch) == 1000.0 * (number + 1) * 36
		del scratch
		if number == options.steps // 2:
			interrupt()
	return losses


def train_by_graph():
	side = torch.cuda.Stream()
	side.wait_stream(torch.cuda.current_stream())
	with torch.cuda.stream(side):
		for _ in range(3):
			step()
	torch.cuda.current_stream().wait_stream(side)
	graph = torch.cuda.CUDAGraph()
	with torch.cuda.graph(graph):
		loss = step()
		interrupt()
	losses = []
	for number in range(options.steps):
		graph.replay()
		losses.append(loss.item())
		if number == options.steps // 2:
			interrupt()
	return losses


losses = train_by_graph() if options.graph else train_eagerly()
assert losses[-1] < losses[0], losses
if options.device.startswith("cuda"):
	torch.cuda.synchronize()
finish(torch=torch.__version__, results=losses)
