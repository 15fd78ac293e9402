#!/usr/bin/python3
"""redis without a disk: filled with values of mixed sizes, half of it deleted at random, refilled with other sizes, most
of it deleted; then it waits for clients. redis-benchmark is the client, outside of the candidate.

Debian's redis links libjemalloc and switches its background thread on: with nothing preloaded *that* serves it, so
"glibc" means "as linked" there. --libc puts libc's malloc before it (libc.so.6 is preloaded last), which is the redis
that others build with MALLOC=libc; a candidate's own library still comes first.
"""
import glob
import os
import signal
import socket
import subprocess
import tempfile
import time

import realprog

KEYS = 350_000
FILL = [(24, 0.8), (120, 0.6), (1000, 0.3), (4000, 0.1)]     # bytes of a value, sets as a share of KEYS
REFILL = [(60, 0.5), (1300, 0.2), (9000, 0.02)]


def with_libc(variables):
	libc = (glob.glob("/lib/*/libc.so.6") + glob.glob("/lib64/libc.so.6"))[0]
	return {**variables, "LD_PRELOAD": " ".join(filter(None, [variables.get("LD_PRELOAD"), libc]))}


class Client:
	def __init__(self, path, keys):
		self.path, self.keys = path, keys

	def wait_ready(self):
		for _ in range(500):
			with socket.socket(socket.AF_UNIX) as door:
				if door.connect_ex(self.path) == 0:
					return
			time.sleep(0.02)
		raise SystemExit("redis-server did not start")

	def load(self, share, *request):
		"""Requests in a pipeline, on keys at random; share is their number as a share of the keys."""
		subprocess.run(["redis-benchmark", "-q", "-s", self.path, "-c", "16", "-P", "64", "-r", str(self.keys),
			"-n", str(max(1000, int(share * self.keys))), *request], stdout=subprocess.DEVNULL, check=True)

	def asks(self, *words):
		done = subprocess.run(["redis-cli", "-s", self.path, *words], capture_output=True, text=True, check=True)
		return dict(line.split(":", 1) for line in done.stdout.split() if ":" in line)


def work(client):
	for size, share in FILL:
		client.load(share, "-d", str(size), "-t", "set")
	client.load(0.3, "-t", "hset")
	client.load(0.3, "hset", "user:__rand_int__", "name", "somebody of __rand_int__", "seen", "__rand_int__")
	client.load(0.7, "del", "key:__rand_int__")
	for size, share in REFILL:
		client.load(share, "-d", str(size), "-t", "set")
	client.load(1.6, "del", "key:__rand_int__")
	client.load(1.6, "del", "user:__rand_int__")


def main():
	options = realprog.parse_options(__doc__, libc=False)
	realprog.require("redis-server", "redis-benchmark", "redis-cli")
	variables = realprog.candidate_variables()
	with tempfile.TemporaryDirectory(prefix="mtshim-bench-") as folder:
		path = os.path.join(folder, "socket")
		program = realprog.Program(["redis-server", "--port", "0", "--unixsocket", path, "--dir", folder, "--save", "",
			"--appendonly", "no"], env=with_libc(variables) if options.libc else variables)
		client = Client(path, max(2000, int(KEYS * options.scale)))
		client.wait_ready()
		begun = time.monotonic()
		work(client)
		work_s = time.monotonic() - begun
		realprog.lie_idle(options.idle)
		memory = client.asks("info", "memory")
		used = program.finish(signal.SIGTERM)
	realprog.print_figures(work_s=work_s, **used, live_mib=int(memory["used_memory"]) / 2**20)


if __name__ == "__main__":
	main()
