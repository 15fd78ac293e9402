"""Leaves page-locked host memory in PyTorch's cache, has `mtctl trim` clean this process up, and prints what its record tells."""
import json
import os
import subprocess
import time

import torch

MIB = 256
mtctl = os.environ["MTCTL"]
torch.ones(1, device="cuda").sum().item()
blocks = [torch.ones(MIB // 4 << 20, dtype=torch.uint8, pin_memory=True) for _ in range(4)]
on_device = [block.to("cuda", non_blocking=True) for block in blocks]
torch.cuda.synchronize()
del blocks
with subprocess.Popen([mtctl, "trim", str(os.getpid())], stdout=subprocess.DEVNULL) as trim:
	while trim.poll() is None:  # what the shim asks Python to do runs between two bytecodes of the main thread
		time.sleep(0.01)
seen = json.loads(subprocess.run([mtctl, "stat", str(os.getpid()), "--json"], capture_output=True, text=True, check=True).stdout)
record = [one for one in seen["records"] if one["reason"] == "request"][-1]
assert all(int(one.sum()) == one.numel() for one in on_device), "a live tensor has changed"
has_name = hasattr(getattr(torch, "accelerator", None), "empty_host_cache") or hasattr(torch._C, "_host_emptyCache")
print(json.dumps({"torch": torch.__version__, "can_release": has_name, "mib": MIB, "before": record["pinned_before_bytes"],
                  "after": record["pinned_after_bytes"]}))
