"""What mtctl says in passing, and must be true."""
import re
import subprocess

from mtctl_helpers import PYTHON, ctl, fake, plain  # noqa: F401

HOLDER = """import time
kept = [{'a': str(n)} for n in range(200000)]
print('ready', flush=True)
while True:
	time.sleep(0.01)
"""


def test_trim_says_before_it_collects_what_that_takes(ctl, mtctl, spawn, plain):
	process = spawn([mtctl, "run", "--", PYTHON, "-c", HOLDER], plain)
	assert process.stdout.readline() == "ready\n"

	first, second, purge = (ctl("trim", *words, process.pid) for words in ([], ["--dry-run"], ["--purge"]))

	assert re.search(r"none has run yet, about \d\S* ms is expected; --purge leaves it out", first.stderr), first
	assert re.search(r"the last collection took \d\S* m?s, about \d\S* m?s is expected", second.stderr), second
	assert purge.stderr == "" and "purge cleanup" in purge.stdout and " gc " not in purge.stdout
