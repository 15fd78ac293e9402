"""A table of small objects in Python's own arenas that is all in use: 100 MB that no allocator keeps for itself."""
from patient import goes_on, ready

rows = [(i, float(i), str(i)) for i in range(500_000)]
ready()
at = 0
while goes_on(0.05):
	for _ in range(1000):
		at = (at + 1) % len(rows)
		rows[at] = (at, float(at) + 1, str(at))
