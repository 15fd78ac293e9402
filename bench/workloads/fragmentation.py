#!/usr/bin/python3
"""Fragmentation: 200 iterations of 500 bytearrays of 100, 1k, 10k or 100k bytes; 100 of each iteration are held, and
what is held is cut from 1000 to 500. Then everything is dropped. What stays resident is what the allocator hoards.

--scale N  makes, holds and keeps N times as many
--signal   then sends SIGUSR1 to itself and looks again a second later (only under the shim: else it is fatal)
--trim     then collects, calls malloc_trim(0) and looks again
--settle S then does nothing for S seconds and looks again
Prints one JSON line of figures. MiB are 1048576 bytes.
"""
import argparse
import gc
import json
import os
import random
import signal
import time

import idling
import procself

SIZES = (100, 1_000, 10_000, 100_000)


def churn(chance, scale):
	held = []
	for _ in range(200):
		made = [bytearray(chance.choice(SIZES)) for _ in range(500 * scale)]
		held.extend(chance.sample(made, 100 * scale))
		if len(held) >= 1000 * scale:
			held = chance.sample(held, 500 * scale)


def main():
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--signal", action="store_true")
	parser.add_argument("--trim", action="store_true")
	parser.add_argument("--settle", type=float, default=0.0)
	parser.add_argument("--scale", type=int, default=1)
	idling.add_option(parser)
	options = parser.parse_args()
	chance = random.Random(1)
	gc.collect()
	figures = {"start_mib": procself.rss_mib()}
	begun = time.monotonic()
	churn(chance, options.scale)
	gc.collect()
	figures["work_s"] = figures["churn_s"] = time.monotonic() - begun
	idle_since = time.monotonic()
	time.sleep(1)
	figures["dropped_mib"] = procself.rss_mib()
	if options.signal:
		os.kill(os.getpid(), signal.SIGUSR1)
		time.sleep(1)
		figures["after_signal_mib"] = procself.rss_mib()
		figures["above_start_signal_mib"] = figures["after_signal_mib"] - figures["start_mib"]
	if options.trim:
		begun = time.monotonic()
		idling.trim_by_hand()
		figures["work_s"] += time.monotonic() - begun
		figures["after_trim_mib"] = procself.rss_mib()
	if options.settle:
		time.sleep(max(0.0, options.settle - (time.monotonic() - idle_since)))
		figures["settled_mib"] = procself.rss_mib()
		figures["above_start_settled_mib"] = figures["settled_mib"] - figures["start_mib"]
	idling.go_idle(options.idle)
	figures["peak_mib"] = procself.peak_mib()
	figures["minor_faults"] = procself.minor_faults()
	print(json.dumps(figures))


if __name__ == "__main__":
	main()
