"""What all clients end with."""
import json
import os
import select
import sys


def finish(**figures):
	"""Prints them as the last line. With HOLD in the environment it waits for the end of stdin, so that the caller can look at the process
	and have it cleaned up: in short sleeps, as what the shim asks Python to do runs between two bytecodes."""
	print(json.dumps(figures), flush=True)
	while "HOLD" in os.environ and not select.select([sys.stdin], [], [], 0.02)[0]:
		pass
