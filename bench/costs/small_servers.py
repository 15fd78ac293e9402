#!/usr/bin/python3
"""What small servers hold at rest, bare and under the library: resident MB of all their processes after a short load and a rest.

  bench/costs/small_servers.py [--build DIR]... [--runs N] [--rest SECONDS] [--only NAME,...]

RSS counts a page in each process that maps it, and so charges the library's code once for each process; PSS divides it by the processes
of the machine that map it. The ratio of RSS is the one of the promise. All servers run at the same time, bare and under each library; the
median of the runs. A server that is not installed is left out. Only loopback is used.
"""
import argparse
import os
import pathlib
import re
import shutil
import socket
import statistics
import struct
import subprocess
import tempfile
import time

import measure

REQUESTS = 1500
GET = b"GET / HTTP/1.0\r\n\r\n"
NGINX = "daemon off; error_log stderr crit; pid {folder}/pid; events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{port}; root {folder}; }} }}"
HAPROXY = "defaults\n mode http\n timeout client 9s\n timeout connect 9s\n timeout server 9s\nfrontend f\n bind 127.0.0.1:{port}\n http-request return status 200\n"
LIGHTTPD = 'server.document-root = "{folder}"\nserver.bind = "127.0.0.1"\nserver.port = {port}\n'
MOSQUITTO = "listener {port} 127.0.0.1\nallow_anonymous true\nuser root\n"
UNBOUND = ('server:\n interface: 127.0.0.1\n port: {port}\n username: ""\n chroot: ""\n directory: "{folder}"\n pidfile: "{folder}/pid"\n do-daemonize: no\n'
           + "".join(f' local-data: "h{n}.test. A 10.0.{n // 256}.{n % 256}"\n' for n in range(5000)))
RSYSLOG = 'module(load="imtcp")\ninput(type="imtcp" port="{port}" address="127.0.0.1")\n*.* {folder}/log\n'
ASYNC = """import asyncio
async def serve(reader, writer):
    await reader.readline()
    writer.write(b"x" * 20000)
    writer.close()
async def main():
    await (await asyncio.start_server(serve, "127.0.0.1", {port})).serve_forever()
asyncio.run(main())"""
DNS = b"\x00\x1c\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x02h7\x04test\x00\x00\x01\x00\x01"
MQTT = b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a" + b"\x31\x0c\x00\x05t%04d" + b"hello" + b"\xe0\x00"


def postgres_request():
	startup = struct.pack("!i", 196608) + b"user\0postgres\0database\0postgres\0\0"
	query = b"select count(*), max(relname) from pg_class, generate_series(1, 3)\0"
	return struct.pack("!i", len(startup) + 4) + startup + b"Q" + struct.pack("!i", len(query) + 4) + query + b"X\0\0\0\4"


# Name: the command, the text of its file {folder}/conf, and a request (%04d is its number). A new connection for each.
SERVERS = {
	"postgres": (["postgres", "-D", "{folder}/data", "-p", "{port}", "-k", "{folder}"], "", postgres_request()),
	"nginx": (["nginx", "-p", "{folder}", "-c", "{folder}/conf"], NGINX, GET),
	"mosquitto": (["mosquitto", "-c", "{folder}/conf"], MOSQUITTO, MQTT),
	"memcached": (["memcached", "-l", "127.0.0.1", "-p", "{port}", "-u", "root"], "", b"set k%04d 0 0 5\r\nhello\r\nquit\r\n"),
	"dnsmasq": (["dnsmasq", "-k", "-C", "/dev/null", "-p", "{port}", "-x", "", "-R", "-h", "-A", "/test/10.0.0.7", "--listen-address=127.0.0.1",
	             "--bind-interfaces", "--user=root"], "", DNS),
	"haproxy": (["haproxy", "-W", "-f", "{folder}/conf"], HAPROXY, GET),
	"http.server": (["/usr/bin/python3", "-m", "http.server", "--bind", "127.0.0.1", "-d", "{folder}", "{port}"], "", GET),
	"lighttpd": (["lighttpd", "-D", "-f", "{folder}/conf"], LIGHTTPD, GET),
	"unbound": (["unbound", "-d", "-c", "{folder}/conf"], UNBOUND, DNS),
	"redis": (["redis-server", "--port", "{port}", "--save", "", "--dir", "{folder}"], "", b"SET k%04d " + b"v" * 500 + b"\r\nQUIT\r\n"),
	"rsyslog": (["rsyslogd", "-n", "-i", "{folder}/pid", "-f", "{folder}/conf"], RSYSLOG, b"<13>test: message %04d\n"),
	"asyncio": (["/usr/bin/python3", "-c", ASYNC], "", GET),
}


