"""A container that writes checkpoints and reads its data set again and again: 150 MB of file pages are charged to it, and its own
memory is small. Its files lie in the directory that it is given."""
import os
import pathlib
import sys

from patient import goes_on, ready

place = pathlib.Path(sys.argv[1])
state = bytearray(b"s") * (20 << 20)
files = [place / f"shard{number}" for number in range(5)]
for file in files:
	with open(file, "wb") as out:
		for _ in range(30):
			out.write(b"d" * (1 << 20))
		out.flush()
		os.fdatasync(out.fileno())
ready()
while goes_on(0.2):
	for file in files:
		with open(file, "rb") as data:
			data.seek(10 << 20)
			data.read(1 << 20)
