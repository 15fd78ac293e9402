#!/usr/bin/python3
"""NumPy arrays of 5 to 24 MB, for which NumPy asks for huge pages, and small ones that come to lie between them; a few are kept.

Prints one JSON line of figures."""
import argparse
import json
import time

import idling

ROUNDS, LARGE, SMALL, KEPT = 6, 20, 4500, 60


def main():
	parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
	parser.add_argument("--rounds", type=int, default=ROUNDS)
	idling.add_option(parser)
	options = parser.parse_args()
	import numpy  # pylint: disable=import-outside-toplevel

	begun, random, kept, total = time.monotonic(), numpy.random.default_rng(1), [], 0.0
	for _ in range(options.rounds):
		arrays = [numpy.ones(int(random.integers(600_000, 3_000_000))) for _ in range(LARGE)]
		total += sum(float(array.sum()) for array in arrays)
		small = [numpy.ones(int(random.integers(60, 20_000))) for _ in range(SMALL)]
		del arrays
		kept.append(small[::KEPT])
		del small
	work_s = time.monotonic() - begun
	idling.go_idle(options.idle)
	print(json.dumps({"work_s": round(work_s, 4), "kept": sum(map(len, kept)), "total": total}))


if __name__ == "__main__":
	main()
