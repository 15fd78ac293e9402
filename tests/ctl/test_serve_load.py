"""mtctl serve: cleanups that take their time, clients that do not behave, many at once."""
import contextlib
import json
import os
import signal
import socket
import threading
import time

import pytest

from cuda_helpers import cuda, fill  # noqa: F401 (fixture)
from mtctl_helpers import MB, ctl, fake, plain  # noqa: F401 (fixtures)
from serve_helpers import serve, soon  # noqa: F401 (fixture)

pytestmark = pytest.mark.slow


def in_thread(call):
	"""Starts the call; answers a function that waits for what it gives."""
	got = []
	thread = threading.Thread(target=lambda: got.append(call()), daemon=True)
	thread.start()

	def result():
		thread.join(60)
		assert got, "no answer"
		return got[0]
	return result


# ---- cleanups ----

def test_a_cleanup_shrinks_the_process_and_says_by_how_much(serve, puppet, env, awake):
	settings = env(MIN_MB=0, IDLE_MS=60000, SLACK_MB=4096)
	one = puppet(settings)
	assert one.tell("alloc 20000 8000 9000")
	assert one.tell("keep 0")
	awake(one.pid, settings)
	server = serve()
	before = server.process_of(one.pid)["rss_bytes"]

	got = server.post(f"/api/processes/{one.pid}/trim?level=light")
	record = got.json["processes"][0]["record"]
	assert (got.status, record["level"], record["reason"], record["result"]) == (200, "light", "request", 1)
	assert record["rss_before_bytes"] - record["rss_after_bytes"] > 100 * MB
	soon(lambda: before - server.process_of(one.pid)["rss_bytes"] > 100 * MB)


def test_the_answer_is_that_of_mtctl_trim(serve, fake, ctl):
	pid = fake(freed_mb=10, gc_state=1)
	server = serve()

	printed, got = json.loads(ctl("trim", pid, "--json").stdout), server.post(f"/api/processes/{pid}/trim")
	shown = got.json
	assert got.headers["Content-Type"] == "application/json" and got.headers["X-Frame-Options"] == "DENY"
	assert set(shown) == set(printed) == {"processes"} and set(shown["processes"][0]) == set(printed["processes"][0])
	record = shown["processes"][0]["record"]
	assert set(record) == set(printed["processes"][0]["record"]) and record["level"] == "heavy"
	assert record["rss_before_bytes"] - record["rss_after_bytes"] == 10 * MB


def test_levels_are_two(serve, fake):
	pid = fake()
	server = serve()

	for level in ("light", "heavy"):
		assert server.post(f"/api/processes/{pid}/trim?level={level}").json["processes"][0]["record"]["level"] == level
	for level in ("purge", "", "HEAVY", "light%00"):
		assert server.post(f"/api/processes/{pid}/trim?level={level}").status == 400


def test_a_process_without_figures_is_an_answer_too(serve, fake):
	server = serve()

	assert server.post(f"/api/processes/{fake(awake=False)}/trim").json["processes"][0]["state"] == "asleep"
	refused = server.post(f"/api/processes/{fake(broken=True)}/trim")
	assert refused.status == 502 and refused.json["error"].startswith("refused")
	unwilling = server.post(f"/api/processes/{fake(request_error=4)}/trim")
	assert unwilling.status == 200 and unwilling.json["processes"][0]["error"]


def test_a_cleanup_that_takes_long_keeps_nobody_waiting_and_comes_once_a_process(serve, fake):
	slow, quick = fake(deaf=True), fake()  # the slow one until it is killed: nothing here is a matter of time
	server = serve()
	pending = in_thread(lambda: server.post(f"/api/processes/{slow}/trim"))
	soon(lambda: children(server))
	(child,) = children(server)

	for path in ("/healthz", "/metrics", f"/api/processes/{slow}"):
		assert server.get(path).status == 200
	for _ in range(2):
		assert server.post(f"/api/processes/{quick}/trim").status == 200
	again = server.post(f"/api/processes/{slow}/trim")
	assert (again.status, list(again.json)) == (409, ["error"])
	assert server.get(f"/api/processes/{slow}/snapshot").status == 409
	assert child in children(server), "they have waited for the cleanup"
	os.kill(slow, signal.SIGKILL)
	os.waitpid(slow, 0)
	assert pending().status == 404
	assert child not in children(server)


def children(server):
	with open(f"/proc/{server.process.pid}/task/{server.process.pid}/children", encoding="ascii") as file:
		return file.read().split()


