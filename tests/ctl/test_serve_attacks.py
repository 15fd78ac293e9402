"""mtctl serve against requests that are made to be misread."""
import time

import pytest

from mtctl_helpers import ctl, fake, plain  # noqa: F401 (fixtures)
from serve_helpers import serve, soon  # noqa: F401 (fixture)


def exchange(server, data, timeout=5):
	"""All that comes back for these bytes: until the server closes, or is silent for so long."""
	answer = b""
	with server.connect(timeout) as client:
		try:
			client.sendall(data)
			while piece := client.recv(65536):
				answer += piece
		except (ConnectionError, TimeoutError):
			pass
	return answer


def statuses(answer):
	return [int(line.split()[1]) for line in answer.split(b"\r\n") if line.startswith(b"HTTP/1.")]


# ---- paths ----

@pytest.mark.parametrize("path", [b"/../../etc/passwd", b"/..%2f..%2fetc%2fpasswd", b"/%2e%2e/%2e%2e/etc/passwd", b"/..%5c..%5cetc",
                                  b"/%c0%ae%c0%ae/%c0%afetc/passwd", b"/%e0%80%ae%e0%80%ae/", b"/page.js%00.html", b"/etc/passwd\x00/page.js", b"/.",
                                  b"//", b"/./page.js", b"/page.js/", b"/page.js%20", b"/;/metrics", b"/metrics;a=b", b"/%252e%252e/",
                                  b"/metrics%0d%0aX-Evil:%201", b"/\xff\xfe", b"\\metrics", b"*", b"http://evil.example/metrics",
                                  b"/api/processes/1%2ftrim", b"/api/processes/0x1", b"/api/processes/1e0", b"/api/processes/%31",
                                  b"/api/processes/\xd9\xa1", b"/api//processes", b"/API/processes", b"file:///etc/passwd"])
