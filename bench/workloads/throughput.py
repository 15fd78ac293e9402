#!/usr/bin/python3
"""Nanoseconds to make and drop one bytearray: 100k of 256 B, 100k of 4096 B, 10k of 65536 B, the best of three.

Prints one JSON line of figures; work_s is the time of all of them, in s.
"""
import argparse
import json
import time

import idling
import procself

SHAPES = ((100_000, 256), (100_000, 4096), (10_000, 65536))


def nanoseconds(count, size):
	begun = time.perf_counter_ns()
	made = [bytearray(size) for _ in range(count)]
	del made
	return (time.perf_counter_ns() - begun) / count


def main():
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--repeat", type=int, default=3, help="times that each is done; the best one counts")
	idling.add_option(parser)
	options = parser.parse_args()
	begun = time.monotonic()
	figures = {f"ns_{size}B": min(nanoseconds(count, size) for _ in range(options.repeat)) for count, size in SHAPES}
	figures["work_s"] = time.monotonic() - begun
	idling.go_idle(options.idle)
	figures["peak_mib"] = procself.peak_mib()
	figures["minor_faults"] = procself.minor_faults()
	print(json.dumps(figures))


if __name__ == "__main__":
	main()
