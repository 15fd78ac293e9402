#!/usr/bin/python3
"""What `mtctl serve` costs: a scrape a second of 100 processes, and 1,000 scrapes a second.

  bench/serve/serve.py [--build build] [--processes 100] [--seconds 30] [--strict]

The processes are Pythons under the shim, awake by MT_MIN_MB=0, which sleep. CPU time is the scheduler's own count of nanoseconds
(/proc/PID/schedstat), its share is of one core. What the processes spend themselves is measured quiet and while 1,000 scrapes a second
come, for 5 s each: nobody is woken by a scrape, so the two should be the same. Latency is from the request to the last byte, on a
connection that stays open, as Prometheus's do. A scrape a second is late, and is measured so, where the machine has something better
to do."""
import argparse
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from lib.herd import Herd  # noqa: E402

MOST_SHARE, CLIENTS, FLOOD_S, RATE = 0.01, 4, 5, 1000
SLEEP = ["/usr/bin/python3", "-c", "import json, time\ntime.sleep(600)"]
REQUEST = ("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n"
           "Accept: application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5\r\n\r\n")


def cpu_ns(pid):
	return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0])


class Scraper:
	"""One connection."""

	def __init__(self, port, token):
		self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
		self.request = REQUEST.format(token).encode()
		self.buffer = bytearray(1 << 20)

	def scrape(self):
		"""Seconds that it took, and the bytes of the body."""
		begin = time.perf_counter()
		self.socket.sendall(self.request)
		head = b""
		while b"\r\n\r\n" not in head:
			head += self.receive(4096)
		head, _, body = head.partition(b"\r\n\r\n")
		length = next(int(line.split()[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
		assert head.startswith(b"HTTP/1.1 200"), head
		left = length - len(body)
		while left:
			got = self.socket.recv_into(self.buffer, min(left, len(self.buffer)))
			assert got, "the connection has ended"
			left -= got
		return time.perf_counter() - begin, length

	def receive(self, most):
		data = self.socket.recv(most)
		assert data, "the connection has ended"
		return data


def paced(door, rate, seconds):
	"""Scrapes at this rate from one connection; latencies in s, and the bytes of the last answer. door: port and token."""
	scraper, latencies, length = Scraper(*door), [], 0
	begin = time.perf_counter()
	for number in range(int(rate * seconds)):
		time.sleep(max(0, begin + number / rate - time.perf_counter()))
		if time.perf_counter() - begin > seconds:
			break
		latency, length = scraper.scrape()
		latencies.append(latency)
	time.sleep(max(0, begin + seconds - time.perf_counter()))
	return latencies, length


def flood(door):
	"""From several connections at once; all latencies."""
	found = []
	threads = [threading.Thread(target=lambda: found.extend(paced(door, RATE / CLIENTS, FLOOD_S)[0])) for _ in range(CLIENTS)]
	for thread in threads:
		thread.start()
	for thread in threads:
		thread.join()
	return found


def spent(pids, call):
	"""What the call answers, and the CPU seconds of these processes meanwhile."""
	before = {pid: cpu_ns(pid) for pid in pids}
	answer = call()
	return answer, sum(cpu_ns(pid) - before[pid] for pid in pids) / 1e9


def line(name, latencies, share):
	ordered = sorted(latencies)
	print(f"{name:34} {len(latencies):5} scrapes   median {1000 * statistics.median(ordered):6.2f} ms   99 % "
	      f"{1000 * ordered[int(0.99 * (len(ordered) - 1))]:6.2f} ms   CPU of serve {share:6.2%} of a core")


def measure(args, server, pids):
	address, _, token = server.stdout.readline().strip().partition("#token=")
	door = int(address.rstrip("/").rpartition(":")[2]), token
	(latencies, length), cpu = spent([server.pid], lambda: paced(door, 1, args.seconds))
	share = cpu / args.seconds
	print(f"{len(pids)} processes, an answer has {length / 1024:.0f} kB")
	line("a scrape a second", latencies, share)
	_, quiet = spent(pids, lambda: time.sleep(FLOOD_S))
	(found, flooded), cpu = spent([server.pid], lambda: spent(pids, lambda: flood(door)))
	line(f"{len(found) / FLOOD_S:.0f} scrapes a second", found, cpu / FLOOD_S)
	print(f"the processes themselves, all of them, in {FLOOD_S} s: {1000 * quiet:.1f} ms quiet, {1000 * flooded:.1f} ms meanwhile")
	return share


def asked(build, env, pids):
	"""How many requests the processes have been sent."""
	return sum(json.loads(subprocess.run([build / "mtctl", "stat", str(pid), "--json", "--cached"], env=env, capture_output=True,
	                                     check=True).stdout)["requests_count"] for pid in pids)


def main():
	parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
	parser.add_argument("--build", default="build", type=pathlib.Path)
	parser.add_argument("--processes", default=100, type=int)
	parser.add_argument("--seconds", default=30, type=int)
	parser.add_argument("--strict", action="store_true", help="fail where a bound is missed")
	args = parser.parse_args()
	build = args.build.resolve()
	with Herd(build) as herd:
		herd.start(args.processes, SLEEP, 5)
		server = subprocess.Popen([build / "mtctl", "serve", "--listen=127.0.0.1:0"], env=herd.env, stdout=subprocess.PIPE, text=True)
		try:
			share = measure(args, server, herd.pids)
			requests = asked(build, herd.env, herd.pids)
		finally:
			server.terminate()
			server.wait()
	verdicts = [(f"a scrape a second with {args.processes}: under {MOST_SHARE:.0%} of a core", share < MOST_SHARE),
	            ("no process was asked for anything", requests == 0)]
	for what, good in verdicts:
		print("PASS" if good else "FAIL", what)
	return 1 if args.strict and not all(good for _, good in verdicts) else 0


if __name__ == "__main__":
	sys.exit(main())
