#!/usr/bin/python3
"""Nanoseconds to make and drop one bytearray: 100k of 256 B, 100k of 4096 B, 10k of 65536 B, the best of three."""
import json
import time

import procself

SHAPES = ((100_000, 256), (100_000, 4096), (10_000, 65536))


def nanoseconds(count, size):
	begun = time.perf_counter_ns()
	made = [bytearray(size) for _ in range(count)]
	del made
	return (time.perf_counter_ns() - begun) / count


def main():
	figures = {f"ns_{size}B": min(nanoseconds(count, size) for _ in range(3)) for count, size in SHAPES}
	figures["peak_mib"] = procself.peak_mib()
	print(json.dumps(figures))


if __name__ == "__main__":
	main()
