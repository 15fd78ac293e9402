"""Shared by the tests of memory pressure."""
import re

import pytest

import leftovers
import memory_group

PYTHON = "/usr/bin/python3"
MB = 1 << 20
# Only pressure cleans up, so it is the reason of each returned byte.
ONLY_PRESSURE = {"MIN_MB": 0, "BUDGET_PCT": 0}


def rss_kb(pid, name="RssAnon"):
	with open(f"/proc/{pid}/status") as status:
		return int(re.search(rf"^{name}:\s+(\d+)", status.read(), re.MULTILINE)[1])


def fragment(actor, mb=100):
	"""Allocates so many MB in blocks of 5 kB, and frees all but each hundredth."""
	count = mb * MB // 5000
	assert actor.number(f"alloc {count} 5000 5000") == count
	actor.number("keep 100")


@pytest.fixture
def limited():
	"""limited(MB): a group with this limit; removed with all that is in it."""
	made = []

	def make(mb):
		try:
			made.append(memory_group.MemoryGroup(f"{leftovers.prefix()}{len(made)}", mb * MB))
		except memory_group.CannotMake as error:
			pytest.skip(str(error))
		return made[-1]
	yield make
	for group in made:
		group.remove()