def test_no_way_of_writing_a_path_leads_anywhere_else(serve, path):
	server = serve("--open")

	answer = exchange(server, b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	assert set(statuses(answer)) <= {400, 403, 404}, answer
	assert b"root:" not in answer and b"X-Evil" not in answer.split(b"\r\n\r\n")[0]
	assert server.get("/healthz").status == 200


def get(target, host=b"localhost"):
	return b"GET " + target + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"


def test_a_target_with_a_host_is_that_path_and_its_host_counts(serve, fake):
	"""RFC 9112, 3.2.2: a server must take it, and ignore the Host header then."""
	server = serve()
	token = b"X-Mtctl-Token: " + server.token.encode() + b"\r\nConnection: close"

	for target, host, status in ((b"http://localhost/healthz", b"localhost", 200), (b"HTTP://127.0.0.1:1/healthz?a", b"evil.example", 200),
	                             (b"http://localhost", b"localhost", 200), (b"http://localhost/nothing", b"localhost", 404),
	                             (b"http://evil.example/healthz", b"localhost", 403), (b"http://user@localhost/healthz", b"localhost", 403),
	                             (b"http:///healthz", b"localhost", 404), (b"http://" + b"a" * 300 + b"/healthz", b"localhost", 404)):
		assert statuses(exchange(server, get(target, host))) == [status], (target, host)
	asked = get(b"http://localhost/api/processes/%d/trim?level=light" % fake(), b"evil.example").replace(b"Connection: close", token)
	assert statuses(exchange(server, asked.replace(b"GET", b"POST").replace(b"\r\n\r\n", b"\r\nContent-Length: 0\r\n\r\n"), timeout=20)) == [200]
	assert statuses(exchange(server, b"GET http://localhost/healthz HTTP/1.1\r\nConnection: close\r\n\r\n")) in ([400, 400], [400])  # libmicrohttpd writes the head of its own refusals twice


def test_nothing_of_a_request_comes_back_in_the_head_of_an_answer(serve, fake):
	server, pid = serve(), fake()
	evil = "evil-marker"

	for headers in ({"Accept": evil}, {"Host": f"localhost:{evil}"}, {"Origin": f"http://{evil}"}, {"X_Mtctl_Token": evil},
	                {"Authorization": f"Bearer {evil}"}, {"Cookie": evil}, {"Referer": evil}, {"X_Forwarded_For": evil}):
		for path in (f"/{evil}", f"/api/processes/{pid}?{evil}={evil}", f"/metrics?{evil}"):
			got = server.get(path, **headers)
			assert evil not in str(got.headers) and evil not in got.text, (path, headers)


# ---- two servers that read one request differently ----

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
SMUGGLES = {
	"both lengths": b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % (len(SMUGGLED) + 5),
	"chunks": b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"chunks, hidden": b"Transfer-Encoding: xchunked\r\nContent-Length: 0\r\n\r\n",
	"chunks, twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
	"chunks, by a tab": b"Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n",
	"chunks, by a blank": b"Transfer-Encoding : chunked\r\nContent-Length: 0\r\n\r\n",
	"two lengths": b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(SMUGGLED),
	"two lengths, turned": b"Content-Length: %d\r\nContent-Length: 0\r\n\r\n" % len(SMUGGLED),
	"a list of lengths": b"Content-Length: 0, %d\r\n\r\n" % len(SMUGGLED),
	"a signed length": b"Content-Length: +0\r\n\r\n",
	"a negative length": b"Content-Length: -1\r\n\r\n",
	"a hexadecimal length": b"Content-Length: 0x0\r\n\r\n",
	"a length with a blank": b"Content-Length : 0\r\n\r\n",
}


@pytest.mark.parametrize("head", SMUGGLES.values(), ids=SMUGGLES)
def test_what_could_be_read_in_two_ways_is_refused_and_ends_the_connection(serve, fake, head):
	"""A proxy before us that reads it the other way would hand our answer to the next request to somebody else."""
	server, pid = serve(), fake()
	start = f"POST /api/processes/{pid}/trim?level=light HTTP/1.1\r\nHost: localhost\r\nX-Mtctl-Token: {server.token}\r\n".encode()

	got = statuses(exchange(server, start + head + SMUGGLED))
	assert set(got) <= {400, 411, 413, 501}, got  # libmicrohttpd writes the head of its own refusals twice
	assert server.get(f"/api/processes/{pid}").json["requests_count"] == 0


def test_a_folded_line_is_one_header(serve):
	"""The old way of writing a header over two lines: its second one is none of its own."""
	got = statuses(exchange(serve(), b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n Content-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED))
	assert got in ([200, 404], [400]), got


def test_a_body_that_looks_like_a_request_is_a_body(serve, fake):
	server, pid = serve(), fake()
	body = SMUGGLED

	got = exchange(server, f"POST /api/processes/{pid}/trim HTTP/1.1\r\nHost: localhost\r\nX-Mtctl-Token: {server.token}\r\n"
	                       f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body, timeout=20)
	assert statuses(got) == [200]


def test_a_refused_request_with_a_body_ends_the_connection(serve):
	server = serve()

	got = exchange(server, b"POST /api/processes/1/trim HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(SMUGGLED) + SMUGGLED)
	assert statuses(got) == [401]


@pytest.mark.parametrize("hosts", [["localhost", "evil.example"], ["evil.example", "localhost"], ["localhost, evil.example"],
                                   ["localhost@evil.example"], ["evil.example#localhost"], ["localhost\tevil"], ["localhost:80:80"]])
def test_more_than_one_host_is_none(serve, hosts):
	server = serve("--open")

	lines = b"".join(b"Host: " + host.encode() + b"\r\n" for host in hosts)
	got = statuses(exchange(server, b"GET /metrics HTTP/1.1\r\n" + lines + b"Connection: close\r\n\r\n"))
	assert set(got) <= {400, 403}, got


# ---- methods and protocols ----

def test_there_is_no_upgrade_and_no_tunnel(serve):
	server = serve("--open")
	socket_head = (b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
	               b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")

	for data in (socket_head, socket_head.replace(b"websocket", b"h2c"), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	             b"CONNECT localhost:22 HTTP/1.1\r\nHost: localhost:22\r\n\r\n", b"TRACE /metrics HTTP/1.1\r\nHost: localhost\r\nX-E: cho\r\n\r\n",
	             b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n", b"GET /metrics\r\n\r\n"):
		answer = exchange(server, data, timeout=0.5)
		assert not set(statuses(answer)) & {101, 301, 302} and b"cho" not in answer.split(b"\r\n\r\n")[0], (data, answer[:200])
	assert server.get("/healthz").status == 200


def test_a_preflight_of_another_site_gets_nothing(serve, fake):
	server, pid = serve(), fake()

	got = server.stranger(f"/api/processes/{pid}/trim", "OPTIONS", Origin="http://evil.example", Access_Control_Request_Method="POST",
	                      Access_Control_Request_Headers="authorization")
	assert got.status == 405 and not [name for name in got.headers if name.lower().startswith("access-control")]


# ---- floods ----

def test_many_small_headers_are_refused_as_one_large_one_is(serve):
	server = serve()

	got = exchange(server, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: a\r\n" % i for i in range(20000)) + b"\r\n")
	assert set(statuses(got)) <= {413, 431, 400}
	assert server.get("/healthz").status == 200


def test_a_head_that_comes_byte_by_byte_has_its_time_and_keeps_nobody_waiting(serve):
	server = serve("--open")
	slow = [server.connect() for _ in range(50)]
	for byte in b"GET /metrics HTTP/1.1\r\nHo":
		for client in slow:
			client.sendall(bytes([byte]))

	begun = time.monotonic()
	assert server.get("/metrics").status == 200
	assert time.monotonic() - begun < 20
	for client in slow:
		client.close()


def test_a_client_that_guesses_tokens_learns_nothing_and_blocks_nobody(serve, fake):
	server, pid = serve(), fake()
	request = (f"POST /api/processes/{pid}/trim HTTP/1.1\r\nHost: localhost\r\nX-Mtctl-Token: {server.token[:-1]}%s\r\n"
	           "Content-Length: 0\r\n\r\n")
	wrong = [one for one in "0123456789abcdef" if one != server.token[-1]]

	for number in range(200):
		answer = exchange(server, (request % wrong[number % len(wrong)]).encode(), timeout=20)
		assert statuses(answer) == [401] and b"Connection: close" in answer
	assert server.get(f"/api/processes/{pid}").json["requests_count"] == 0
	assert server.post(f"/api/processes/{pid}/trim").status == 200


def test_clients_without_a_token_cannot_use_up_the_jobs(serve, fake):
	"""Nor make a process work: a snapshot was to be had without a token once."""
	server, pid = serve("--open"), fake(deaf=True)

	for _ in range(40):
		assert server.stranger(f"/api/processes/{pid}/snapshot").status == 401
	with open(f"/proc/{server.process.pid}/task/{server.process.pid}/children", encoding="ascii") as file:
		assert file.read() == ""
	soon(lambda: server.get("/healthz").status == 200)
