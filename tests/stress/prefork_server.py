"""A server that forks its workers once it has loaded its data, as gunicorn --preload does: what the workers do not write to they
share. prefork_server.py ROWS WORKERS MB SECONDS: each worker takes MB slowly and waits SECONDS, or until it is told to end.
Says the pids of the workers, once all have what they take, and how each has ended (0, or less the signal)."""
import os
import signal
import sys
import time


def work(mb, seconds, ready):
	held = []
	for _ in range(mb):
		held.append(bytearray(b"x") * (1 << 20))
		time.sleep(0.02)
	os.write(ready, b"r")
	until = time.monotonic() + seconds
	while time.monotonic() < until:
		time.sleep(0.01)  # comes by its bytecodes, where a collection would run


def main():
	rows, workers, mb, seconds = (int(word) for word in sys.argv[1:])
	data = [{"row": [number]} for number in range(rows)]
	listens, ready = os.pipe()
	pids = []
	for _ in range(workers):
		pid = os.fork()
		if pid == 0:
			os.close(listens)
			signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
			work(mb, seconds, ready)
			os._exit(0 if len(data) == rows else 1)
		pids.append(pid)
	os.close(ready)
	came = b""
	while len(came) < workers and (more := os.read(listens, workers)):
		came += more
	print(*pids, flush=True)
	# Looks in instead of waiting for one: it comes by its bytecodes, too.
	ends = {}
	while len(ends) < workers:
		pid, status = os.waitpid(-1, os.WNOHANG)
		if pid:
			ends[pid] = os.waitstatus_to_exitcode(status)
		else:
			time.sleep(0.01)
	print(*ends.values(), flush=True)


main()
