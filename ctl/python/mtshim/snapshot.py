"""Turns the JSON of `mtctl snapshot` into what torch.cuda.memory._snapshot() returns, for PyTorch's memory_viz:

	mtctl snapshot PID -o pool.json && python3 -m mtshim.snapshot pool.json pool.pickle

Each block of the pool is a segment of its own, since blocks are never split. Stacks are not known: the only frame of a block
is its state in the words of mtctl.
"""
from __future__ import annotations

import json
import os
import pickle
import sys
from typing import Any, Dict, List

# PyTorch takes larger blocks from segments of their own (kSmallSize).
SMALL_BYTES = 1 << 20
STATES = {"live": "active_allocated", "exported": "active_allocated", "pending": "active_pending_free", "idle": "inactive"}


def _frames(block: Dict[str, Any]) -> List[Dict[str, Any]]:
	return [{"filename": "mtshim", "line": 0, "name": block["state"]}]


def _segment(block: Dict[str, Any]) -> Dict[str, Any]:
	"""The stream is the context: blocks of one are of no use in another."""
	address, held, asked, state = int(block["id"], 16), block["held_bytes"], block["bytes"], STATES[block["state"]]
	is_active = state != "inactive"
	return {"device": block["device"], "address": address, "total_size": held,
	        "allocated_size": held if state == "active_allocated" else 0, "active_size": held if is_active else 0,
	        "requested_size": asked if is_active else 0, "stream": block["context"],
	        "segment_type": "large" if held > SMALL_BYTES else "small", "segment_pool_id": (0, 0), "is_expandable": False,
	        "frames": _frames(block),
	        "blocks": [{"address": address, "size": held, "requested_size": asked, "state": state, "frames": _frames(block)}]}


def _trace(blocks: List[Dict[str, Any]], device: int, now_us: int) -> List[Dict[str, Any]]:
	"""The allocations of what is live, the oldest first."""
	live = [block for block in blocks if block["device"] == device and STATES[block["state"]] == "active_allocated"]
	live.sort(key=lambda block: (-block["age_ms"], int(block["id"], 16)))
	return [{"action": "alloc", "addr": int(block["id"], 16), "size": block["bytes"], "stream": block["context"],
	         "time_us": max(now_us - block["age_ms"] * 1000, 0), "frames": _frames(block)} for block in live]


def convert(snapshot: Dict[str, Any]) -> Dict[str, Any]:
	"""Takes the object of `mtctl snapshot --json`. The traces are one list a device, by its number."""
	blocks = snapshot["blocks"]
	devices = range(max((block["device"] for block in blocks), default=-1) + 1)
	return {"segments": [_segment(block) for block in blocks],
	        "device_traces": [_trace(blocks, device, snapshot["time_ns"] // 1000) for device in devices],
	        "allocator_settings": {}, "external_annotations": []}


def main() -> int:
	if len(sys.argv) != 3:
		print("usage: python3 -m mtshim.snapshot FILE.json FILE.pickle", file=sys.stderr)
		return 2
	with open(sys.argv[1], encoding="utf-8") as source:
		seen = convert(json.load(source))
	with open(os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb") as to:
		pickle.dump(seen, to, protocol=4)  # which the reader in the browser knows
	return 0


if __name__ == "__main__":
	sys.exit(main())
