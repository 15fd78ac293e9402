#!/usr/bin/python3
"""What the library costs a program that ends at once: instructions, CPU time, page faults, peak memory, under each allocator.

  bench/costs/small_processes.py [--build DIR] [--runs N] [--instructions] [--only NAME;...] [--programs NAME,...] [--peer NAME=FILE] [--json FILE]

bench/costs/measure.py says what is measured. CPU time is that of 50 processes, one after another; of the loop, which starts 500
itself, of one. "empty" is a library with nothing in it: less than that no preloaded library costs.
"""
import subprocess
import tempfile

import measure

REPEAT = {"repeat": 50}
LOOP = "for i in $(seq 250); do /bin/true; /usr/bin/expr $i + 1 > /dev/null; done"
PROGRAMS = {
	"true": (["/bin/true"], REPEAT),
	"sh": (["/bin/sh", "-c", ":"], REPEAT),
	"git version": (["git", "version"], REPEAT),
	"perl -e 1": (["perl", "-e", "1"], REPEAT),
	"500 processes": (["/bin/bash", "-c", LOOP], {"instructions": False}),  # callgrind does not follow the loop's children
}


def main():
	options = measure.parser_of(__doc__).parse_args()
	with tempfile.TemporaryDirectory() as folder:
		empty = f"{folder}/empty.so"
		subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", empty], check=True)
		options.peer.append(f"empty={empty}")
		measure.compare(options, measure.peers_and_shim(options), PROGRAMS)


if __name__ == "__main__":
	main()
