"""Shared by the tests of mtctl serve: a server on a free port, and a client that sends exactly the given bytes."""
import http.client
import json
import socket
import time

import pytest

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


class Answer:
	def __init__(self, got):
		self.status, self.headers, self.body = got.status, got.headers, got.read()
		self.text = self.body.decode("ascii", "replace")

	@property
	def json(self):
		return json.loads(self.body)


class Server:
	def __init__(self, process):
		self.process = process
		line = process.stdout.readline().split()
		assert line, process.stderr.read()
		self.url, _, self.token = line[0].partition("#token=")
		self.host, _, port = self.url.removeprefix("http://").strip("/").rpartition(":")
		self.host, self.port = self.host.strip("[]"), int(port)

	def ask(self, path, method="GET", body=None, timeout=20, **headers):
		"""Headers by name, '_' for '-'. Without a header for a token it sends the token of the address."""
		connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
		try:
			named = {name.replace("_", "-"): value for name, value in headers.items() if value is not None}
			if self.token and "X_Mtctl_Token" not in headers and "Authorization" not in headers:
				named["Authorization"] = "Bearer " + self.token
			try:
				connection.request(method, path, body, named)
			except (BrokenPipeError, ConnectionResetError):
				pass  # what is too long is answered, and the connection closed, before all of it is sent
			return Answer(connection.getresponse())
		finally:
			connection.close()

	def get(self, path, **headers):
		return self.ask(path, **headers)

	def stranger(self, path, method="GET", **headers):
		"""Sends a request without the token."""
		return self.ask(path, method, **{"X_Mtctl_Token": None, **headers})

	def post(self, path, **headers):
		return self.ask(path, "POST", **{"timeout": 60, **headers})

	def head(self, method, path, *more):
		"""Returns the head of a request with the token, as bytes."""
		return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {self.token}", *more,
		                    "", ""]).encode()

	def raw(self, data, timeout=20):
		"""Returns the first line of the reply to these bytes; "" where none came."""
		with self.connect(timeout) as client:
			client.sendall(data)
			try:
				return client.makefile("rb").readline().decode().strip()
			except (ConnectionResetError, TimeoutError):
				return ""

	def connect(self, timeout=20):
		return socket.create_connection((self.host, self.port), timeout=timeout)

	def cpu_s(self):
		with open(f"/proc/{self.process.pid}/stat", encoding="ascii", errors="replace") as file:
			words = file.read().rpartition(")")[2].split()
		return (int(words[11]) + int(words[12])) / 100

	def process_of(self, pid):
		return next((one for one in self.get("/api/processes").json["processes"] if one["pid"] == pid), None)


@pytest.fixture
def serve(spawn, mtctl, plain):
	"""serve(options...): a server on a free port, which shows what changes at once."""
	def start(*options, wrapper=(), env=None, program=None, interval="0"):
		return Server(spawn([*wrapper, program or mtctl, "serve", "--listen=127.0.0.1:0", f"--interval={interval}", *options],
		                    env or plain))
	return start


def soon(predicate, timeout=10):
	end = time.monotonic() + timeout
	while not predicate():
		assert time.monotonic() < end, "not in time"
		time.sleep(0.02)
