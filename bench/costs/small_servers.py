#!/usr/bin/python3
"""What small servers hold at rest: resident MB of the process and its children after a short load and a rest, bare and under the library.

  bench/costs/small_servers.py [--build DIR] [--runs N] [--rest SECONDS] [--only NAME;...]

bare and the library in turns, the median of the runs. A server that is not installed is left out. Only loopback is used.
"""
import argparse
import pathlib
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

import measure

REQUESTS = 2000
GET = b"GET / HTTP/1.0\r\n\r\n"
NGINX = "daemon off; error_log stderr crit; pid {folder}/pid; events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{port}; root {folder}; }} }}"
ASYNC = """import asyncio
async def serve(reader, writer):
    await reader.readline()
    writer.write(b"x" * 20000)
    writer.close()
async def main():
    await (await asyncio.start_server(serve, "127.0.0.1", {port})).serve_forever()
asyncio.run(main())"""

# Name: the command, and a request. A new connection for each.
SERVERS = {
	"redis": (["redis-server", "--port", "{port}", "--save", "", "--dir", "{folder}"], b"SET k%d " + b"v" * 500 + b"\r\nQUIT\r\n"),
	"memcached": (["memcached", "-l", "127.0.0.1", "-p", "{port}", "-u", "root"], b"set k%d 0 0 5\r\nhello\r\nquit\r\n"),
	"nginx": (["nginx", "-p", "{folder}", "-c", "{folder}/nginx.conf"], GET),
	"http.server": (["/usr/bin/python3", "-m", "http.server", "--bind", "127.0.0.1", "-d", "{folder}", "{port}"], GET),
	"asyncio": (["/usr/bin/python3", "-c", ASYNC], GET),
}


def free_port():
	with socket.socket() as probe:
		probe.bind(("127.0.0.1", 0))
		return probe.getsockname()[1]


def request(port, data):
	with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
		connection.sendall(data)
		while connection.recv(1 << 16):
			pass


def await_port(port):
	for _ in range(200):
		try:
			socket.create_connection(("127.0.0.1", port), timeout=1).close()
			return
		except OSError:
			time.sleep(0.05)
	raise SystemExit(f"nothing listens on port {port}")


def rss_mb(pid):
	children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
	status = pathlib.Path(f"/proc/{pid}/status").read_text()
	return int(status.split("VmRSS:")[1].split()[0]) / 1024 + sum(rss_mb(int(child)) for child in children)


def at_rest(name, variables, rest_s):
	command, data = SERVERS[name]
	with tempfile.TemporaryDirectory() as folder:
		port = free_port()
		pathlib.Path(folder, "nginx.conf").write_text(NGINX.format(folder=folder, port=port))
		filled = [word.replace("{port}", str(port)).replace("{folder}", folder) for word in command]
		server = subprocess.Popen(filled, env=measure.environment(variables), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
		try:
			await_port(port)
			for number in range(REQUESTS):
				request(port, data.replace(b"%d", b"%d" % number))
			time.sleep(rest_s)
			return rss_mb(server.pid)
		finally:
			server.terminate()
			server.wait()


def main():
	parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
	parser.add_argument("--build", default="build")
	parser.add_argument("--runs", type=int, default=3)
	parser.add_argument("--rest", type=float, default=15)
	parser.add_argument("--only", default="")
	options = parser.parse_args()
	wanted = [name for name in SERVERS if not options.only or name in options.only.split(";")]
	print(f"{'':12} {'bare':>7} {'shim':>7}  ratio   (MB at rest, median of {options.runs})")
	for name in wanted:
		if not shutil.which(SERVERS[name][0][0]):
			print(f"{name:12} is not installed")
			continue
		runs = [(at_rest(name, {}, options.rest), at_rest(name, {"LD_PRELOAD": measure.shim(options.build)}, options.rest))
		        for _ in range(options.runs)]
		bare, shim = (statistics.median(column) for column in zip(*runs))
		print(f"{name:12} {bare:7.1f} {shim:7.1f}  {shim / bare:5.2f}", flush=True)


if __name__ == "__main__":
	main()
