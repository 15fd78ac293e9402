"""gunicorn with --preload: workers forked from a parent that has loaded the application, whose pages they share."""
import http.client
import importlib.util
import os
import pathlib
import re
import signal
import socket
import subprocess

import pytest

PYTHON = "/usr/bin/python3"
MB = 1 << 20
WORKERS = 3
APPLICATION = r'''
import gc, hashlib, json, os
# Lists in them, or Python's collector would not even look at them.
rows = [{"id": i, "name": f"row {i}", "tags": [i]} for i in range(100_000)]
# No full collection of Python's own is due soon.
gc.collect()
def application(environ, start_response):
    body = environ["wsgi.input"].read()
    number = int(environ["PATH_INFO"].strip("/"))
    made = [{"n": n, "text": "x" * (n % 50)} for n in range(5_000)]
    answer = hashlib.sha256(json.dumps(made[::number + 1] + [rows[number * 97]]).encode() + body).hexdigest() + "\n"
    if number == 7:
        raise RuntimeError("seven")
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(answer))),
                              ("Worker", str(os.getpid()))])
    return [answer.encode()]
'''


class UnixConnection(http.client.HTTPConnection):
	def __init__(self, path):
		super().__init__("localhost", timeout=120)
		self.path = str(path)

	def connect(self):
		self.sock = socket.socket(socket.AF_UNIX)
		self.sock.settimeout(120)
		self.sock.connect(self.path)


def ask(path, number):
	connection = UnixConnection(path)
	try:
		connection.request("POST", f"/{number}", body=b"b" * 100_000)
		answer = connection.getresponse()
		return answer.status, answer.read(), answer.headers["Worker"]
	finally:
		connection.close()


def ask_some(path):
	"""Returns their replies. The worker that replies is a matter of chance."""
	return [ask(path, number)[:2] for number in range(12)]


def private_bytes(pid):
	rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text("ascii")
	return sum(int(kb) for kb in re.findall(r"^Private_(?:Clean|Dirty): +(\d+)", rollup, re.MULTILINE)) * 1024


class Server:
	def __init__(self, process, path, wait_for):
		self.process, self.path, self.wait_for = process, path, wait_for
		wait_for(lambda: path.exists() and len(self.workers()) == WORKERS, 120, "workers")
		self.answers = ask_some(path)

	def workers(self):
		"""Those that serve: a worker takes the name of its parent, and reads its mail, only after its fork."""
		children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text("ascii")
		return sorted(map(int, children.split()))

	def stop(self):
		self.process.send_signal(signal.SIGTERM)
		return self.process.wait(timeout=120)


@pytest.fixture
def gunicorn(spawn, wait_for, tmp_path):
	"""gunicorn(name, env): a server with some answers given."""
	if importlib.util.find_spec("gunicorn") is None:
		pytest.skip("gunicorn is not installed")
	(tmp_path / "application.py").write_text(APPLICATION)

	def start(name, env):
		socket_path = tmp_path / name
		with open(tmp_path / f"{name}.log", "w", encoding="utf-8") as log:
			process = spawn([PYTHON, "-m", "gunicorn", "--preload", "--workers", WORKERS, "--bind", f"unix:{socket_path}",
			                 "--worker-tmp-dir", tmp_path, "application:application"], env, cwd=tmp_path,
			                stdout=subprocess.DEVNULL, stderr=log)
		return Server(process, socket_path, wait_for)
	return start


def test_gunicorn_answers_the_same_and_leaves_nothing(gunicorn, bare, env, stats, awake, mt_dir, wait_for,
                                                      files_of_the_dead, tmp_path):
	plain = gunicorn("plain", bare)
	assert plain.stop() == 0

	for backend in ("jemalloc", "system"):
		settings = env(MIN_MB=0, ALLOCATOR=backend)
		server = gunicorn(backend, settings)
		assert server.answers == plain.answers
		# Its own use of the signal: it opens its logs again, and has its workers do so.
		for pid in (first := server.workers()):
			awake(pid, settings)
		server.process.send_signal(signal.SIGUSR1)
		os.kill(first[0], signal.SIGKILL)
		wait_for(lambda: len(now := server.workers()) == WORKERS and now != first, 20, "a worker in the place of one that was killed")
		assert ask_some(server.path) == plain.answers
		counts = {pid: stats(pid, settings)["cleanups"]["signal"] for pid in [server.process.pid, *first[1:]]}
		assert counts == dict.fromkeys(counts, 0)
		wait_for(lambda: not files_of_the_dead(mt_dir), 8, "the files of the killed worker are gone")
		assert server.stop() == 0
		wait_for(lambda: not any(mt_dir.iterdir()), 5, "no file is left")
		assert "mtshim" not in (tmp_path / f"{backend}.log").read_text()


def test_a_trim_does_not_unshare_what_gunicorns_workers_share(gunicorn, env, control, wait_for, backend):
	"""Their parent's objects are some 50 MB, and a full collection writes to each of them."""
	settings = env()
	server = gunicorn("shim", settings)
	workers = server.workers()

	def all_have_served():
		served = set()
		wait_for(lambda: served.add(ask(server.path, 3)[2]) or len(served) == WORKERS, 120, "an answer of each worker")

	all_have_served()
	before = {pid: private_bytes(pid) for pid in workers}
	for pid in workers:
		assert control(settings, "trim", pid).returncode == 0
	# What a trim asks of Python may come only when it wakes up, which a signal sees to: gunicorn opens its logs again.
	server.process.send_signal(signal.SIGUSR1)
	all_have_served()
	grown = {pid: (private_bytes(pid) - before[pid]) / MB for pid in workers}

	assert max(grown.values()) < 8, f"{grown} MB more; before: {before}"
	assert ask_some(server.path) == server.answers
