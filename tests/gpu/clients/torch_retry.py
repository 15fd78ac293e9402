"""Lets PyTorch meet an out-of-memory error that it overcomes with an empty cache, then one that it raises, and prints what PyTorch
and, under the shim, `mtctl stat` have counted of either."""
import json
import os
import subprocess
import time

import torch

PATIENCE_S = 6  # of the shim, for a second try: gpu/oom.h


def shim_counts():
	if "MTCTL" not in os.environ:
		return None
	text = subprocess.run([os.environ["MTCTL"], "stat", str(os.getpid()), "--json"], capture_output=True, text=True, check=True).stdout
	seen = json.loads(text)
	return {"num_alloc_retries": seen["gpu_num_alloc_retries"], "num_ooms": seen["gpu_num_ooms"]}


def torch_counts():
	stats = torch.cuda.memory_stats()
	return {"num_alloc_retries": stats["num_alloc_retries"], "num_ooms": stats["num_ooms"]}


def take(share):
	return torch.empty(int(free * share), dtype=torch.uint8, device="cuda")


torch.ones(1, device="cuda").sum().item()
free = torch.cuda.mem_get_info()[0]
cached = take(0.6)
del cached
kept = take(0.7)  # no room beside what is cached
overcome = {"torch": torch_counts(), "shim": shim_counts()}
try:
	take(0.9)
	raise SystemExit("more than the device has was handed out")
except torch.cuda.OutOfMemoryError:
	pass
time.sleep(PATIENCE_S)
print(json.dumps({"version": torch.__version__, "overcome": overcome, "raised": {"torch": torch_counts(), "shim": shim_counts()}}))