def free_port():
	with socket.socket() as probe:
		probe.bind(("127.0.0.1", 0))
		return probe.getsockname()[1]


def request(port, data):
	with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
		connection.sendall(data)
		connection.shutdown(socket.SHUT_WR)
		while connection.recv(1 << 16):
			pass


def await_port(name, port):
	for _ in range(200):
		try:
			socket.create_connection(("127.0.0.1", port), timeout=1).close()
			return
		except OSError:
			time.sleep(0.05)
	raise SystemExit(f"{name}: nothing listens on port {port}")


def figures(pid):
	"""RSS and PSS of a process and its children, in MB."""
	rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
	own = [int(re.search(rf"^{name}:\s+(\d+)", rollup, re.MULTILINE)[1]) / 1024 for name in ("Rss", "Pss")]
	children = [figures(int(child)) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
	return [sum(column) for column in zip(own, *children)]


class Server:
	def __init__(self, name, variables):
		command, conf, self.data = SERVERS[name]
		self.name, self.folder, self.port = name, tempfile.mkdtemp(prefix="small-"), free_port()
		filled = [word.replace("{port}", str(self.port)).replace("{folder}", self.folder) for word in command]
		pathlib.Path(self.folder, "conf").write_text(conf.replace("{{", "{").replace("}}", "}").replace("{port}", str(self.port)).replace("{folder}", self.folder))
		user = {}
		if name == "postgres" and os.geteuid() == 0:
			user = {"user": "postgres", "group": "postgres", "extra_groups": []}
			shutil.chown(self.folder, "postgres", "postgres")
		if name == "postgres":
			initdb = pathlib.Path(shutil.which("postgres")).resolve().with_name("initdb")
			subprocess.run([initdb, "-D", f"{self.folder}/data", "-A", "trust", "-N", "-U", "postgres"], check=True, stdout=subprocess.DEVNULL, **user)
		self.process = subprocess.Popen(filled, env=measure.environment(variables), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
		                                cwd=self.folder, **user)

	def load(self):
		await_port(self.name, self.port)
		for number in range(REQUESTS):
			request(self.port, self.data.replace(b"%04d", b"%04d" % number))

	def end(self):
		self.process.terminate()
		try:
			self.process.wait(10)
		except subprocess.TimeoutExpired:
			self.process.kill()
			self.process.wait()
		shutil.rmtree(self.folder, ignore_errors=True)


def one_run(names, candidates, rest_s):
	"""The figures of each server under each candidate."""
	servers = {}
	try:
		for name in names:
			for candidate, variables in candidates.items():
				servers[name, candidate] = Server(name, variables)
				servers[name, candidate].load()
		time.sleep(rest_s)
		return {key: figures(server.process.pid) for key, server in servers.items()}
	finally:
		for server in servers.values():
			server.end()


def main():
	parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
	parser.add_argument("--build", action="append", help="several are compared")
	parser.add_argument("--runs", type=int, default=3)
	parser.add_argument("--rest", type=float, default=15)
	parser.add_argument("--only", default="")
	options = parser.parse_args()
	os.environ["PATH"] += ":/usr/sbin:/sbin"
	wanted = [name for name in SERVERS if not options.only or name in options.only.split(",")]
	names = [name for name in wanted if shutil.which(SERVERS[name][0][0])]
	candidates = {"bare": {}, **{build: {"LD_PRELOAD": measure.shim(build)} for build in options.build or ["build"]}}
	runs = [one_run(names, candidates, options.rest) for _ in range(options.runs)]
	print(f"MB at rest, median of {options.runs}; ratios to bare\n{'':12} {'':24} {'RSS':>7} {'ratio':>6} {'PSS':>7} {'ratio':>6}")
	for name in wanted:
		if name not in names:
			print(f"{name:12} is not installed")
			continue
		bare = None
		for candidate in candidates:
			rss, pss = (statistics.median(column) for column in zip(*(run[name, candidate] for run in runs)))
			bare = bare or (rss, pss)
			print(f"{name:12} {candidate[-24:]:24} {rss:7.1f} {rss / bare[0]:6.2f} {pss:7.1f} {pss / bare[1]:6.2f}")


if __name__ == "__main__":
	main()
