"""Training steps that need real memory, in bursts that the caller asks for.

  train.py resnet|transformer [--device cuda] [--scale small|card|full]

Says {"event": "loaded"}, waits for a line, warms up, says {"event": "ready"}, then answers lines on stdin:
  burst FROM COUNT   takes the steps of these numbers and says {"event": "burst", "begin": T, "end": T, "seconds": S, "steps": N}
  figures            {"event": "figures", ...}
and ends with stdin. What a step works on depends on its number alone: two processes that take the same steps do the same work.
It waits in short sleeps, so that what the shim asks of Python (on SIGUSR1) can run.
"""
import argparse
import dataclasses
import json
import random
import select
import sys
import time

import torch
from torch import nn


@dataclasses.dataclass
class Scale:
	batch: int      # images
	side: int
	width: int      # channels of the first stage
	blocks: int     # residual blocks in each of the four stages
	texts: int      # sequences of a batch
	length: int     # longest
	model: int      # width of the transformer
	layers: int
	words: int


SCALES = {
	"small": Scale(4, 32, 8, 1, 2, 48, 64, 1, 256),
	"card": Scale(48, 96, 48, 2, 12, 384, 512, 6, 8192),
	"full": Scale(128, 128, 64, 2, 32, 512, 768, 8, 16384),
}


class Residual(nn.Module):
	def __init__(self, before, after, stride):
		super().__init__()
		self.body = nn.Sequential(
			nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(inplace=True),
			nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after))
		self.way = nn.Identity() if stride == 1 and before == after else nn.Sequential(
			nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

	def forward(self, images):
		return torch.relu(self.body(images) + self.way(images))


def resnet(scale):
	layers, channels = [nn.Conv2d(3, scale.width, 7, 2, 3, bias=False), nn.BatchNorm2d(scale.width), nn.ReLU(inplace=True)], scale.width
	for stage in range(4):
		for number in range(scale.blocks):
			after = scale.width << stage
			layers.append(Residual(channels, after, 2 if stage and not number else 1))
			channels = after
	return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 100))


class Transformer(nn.Module):
	def __init__(self, scale):
		super().__init__()
		self.embedding = nn.Embedding(scale.words, scale.model)
		layer = nn.TransformerEncoderLayer(scale.model, scale.model // 64, 4 * scale.model, dropout=0.0, batch_first=True)
		self.encoder = nn.TransformerEncoder(layer, scale.layers)
		self.head = nn.Linear(scale.model, scale.words)

	def forward(self, tokens):
		return self.head(self.encoder(self.embedding(tokens))).flatten(0, 1)


class Training:
	def __init__(self, options):
		self.device, self.scale = torch.device(options.device), SCALES[options.scale]
		self.is_cuda, self.is_resnet = self.device.type == "cuda", options.model == "resnet"
		torch.manual_seed(1)
		self.model = (resnet(self.scale) if self.is_resnet else Transformer(self.scale)).to(self.device)
		self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
		self.loss = None

	def batch(self, number):
		# Sizes change from step to step, as they do in practice: an allocator must cope with more than one set of blocks.
		choice = random.Random(number)
		if self.is_resnet:
			count = max(1, int(self.scale.batch * choice.choice((1, 1, 1, 0.875, 0.75))))
			images = torch.randn(count, 3, self.scale.side, self.scale.side, device=self.device)
			return images, torch.randint(0, 100, (count,), device=self.device)
		length = choice.randint(self.scale.length // 8, self.scale.length)
		tokens = torch.randint(0, self.scale.words, (self.scale.texts, length), device=self.device)
		return tokens, tokens.flatten()

	def step(self, number):
		inputs, wanted = self.batch(number)
		self.optimizer.zero_grad(set_to_none=True)
		loss = nn.functional.cross_entropy(self.model(inputs), wanted)
		loss.backward()
		self.optimizer.step()
		self.loss = loss.detach()

	def burst(self, first, count):
		self.synchronize()
		begin = time.monotonic()
		for number in range(first, first + count):
			self.step(number)
		self.synchronize()
		end = time.monotonic()
		return {"event": "burst", "begin": begin, "end": end, "seconds": end - begin, "steps": count}

	def synchronize(self):
		if self.is_cuda:
			torch.cuda.synchronize()

	def figures(self):
		figures = {"event": "figures", "last_loss": float(self.loss), "torch": torch.__version__}
		if self.is_cuda:
			figures["torch_reserved_peak_mib"] = torch.cuda.max_memory_reserved() / 2**20
			figures["torch_allocated_peak_mib"] = torch.cuda.max_memory_allocated() / 2**20
		return figures


def next_line():
	while not select.select([sys.stdin], [], [], 0.02)[0]:
		pass
	return sys.stdin.readline().split()


def say(record):
	print(json.dumps(record), flush=True)


def main():
	parser = argparse.ArgumentParser()
	parser.add_argument("model", choices=["resnet", "transformer"])
	parser.add_argument("--device", default="cuda")
	parser.add_argument("--scale", choices=SCALES, default="full")
	options = parser.parse_args()
	if options.device == "cpu":
		torch.set_num_threads(1)
	# Several of these load PyTorch at the same time; what each then does to the device is watched alone.
	say({"event": "loaded", "time": time.monotonic()})
	next_line()
	say({"event": "start", "time": time.monotonic()})
	training = Training(options)
	training.burst(0, 2 if options.scale == "small" else 6)
	say({"event": "ready", "time": time.monotonic()})
	while words := next_line():
		say(training.burst(int(words[1]), int(words[2])) if words[0] == "burst" else training.figures())


main()
