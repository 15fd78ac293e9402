"""A table of 150 MB of small objects was built and dropped, but for one row in some thousands that a cache still holds: each pins
an arena of Python's own allocator."""
from patient import goes_on, ready

rows = [(i, float(i), str(i)) for i in range(1_000_000)]
recent = rows[::3000]
del rows
ready()
while goes_on(0.2):
	sum(row[0] for row in recent)
