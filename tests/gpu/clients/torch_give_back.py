"""Leaves idle device memory behind, raises SIGUSR1, and prints how much of it the device has free before and after.

  torch_give_back.py [--mib 2048]

The device's figure is NVML's through nvidia-smi where that is there (the driver as another process sees it), read by
the caller at the words `idle` and `done` on stdout; each is answered by a line on stdin.
"""
import argparse
import json
import os
import signal
import sys
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--mib", type=int, default=2048)
options = parser.parse_args()


def tell(word):
	print(word, flush=True)
	sys.stdin.readline()


torch.ones(1, device="cuda").sum().item()
tell("begin")
blocks = [torch.ones(options.mib * 1024 * 1024 // 16 // 4, device="cuda") for _ in range(16)]
assert all(float(block[0]) == 1 for block in blocks)
keep = blocks[3].clone()
del blocks
torch.cuda.synchronize()
tell("idle")
os.kill(os.getpid(), signal.SIGUSR1)
for _ in range(80):  # short sleeps: what the shim asks Python to do runs between two bytecodes of the main thread
	time.sleep(0.05)
tell("done")
assert float(keep.sum()) == keep.numel(), "a live tensor has changed"
print(json.dumps({"torch": torch.__version__, "reserved_bytes": torch.cuda.memory_reserved()}))