def test_there_is_an_end_to_how_many_run_at_once(serve, fake):
	server = serve()
	deaf = [fake(deaf=True) for _ in range(17)]
	pending = [in_thread(lambda pid=pid: server.post(f"/api/processes/{pid}/trim").status) for pid in deaf[:16]]
	soon(lambda: len(children(server)) == 16)

	assert server.post(f"/api/processes/{deaf[16]}/trim").status == 503
	assert server.get("/healthz").status == 200
	server.process.terminate()
	assert {one() for one in pending} == {503}
	assert server.process.wait(timeout=10) == 0


def test_a_process_that_ends_during_its_cleanup(serve, fake):
	pid = fake(deaf=True)
	server = serve()
	pending = in_thread(lambda: server.post(f"/api/processes/{pid}/trim"))
	soon(lambda: children(server))

	os.kill(pid, signal.SIGKILL)
	os.waitpid(pid, 0)
	got = pending()
	assert got.status == 404
	assert got.json["error"] in ("the process has ended", "no process of this id carries the shim here")  # by how far its child was
	soon(lambda: server.process_of(pid) is None)


def test_at_its_end_no_cleanup_begins(serve, fake):
	"""A connection that is there already may still ask, while the answers that are under way have their second."""
	pid = fake(deaf=True)
	server = serve()
	with server.connect() as unfinished, server.connect() as late:
		unfinished.sendall(f"POST /api/processes/{pid}/trim HTTP/1.1\r\nHost: localhost\r\nX-Mtctl-Token: {server.token}\r\n"
		                   "Content-Length: 9\r\n\r\n".encode())
		late.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		assert late.recv(1000).startswith(b"HTTP/1.1 200 ")
		server.process.terminate()
		soon(lambda: not listens(server))
		try:
			late.sendall(f"POST /api/processes/{pid}/trim HTTP/1.1\r\nHost: localhost\r\nX-Mtctl-Token: {server.token}\r\n"
			             "Content-Length: 0\r\n\r\n".encode())
			answer = late.recv(1000)
		except ConnectionError:
			answer = b""
		assert not answer or answer.startswith(b"HTTP/1.1 503 ")  # none: a busy machine, and its second is over
		assert server.process.wait(timeout=10) == 0


def listens(server):
	try:
		server.connect().close()
		return True
	except ConnectionError:
		return False


def test_a_caller_that_ignores_the_ends_of_children_changes_nothing(serve, fake):
	"""Ignoring SIGCHLD is inherited, and whoever does is not told how a child has ended."""
	server = serve(wrapper=["env", "--ignore-signal=CHLD"])

	assert server.post(f"/api/processes/{fake()}/trim").status == 200


def test_a_client_that_leaves_during_a_cleanup_is_forgotten(serve, fake):
	pid = fake(slow_s=1)
	server = serve()
	with server.connect() as client:
		client.sendall(f"POST /api/processes/{pid}/trim HTTP/1.1\r\nHost: localhost\r\nX-Mtctl-Token: {server.token}\r\n"
		               "Content-Length: 0\r\n\r\n".encode())
		soon(lambda: children(server))

	soon(lambda: not children(server))
	assert server.post(f"/api/processes/{pid}/trim").status == 200


def test_a_child_that_is_killed_is_an_answer(serve, fake):
	pid = fake(deaf=True)
	server = serve()
	pending = in_thread(lambda: server.post(f"/api/processes/{pid}/trim"))
	soon(lambda: children(server))

	os.kill(int(children(server)[0]), signal.SIGKILL)
	got = pending()
	assert (got.status, list(got.json)) == (503, ["error"])
	assert server.get("/healthz").status == 200


def test_a_child_keeps_no_connection_open(serve, fake):
	"""Of the listener neither: else the port would not be free as long as it runs."""
	pid = fake(deaf=True)
	server = serve()
	with server.connect():
		pending = in_thread(lambda: server.post(f"/api/processes/{pid}/trim").status)
		soon(lambda: children(server))
		(child,) = children(server)

		def sockets():
			folder, found = f"/proc/{child}/fd", []
			for name in os.listdir(folder):
				with contextlib.suppress(FileNotFoundError):  # it reads files meanwhile
					found += [name] * (int(name) > 2 and os.readlink(f"{folder}/{name}").startswith("socket:"))
			return found
		soon(lambda: not sockets())
	server.process.terminate()
	assert pending() == 503


# ---- snapshots ----

