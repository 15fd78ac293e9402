"""Shared by the tests of framework caches: a Python program that runs lines of stdin. It replies to each with the functions of the
frameworks that have been called in it."""
import json

PYTHON = "/usr/bin/python3"

# PRELUDE defines calls(), which makes the reply.
PROGRAM = r'''
import json, sys, time
PRELUDE
def nap(seconds):
    # Pending calls run between bytecodes of the main thread, so it must run some.
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.005)
print("ready", flush=True)
for line in sys.stdin:
    try:
        exec(line)
    except BaseException as error:
        print(json.dumps(repr(error)), flush=True)
    else:
        print(json.dumps(calls()), flush=True)
'''


def program(prelude):
	return PROGRAM.replace("PRELUDE", prelude.strip("\n"))


class Actor:
	def __init__(self, process):
		self.process = process
		self.pid = process.pid
		assert process.stdout.readline() == "ready\n", process.stderr.read()

	def tell(self, line):
		self.begin(line)
		return self.end()

	def begin(self, line):
		self.process.stdin.write(line + "\n")
		self.process.stdin.flush()

	def end(self):
		return json.loads(self.process.stdout.readline())


def records(stats, one, settings, reason):
	return [record for record in stats(one.pid, settings)["records"] if record["reason"] == reason]
