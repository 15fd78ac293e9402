"""A training loop that needs real memory, timed; one JSON object on the last line.

  train.py convnet|transformer [--steps 60] [--device cuda] [--scale 1.0]

Says `begin` before and `end` after the timed steps, each answered by a line on stdin, so that the caller can look at the
device; and waits at the end in short sleeps, so that what the shim asks Python to do on SIGUSR1 can run.
"""
import argparse
import json
import select
import sys
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("model", choices=["convnet", "transformer"])
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--warm", type=int, default=8)
parser.add_argument("--device", default="cuda")
parser.add_argument("--scale", type=float, default=1.0, help="of batch and width; small for a look without a GPU")
options = parser.parse_args()
device = torch.device(options.device)
is_cuda = device.type == "cuda"


def scaled(number):
	return max(1, int(number * options.scale))


def convnet():
	layers, channels = [], 3
	for width in (64, 128, 256, 512):
		width = scaled(width)
		for _ in range(2):
			layers += [torch.nn.Conv2d(channels, width, 3, padding=1), torch.nn.BatchNorm2d(width), torch.nn.ReLU()]
			channels = width
		layers.append(torch.nn.MaxPool2d(2))
	layers += [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(channels, 100)]
	return torch.nn.Sequential(*layers)


def convnet_batch(number):
	# Sizes change from step to step, as they do in practice: an allocator must cope with more than one set of blocks.
	batch, side = scaled((128, 112, 128, 96)[number % 4]), 96
	return torch.randn(batch, 3, side, side, device=device), torch.randint(0, 100, (batch,), device=device)


class Transformer(torch.nn.Module):
	def __init__(self):
		super().__init__()
		width = 64 * scaled(12)
		self.embedding = torch.nn.Embedding(8192, width)
		layer = torch.nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout=0.0, batch_first=True)
		self.encoder = torch.nn.TransformerEncoder(layer, scaled(8))
		self.head = torch.nn.Linear(width, 8192)

	def forward(self, tokens):
		return self.head(self.encoder(self.embedding(tokens))).flatten(0, 1)


def transformer_batch(number):
	length = scaled((512, 384, 512, 448)[number % 4])
	tokens = torch.randint(0, 8192, (scaled(16), length), device=device)
	return tokens, tokens.flatten()


def wait_for_line():
	while not select.select([sys.stdin], [], [], 0.02)[0]:
		pass
	sys.stdin.readline()


def synchronize():
	if is_cuda:
		torch.cuda.synchronize()


torch.manual_seed(1)
model, batch = (convnet(), convnet_batch) if options.model == "convnet" else (Transformer(), transformer_batch)
model.to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
criterion = torch.nn.CrossEntropyLoss()


def step(number):
	inputs, wanted = batch(number)
	optimizer.zero_grad(set_to_none=True)
	loss = criterion(model(inputs), wanted)
	loss.backward()
	optimizer.step()
	return loss


for number in range(options.warm):
	step(number)
synchronize()
print("begin", flush=True)
wait_for_line()
begin = time.perf_counter()
for number in range(options.steps):
	loss = step(number)
synchronize()
seconds = time.perf_counter() - begin
print("end", flush=True)
wait_for_line()
figures = {"train_s": seconds, "step_ms": 1000 * seconds / options.steps, "last_loss": float(loss), "torch": torch.__version__}
if is_cuda:
	figures["torch_reserved_peak_mib"] = torch.cuda.max_memory_reserved() / 2**20
	figures["torch_allocated_peak_mib"] = torch.cuda.max_memory_allocated() / 2**20
print(json.dumps(figures))