def test_a_snapshot_is_what_mtctl_snapshot_says(serve, cuda, control):
	one = cuda()
	fill(one, 40, 24)
	server = serve()

	got, printed = server.get(f"/api/processes/{one.pid}/snapshot"), control(one.env, "snapshot", one.pid, "--json")
	shown, expected = got.json, json.loads(printed.stdout)
	assert (got.status, got.headers["Content-Type"]) == (200, "application/json")
	assert set(shown) == set(expected) and shown["blocks_count"] == expected["blocks_count"] == 16
	assert [block["id"] for block in shown["blocks"]] == [block["id"] for block in expected["blocks"]]


def test_without_cuda_a_snapshot_says_why_not(serve, fake):
	server = serve()

	asleep, none = (server.get(f"/api/processes/{pid}/snapshot") for pid in (fake(awake=False), fake(request_error=5)))
	assert (asleep.status, asleep.json["error"]) == (404, "asleep: it has no files")
	assert none.status == 404 and none.json["error"].startswith("no CUDA in use there")


# ---- clients ----

def test_200_at_once_are_all_answered(serve, fake):
	fake()
	server = serve(interval="0.25")
	request = server.head("GET", "/api/processes")
	clients = [server.connect() for _ in range(200)]
	for client in clients:
		client.sendall(request)
	for client in clients:
		assert client.recv(100).startswith(b"HTTP/1.1 200 ")
		client.close()


@pytest.mark.parametrize("said", [b"", b"GET /metrics HTTP/1.1\r\nHost: loc", b"POST /api/processes/1/trim HTTP/1.1\r\n"])
def test_clients_that_never_finish_keep_nobody_out(serve, said):
	"""More than there are places; who is oldest goes."""
	server = serve()
	slow = [server.connect() for _ in range(400)]
	for client in slow:
		try:
			client.sendall(said)
		except OSError:
			pass

	began = time.monotonic()
	for _ in range(10):
		assert server.get("/metrics").status == 200
	assert time.monotonic() - began < 10
	for client in slow:
		client.close()


def test_clients_that_never_read_keep_nobody_out(serve, fake):
	pid = fake()
	server = serve(interval="1")
	slow = []
	for _ in range(100):
		client = socket.socket()
		client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
		client.connect((server.host, server.port))
		client.sendall(server.head("GET", f"/api/processes/{pid}") * 100)
		slow.append(client)

	for _ in range(10):
		assert server.get("/metrics").status == 200
	used = server.cpu_s()
	time.sleep(1)
	assert server.cpu_s() - used < 0.5, "it spins"
	for client in slow:
		client.close()
	assert server.get("/healthz").status == 200


def test_replies_to_clients_that_have_gone_do_no_harm(serve, fake):
	pid = fake()
	server = serve()

	for _ in range(50):
		with server.connect() as client:
			client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
			client.sendall(server.head("GET", f"/api/processes/{pid}") * 3)
	assert server.get("/healthz").status == 200


def test_a_thousand_requests_read_the_processes_a_few_times(serve, fake):
	"""Shared for a while: so many cost little more than few, and no process notices."""
	pid = fake()
	server = serve(interval="0.25")
	request = server.head("GET", "/metrics")
	server.get("/metrics")
	with server.connect() as client:
		stream = client.makefile("rb")
		used = server.cpu_s()
		for _ in range(1000):
			client.sendall(request)
			length = 0
			while (line := stream.readline()) != b"\r\n":
				if line.lower().startswith(b"content-length:"):
					length = int(line.split()[1])
			assert len(stream.read(length)) == length > 0
	assert server.cpu_s() - used < 2, "a thousand answers from what was read before"
	assert server.get(f"/api/processes/{pid}").json["requests_count"] == 0


def test_it_sleeps_without_requests(serve):
	server = serve()
	server.get("/metrics")

	used = server.cpu_s()
	time.sleep(1.5)
	assert server.cpu_s() - used < 0.05


def test_it_keeps_no_descriptors_and_little_memory(serve, fake):
	pid = fake()
	server = serve()

	def descriptors():
		return len(os.listdir(f"/proc/{server.process.pid}/fd"))
	server.get("/metrics")
	soon(lambda: not [one for one in [server.get("/healthz")] if one.status != 200])
	before = descriptors()
	for _ in range(30):
		server.get(f"/api/processes/{pid}")
		server.post(f"/api/processes/{pid}/trim")
	soon(lambda: descriptors() <= before)
	with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
		rss_kb = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
	assert rss_kb < 64 * 1024
