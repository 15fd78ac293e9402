#!/usr/bin/python3
"""Trains a torch model of two large matrices on the CPU for some steps: blocks of 16 to 64 MB, most of them made and dropped in each step.

Prints one JSON line of figures."""
import argparse
import json
import time

import idling

WIDTH, BATCH = 2048, 2048


def main():
	parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
	parser.add_argument("--steps", type=int, default=4)
	idling.add_option(parser)
	options = parser.parse_args()
	import torch  # pylint: disable=import-outside-toplevel

	torch.set_num_threads(1)
	torch.manual_seed(1)
	nn = torch.nn
	model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH))
	optimiser = torch.optim.Adam(model.parameters())
	begun = time.monotonic()
	for _ in range(options.steps):
		optimiser.zero_grad()
		loss = model(torch.randn(BATCH, WIDTH)).square().mean()
		loss.backward()
		optimiser.step()
	work_s = time.monotonic() - begun
	idling.go_idle(options.idle)
	print(json.dumps({"work_s": round(work_s, 4), "loss": loss.item()}))


if __name__ == "__main__":
	main()
