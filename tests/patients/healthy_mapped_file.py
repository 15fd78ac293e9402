"""A model in a file of 120 MB, mapped and read from: resident, and nobody's to give back but the kernel's."""
import mmap
import pathlib
import sys

from patient import goes_on, ready

file = pathlib.Path(sys.argv[1]) / "model"
with open(file, "wb") as out:
	for _ in range(120):
		out.write(b"m" * (1 << 20))
with open(file, "rb") as data:
	model = mmap.mmap(data.fileno(), 0, access=mmap.ACCESS_READ)
state = bytearray(b"s") * (20 << 20)
sum(model[at] for at in range(0, len(model), 4096))
ready()
while goes_on(0.05):
	sum(model[at] for at in range(0, len(model), 1 << 20))
