#!/usr/bin/python3
"""redis over libc's malloc, and redis-benchmark's own tests against it: set, get, lpush, lrange, hset, zadd, mset with 50 clients. The
client is outside of the candidate. Then all keys are deleted, and the server waits for clients.
"""
import os
import signal
import subprocess
import tempfile
import time

import real_redis
import realprog

TESTS = "set,get,incr,lpush,rpush,lpop,sadd,hset,zadd,lrange_100,mset"


def main():
	options = realprog.parse_options(__doc__)
	realprog.require("redis-server", "redis-benchmark", "redis-cli")
	with tempfile.TemporaryDirectory(prefix="mtshim-bench-") as folder:
		path = os.path.join(folder, "socket")
		program = realprog.Program(["redis-server", "--port", "0", "--unixsocket", path, "--dir", folder, "--save", "", "--appendonly", "no"],
			env=real_redis.with_libc(realprog.candidate_variables()))
		client = real_redis.Client(path, 100_000)
		client.wait_ready()
		begun = time.monotonic()
		subprocess.run(["redis-benchmark", "-q", "-s", path, "-t", TESTS, "-n", str(max(1000, int(20_000 * options.scale))), "-r", "100000",
			"-d", "200", "-P", "4"], stdout=subprocess.DEVNULL, check=True)
		client.asks("flushall")
		work_s = time.monotonic() - begun
		realprog.lie_idle(options.idle)
		used = program.finish(signal.SIGTERM)
	realprog.print_figures(work_s=work_s, **used)


if __name__ == "__main__":
	main()
