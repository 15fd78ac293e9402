"""What the tests of memory pressure share."""
import re

PYTHON = "/usr/bin/python3"
MB = 1 << 20
# Nothing but pressure cleans up: whatever goes back went back because of it.
ONLY_PRESSURE = {"MIN_MB": 0, "BUDGET_PCT": 0}


def rss_kb(pid, name="RssAnon"):
	with open(f"/proc/{pid}/status") as status:
		return int(re.search(rf"^{name}:\s+(\d+)", status.read(), re.MULTILINE)[1])


def fragment(actor, mb=100):
	"""So many MB of 5 kB blocks, of which one in a hundred stays."""
	count = mb * MB // 5000
	assert actor.number(f"alloc {count} 5000 5000") == count
	actor.number("keep 100")
