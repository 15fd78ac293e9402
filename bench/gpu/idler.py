"""A PyTorch program that uses much device memory, then little, then nothing; it says what it does as bench/gpu/phases.c does.

  idler.py [--device cuda] [--idle 8] [--mib 2048]
"""
import argparse
import json
import os
import random
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--idle", type=float, default=8, help="seconds at the end")
parser.add_argument("--mib", type=int, default=2048, help="what it uses at its height")
options = parser.parse_args()
sizes = random.Random(1)


def event(name):
	if options.device == "cuda":
		torch.cuda.synchronize()
	print(json.dumps({"event": name, "time": time.monotonic(), "pid": os.getpid()}), flush=True)


def use(mib, seconds):
	"""Tensors of ever new sizes, a fourth of them live at a time; what is live at the end goes with the call."""
	until, live = time.monotonic() + seconds, []
	while time.monotonic() < until:
		live.append(torch.ones(int(mib * 2**18 * sizes.uniform(0.02, 0.1)), device=options.device).mul_(2))
		while sum(one.numel() for one in live) > mib * 2**18:
			del live[sizes.randrange(len(live))]


def rest(seconds):
	until = time.monotonic() + seconds
	while time.monotonic() < until:
		time.sleep(0.02)  # What the shim asks of Python runs between two bytecodes.


kept = torch.ones(options.mib << 14, device=options.device)
kept.mul_(2)
rest(0.3)
event("start")
use(options.mib, 1.5)
event("freed")
use(options.mib // 32, 1.0)
event("idle")
rest(options.idle)
event("end")
print(json.dumps({"kept_bytes": 0}))
