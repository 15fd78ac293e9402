"""mtctl serve: what it answers, to whom, and what it refuses."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess

import pytest

from mtctl_helpers import MB, ROOT, USAGE, ctl, fake, plain  # noqa: F401 (fixtures)
from public import copy_into
from serve_helpers import NOBODY, Server, serve, soon  # noqa: F401 (fixture)

SECURITY = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
            "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store"}
JSON, OLD, MODERN = "application/json", "text/plain; version=0.0.4; charset=utf-8", \
	"application/openmetrics-text; version=1.0.0; charset=utf-8"


# ---- what there is ----

def test_every_path_answers_with_its_type_and_the_headers_of_all(serve, fake):
	server, pid = serve(), fake()
	types = {"/": "text/html; charset=utf-8", "/page.js": "text/javascript; charset=utf-8", "/page.css": "text/css; charset=utf-8",
	         "/metrics": OLD, "/api/processes": JSON, f"/api/processes/{pid}": JSON, "/healthz": "text/plain; charset=utf-8"}

	for path, kind in types.items():
		got = server.get(path)
		assert (path, got.status, got.headers["Content-Type"]) == (path, 200, kind)
		assert SECURITY.items() <= dict(got.headers).items()
		assert "default-src 'none'" in got.headers["Content-Security-Policy"]
		assert not [name for name in got.headers if name.lower().startswith("access-control")]
		assert int(got.headers["Content-Length"]) == len(got.body) > 0


def test_every_file_of_the_page_is_there_and_is_what_was_written(serve):
	server = serve()

	for file in (ROOT / "ctl" / "ui" / "serve" / "page").iterdir():
		got = server.get("/" if file.name == "index.html" else "/" + file.name)
		assert (file.name, got.status, got.body) == (file.name, 200, file.read_bytes())
	library = pathlib.Path("/usr/share/javascript/dygraphs/dygraph.min.js")  # of another package: a distribution may not have it
	assert server.get("/dygraph.js").body == (library.read_bytes() if library.exists() else b"")


def test_head_is_get_without_a_body(serve, fake):
	server, pid = serve(), fake()

	for path in ("/", "/metrics", "/healthz", f"/api/processes/{pid}"):
		got = server.ask(path, "HEAD")
		assert (got.status, got.body) == (200, b"")
		assert got.headers["Content-Length"] == server.get(path).headers["Content-Length"]


def test_the_list_is_that_of_ps(serve, fake, ctl):
	pid = fake()
	server = serve()

	shown = server.process_of(pid)
	whole = json.loads(ctl("ps", "--json").stdout)
	printed = next(one for one in whole["processes"] if one["pid"] == pid)
	assert set(server.get("/api/processes").json) == set(whole)
	assert set(shown) == set(printed) and "rank" in shown
	for name in ("pid", "ppid", "comm", "command", "state", "rank", "heap_live_bytes", "heap_idle_bytes", "gpu_bytes"):
		assert shown[name] == printed[name]
	assert shown["heap_live_bytes"] == 200 * MB


def test_a_process_is_what_stat_prints(serve, fake, ctl):
	pid = fake()

	assert serve().get(f"/api/processes/{pid}").json == json.loads(ctl("stat", pid, "--json", "--cached").stdout)


def test_sites_and_lines_are_those_of_mtctl_or_the_reason_why_there_are_none(serve, fake, puppet, env, awake, ctl):
	server, pid = serve(), fake()
	refused = server.get(f"/api/processes/{pid}/sites")
	assert refused.status == 404 and "MT_PROF=on" in refused.json["error"]

	one = puppet(env(MIN_MB=0, PROF=1))
	awake(one.pid, env(MIN_MB=0, PROF=1))
	ctl("set", one.pid, "prof=on")
	one.tell("alloc 20000 2000 4000")
	seen, printed = server.get(f"/api/processes/{one.pid}/sites").json, json.loads(ctl("sites", one.pid, "--json").stdout)
	assert set(seen) == set(printed) and seen["kind"] == "live" and seen["bytes"] > 20 * MB
	assert sum(site["bytes"] for site in seen["sites"]) == seen["bytes"] and seen["sites"][0]["where"] in seen["sites"][0]["frames"]
	refused = server.post(f"/api/processes/{one.pid}/lines")
	assert refused.status == 404 and "Python" in refused.json["error"]


def test_metrics_come_in_the_requested_format(serve, fake):
	pid = fake()
	server = serve()
	prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;q=0.2"

	modern, old = server.get("/metrics", Accept=prometheus), server.get("/metrics", Accept="text/plain;version=0.0.4")
	assert (modern.headers["Content-Type"], old.headers["Content-Type"]) == (MODERN, OLD)
	assert modern.text.endswith("# EOF\n") and "# EOF" not in old.text
	assert set(re.findall(r"^# TYPE \S+ (\S+)$", old.text, re.MULTILINE)) <= {"counter", "gauge", "untyped"}
	for got in (modern, old):
		assert re.search(rf'^mtshim_heap_live_bytes{{pid="{pid}",.*}} {200 * MB}$', got.text, re.MULTILINE)


def test_reading_wakes_nobody(serve, fake, mt_dir):
	pid = fake()
	server = serve()
	control = next(mt_dir.glob(f"{pid}-*.control")).read_bytes()

	for path in ("/", "/metrics", "/api/processes", f"/api/processes/{pid}"):
		server.get(path)
	assert server.get(f"/api/processes/{pid}").json["requests_count"] == 0
	assert next(mt_dir.glob(f"{pid}-*.control")).read_bytes() == control


def test_an_answer_is_shared_for_a_while_and_no_longer(serve, fake):
	pid = fake()
	shared, fresh = serve(interval="30"), serve()
	assert shared.process_of(pid) and fresh.process_of(pid)

	os.kill(pid, signal.SIGKILL)
	os.waitpid(pid, 0)
	assert shared.process_of(pid)
	soon(lambda: fresh.process_of(pid) is None)
	soon(lambda: fresh.get(f"/api/processes/{pid}").status == 404)


# ---- what there is not ----

@pytest.mark.parametrize("path", ["/nothing", "/../etc/passwd", "/%2e%2e/etc/passwd", "//etc/passwd", "/page/", "/index.html/..", "/Metrics",
                                  "/metrics/", "/%6detrics", "/api", "/api/", "/api/processes/", "/api/processes/0", "/api/processes/-1",
                                  "/api/processes/self", "/api/processes/99999999999999999999", "/api/processes/1/", "/api/processes/1%00",
                                  "/api/processes/1/maps", "/api/processes/../1"])
def test_what_is_not_in_the_table_is_not_there(serve, path):
	got = serve().get(path)

	assert (got.status, list(got.json)) == (404, ["error"])
	assert SECURITY.items() <= dict(got.headers).items()


def test_other_methods_get_the_allowed_ones(serve, fake):
	server, pid = serve(), fake()

	for method, path, allowed in (("POST", "/metrics", "GET, HEAD"), ("PUT", "/", "GET, HEAD"), ("DELETE", f"/api/processes/{pid}", "GET, HEAD"),
	                              ("OPTIONS", "/api/processes", "GET, HEAD"), ("BREW", "/page.js", "GET, HEAD"),
	                              ("GET", f"/api/processes/{pid}/trim", "POST"), ("HEAD", f"/api/processes/{pid}/trim", "POST"),
	                              ("POST", f"/api/processes/{pid}/snapshot", "GET, HEAD")):
		got = server.ask(path, method, X_Mtctl_Token=server.token)
		assert (method, path, got.status, got.headers["Allow"]) == (method, path, 405, allowed)


def test_sizes_are_limited(serve, fake):
	server, pid = serve(), fake()
	trim = f"/api/processes/{pid}/trim"

	assert server.ask(trim, "POST", b"x" * 5000, X_Mtctl_Token=server.token).status == 413
	assert server.ask(trim, "POST", b"x" * 4000, X_Mtctl_Token=server.token).status == 200
	assert server.raw(f"POST {trim} HTTP/1.1\r\nHost: localhost\r\nX-Mtctl-Token: {server.token}\r\nContent-Length: 99999999999999999999"
	                  "\r\n\r\n".encode()).split()[1] in ("400", "413")
	assert server.ask(trim, "POST", iter([b"x"]), X_Mtctl_Token=server.token).status == 411
	assert server.get("/" + "x" * 2000).status == 414
	assert server.get("/" + "x" * 100_000).status == 414
	assert server.get("/healthz", X_Long="x" * 100_000).status == 431
	assert server.get("/healthz").status == 200


def test_bytes_that_are_no_request_do_no_harm(serve):
	server = serve()

	for data in (b"\0\0\0\0\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
	             b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", b"GET /healthz HTTP/1.1\r\n\r\n"):
		answer = server.raw(data, timeout=1 if data.startswith(b"\0") else 20)  # what looks like no line yet is waited for
		assert not answer or answer.split()[1] in ("400", "403", "413", "505"), (data, answer)
	assert server.get("/healthz").text == "ok\n"


def test_a_process_without_figures_has_an_error_with_the_reason(serve, fake, spawn, bare):
	server = serve()
	plain_process = spawn(["/bin/sleep", "60"], bare)

	asleep, refused = server.get(f"/api/processes/{fake(awake=False)}"), server.get(f"/api/processes/{fake(broken=True)}")
	assert (asleep.status, asleep.json["error"]) == (404, "asleep: it has no files")
	assert refused.status == 502 and "checksum" in refused.json["error"]
	assert server.get(f"/api/processes/{plain_process.pid}").status == 404
	assert server.post(f"/api/processes/{plain_process.pid}/trim").status == 404
	assert server.get("/api/processes/2147483647").status == 404


def test_hostile_text_comes_out_clean(serve, fake, plain, tmp_path):
	text = "\x1b[31m</script><b>\"'\\\n\r\xff\x9b" + "x" * 4000
	pid = fake(text=text)
	folder = tmp_path / "\x1b[31m\udcff\n"
	folder.touch()
	other = fake(environment=dict(plain, MT_DIR=str(folder)), awake=False)
	server = serve()

	for path in ("/api/processes", f"/api/processes/{pid}", f"/api/processes/{other}", "/metrics"):
		got = server.get(path)
		assert not re.search(rb"[^\x20-\x7e\n]", got.body), path
	assert server.get(f"/api/processes/{other}").json["error"].endswith("/?[31m??: refused: not a directory")
	assert "not a directory" in server.post(f"/api/processes/{other}/trim").json["error"]
	shown = server.get(f"/api/processes/{pid}").json
	assert shown["allocator"].startswith("?[31m</script>") and len(shown["allocator"]) < 32


# ---- who may ask ----

def test_the_token_is_128_random_bits(serve):
	first, second = serve(), serve()

	assert re.fullmatch("[0-9a-f]{32}", first.token) and first.token != second.token


def test_everything_but_the_page_itself_needs_the_token(serve, fake):
	server, pid = serve(), fake()
	locked = [("GET", path) for path in ("/metrics", "/api/processes", f"/api/processes/{pid}", f"/api/processes/{pid}/snapshot",
	                                   f"/api/processes/{pid}/sites", "/api/token")]
	locked += [("POST", f"/api/processes/{pid}/trim"), ("POST", f"/api/processes/{pid}/lines"), ("HEAD", "/metrics"), ("GET", "/api/processes/2147483647")]

	wrong = [server.token[:-1], server.token + "x", server.token.upper() + "X", "", " ", server.token[:-1] + "g", "x" * 1000]
	given = [{}, {"Cookie": "token=" + server.token}, {"Authorization": "Basic " + server.token}, {"Authorization": server.token},
	         *({"X_Mtctl_Token": one} for one in wrong), *({"Authorization": "Bearer " + one} for one in wrong)]
	for method, path in locked:
		for headers in given if path.endswith(("trim", "metrics")) else given[:1]:
			got = server.stranger(path, method, **headers)
			assert (method, path, headers, got.status) == (method, path, headers, 401)
			assert got.headers["WWW-Authenticate"].startswith("Bearer ") and (method == "HEAD" or "token" in got.json["error"])
	assert server.stranger(f"/api/processes/{pid}/trim?token=" + server.token, "POST").status == 401
	for path in ("/", "/page.js", "/healthz"):
		assert server.stranger(path).status == 200
	assert server.get(f"/api/processes/{pid}").json["requests_count"] == 0


def test_a_cleanup_is_had_with_the_token_in_either_header(serve, fake):
	server, pid = serve(), fake()

	for headers in ({"Authorization": "Bearer " + server.token}, {"Authorization": "bearer  " + server.token}, {"X_Mtctl_Token": server.token}):
		assert server.post(f"/api/processes/{pid}/trim", **headers).status == 200
	soon(lambda: server.get(f"/api/processes/{pid}").json["requests_count"] == 3)


def test_the_second_token_reads_and_sends_no_requests(serve, fake, tmp_path):
	file, pid = tmp_path / "reader", fake()
	server = serve(f"--read-token-file={file}")
	reader = {"Authorization": "Bearer " + file.read_text().strip()}

	assert file.stat().st_mode & 0o777 == 0o600 and file.read_text().strip() != server.token
	for path in ("/metrics", "/api/processes", f"/api/processes/{pid}"):
		assert server.get(path, **reader).status == 200
	for method, path in (("GET", f"processes/{pid}/snapshot"), ("POST", f"processes/{pid}/trim"), ("GET", f"processes/{pid}/sites"),
	                     ("POST", f"processes/{pid}/lines"), ("GET", "token")):
		got = server.ask(f"/api/{path}", method, **reader)
		assert (got.status, got.json) == (403, {"error": "this token may read figures, and no more"})
	assert server.get(f"/api/processes/{pid}").json["requests_count"] == 0


def test_an_open_server_shows_figures_to_everybody_and_sends_no_requests(serve, fake):
	server, pid = serve("--open"), fake()

	for path in ("/metrics", "/api/processes", f"/api/processes/{pid}"):
		assert server.stranger(path).status == 200
		assert server.get(path, Authorization="Bearer wrong").status == 200
	assert server.stranger(f"/api/processes/{pid}/snapshot").status == 401
	assert server.stranger(f"/api/processes/{pid}/trim", "POST").status == 401
	assert server.post(f"/api/processes/{pid}/trim").status == 200


def test_two_tokens_that_are_one_are_refused(ctl, tmp_path):
	file = tmp_path / "token"

	got = ctl("serve", "--listen=127.0.0.1:0", f"--token-file={file}", f"--read-token-file={file}")
	assert (got.returncode, got.stdout) == (USAGE, "") and got.stderr == "mtctl: --read-token-file: it is the token for everything\n"


def test_a_token_file_is_made_once_and_never_printed(serve, fake, tmp_path):
	file, pid = tmp_path / "token", fake()

	first = serve(f"--token-file={file}")
	token = file.read_text().strip()
	assert file.stat().st_mode & 0o777 == 0o600 and re.fullmatch("[0-9a-f]{32}", token)
	assert first.token == ""
	second = serve(f"--token-file={file}")
	for server in (first, second):
		assert server.ask(f"/api/processes/{pid}/trim", "POST", X_Mtctl_Token=token).status == 200


def test_a_token_file_for_a_group_is_taken_and_a_link_that_leads_nowhere_is_not(serve, ctl, tmp_path):
	file, link = tmp_path / "token", tmp_path / "link"
	file.write_text("0123456789abcdef" * 2)
	file.chmod(0o640)
	link.symlink_to(tmp_path / "nowhere")

	assert serve(f"--read-token-file={file}").get("/metrics", Authorization="Bearer " + file.read_text()).status == 200
	got = ctl("serve", "--listen=127.0.0.1:0", f"--token-file={link}")
	assert got.returncode == USAGE and "No such file" in got.stderr and not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("content, mode, said", [("a" * 32, 0o644, "others may use it"), ("short", 0o600, "16 to 128"),
                                                 ("a" * 200, 0o600, "16 to 128"), ("a b" * 10, 0o600, "without blanks"),
                                                 (None, 0o700, "not a regular file")])
def test_a_token_file_that_is_no_secret_is_refused(ctl, tmp_path, content, mode, said):
	file = tmp_path / "token"
	if content is None:
		file.mkdir()
	else:
		file.write_text(content)
	file.chmod(mode)

	got = ctl("serve", "--listen=127.0.0.1:0", f"--token-file={file}")
	assert (got.returncode, got.stdout) == (USAGE, "") and said in got.stderr and len(got.stderr.splitlines()) == 1


def test_only_known_hosts_are_answered(serve):
	server = serve("--allow-host=node7.example", "--allow-host=proxy")

	for host in ("localhost", "LocalHost:1", "127.0.0.1", f"127.0.0.1:{server.port}", "[::1]:9477", "node7.example:80", "PROXY"):
		assert (host, server.get("/api/processes", Host=host).status) == (host, 200)
	for host in ("evil.example", "evil.example:9477", "localhost.evil.example", "127.0.0.1.evil.example", "node7.example.evil", "0.0.0.0",
	             "10.0.0.1", "", "[::1", "localhost:x", "x" * 300, "localhost/evil"):
		for path in ("/", "/metrics", "/nothing"):
			assert (host, server.get(path, Host=host).status) == (host, 403)


def test_pages_of_other_sites_get_nothing(serve, fake):
	server, pid = serve(), fake()
	trim, own = f"/api/processes/{pid}/trim", f"http://127.0.0.1:{server.port}"

	for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"}, {"Origin": own + ".evil"},
	                {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}, {"Origin": own, "Sec_Fetch_Site": "cross-site"}):
		got = server.post(trim, **headers)
		assert (headers, got.status) == (headers, 403) and "sites" in got.json["error"]
	assert server.get(f"/api/processes/{pid}/snapshot", Sec_Fetch_Site="cross-site").status == 403
	assert server.get("/api/processes", Sec_Fetch_Site="cross-site").status == 403
	assert server.get("/", Sec_Fetch_Site="cross-site").status == 200, "a link may lead to the page"
	for headers in ({"Origin": own}, {"Origin": own, "Sec_Fetch_Site": "same-origin"}, {"Sec_Fetch_Site": "none"}):
		assert (headers, server.post(trim, **headers).status) == (headers, 200)
	assert server.post(trim, Host="localhost:8443", Origin="https://localhost:8443").status == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become nobody")
def test_processes_of_other_users_are_not_there(serve, spawn, fake, mtctl, plain, shim, public_folder):
	"""nobody's server shows nobody's processes alone; root's shows both, and says so."""
	foreign = fake()
	for source in (mtctl.with_name("mtctl-serve"), mtctl, shim):
		copy_into(public_folder, source)
	settings = dict(plain, MT_DIR=str(public_folder / "files"), MT_MIN_MB="0")
	own = spawn([*NOBODY, "env", f"LD_PRELOAD={public_folder / shim.name}", "/bin/sleep", "60"], settings)
	theirs = serve(wrapper=NOBODY, program=public_folder / "mtctl", env=settings)
	roots = serve(env=dict(plain, MT_DIR=""))

	assert roots.process_of(foreign)["state"] == "awake" and roots.process_of(own.pid)["uid"] == 65534
	shown = theirs.get("/api/processes").json["processes"]
	assert own.pid in [one["pid"] for one in shown] and {one["uid"] for one in shown} == {65534}
	assert f'pid="{foreign}"' not in theirs.get("/metrics").text
	for path in ("", "/snapshot"):
		assert theirs.get(f"/api/processes/{foreign}{path}").json == {"error": "no process of this id carries the shim here"}
	assert theirs.post(f"/api/processes/{foreign}/trim").status == 404
	roots.process.terminate()
	theirs.process.terminate()
	assert "processes of all users are shown" in roots.process.stderr.read()
	assert "users" not in theirs.process.stderr.read()


# ---- start and end ----

@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_cleanly(serve, ending):
	server = serve()
	assert server.get("/healthz").status == 200

	with server.connect():
		server.process.send_signal(ending)
		assert server.process.wait(timeout=60) == 0
	assert "mtctl: " not in server.process.stderr.read().replace("mtctl: running as root", "")


def test_under_nohup_the_end_of_a_terminal_is_not_its_own(serve):
	server = serve(wrapper=["env", "--ignore-signal=HUP"])

	server.process.send_signal(signal.SIGHUP)
	for _ in range(3):
		assert server.get("/healthz").status == 200
	server.process.terminate()
	assert server.process.wait(timeout=10) == 0


def test_a_port_in_use_is_one_clear_line(serve, ctl):
	server = serve()

	got = ctl("serve", f"--listen=127.0.0.1:{server.port}")
	assert (got.returncode, got.stdout) == (USAGE, "")
	assert got.stderr == f"mtctl: cannot listen on 127.0.0.1:{server.port}: Address already in use\n"


def test_a_port_can_be_had_again_at_once(serve, spawn, mtctl, plain):
	server = serve()
	with server.connect() as client:
		client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
		assert client.recv(1000)
		server.process.terminate()
		server.process.wait(timeout=10)
	again = Server(spawn([mtctl, "serve", f"--listen=127.0.0.1:{server.port}"], plain))
	assert again.get("/healthz").status == 200


@pytest.mark.parametrize("address, said", [("9477", "ADDRESS:PORT"), (":9477", "ADDRESS:PORT"), ("127.0.0.1", "ADDRESS:PORT"),
                                           ("127.0.0.1:", "ADDRESS:PORT"), ("127.0.0.1:70000", "ADDRESS:PORT"), ("::1:9477", "brackets"),
                                           ("127.0.0.1:-1", "ADDRESS:PORT"), ("203.0.113.1:9477", "Cannot assign"),
                                           ("no.such.host.invalid:1", "cannot listen")])
def test_an_address_that_cannot_be_is_one_clear_line(ctl, address, said):
	got = ctl("serve", "--listen", address)

	assert (got.returncode, got.stdout) == (USAGE, "")
	assert said in got.stderr and len(got.stderr.splitlines()) == 1


def test_wrong_words_are_a_wrong_use(ctl):
	for words in (["--no-such"], ["word"], ["--interval=x"], [*["--allow-host=a"] * 20]):
		assert ctl("serve", *words).returncode == USAGE
	assert ctl("serve", "--help").stdout.startswith("usage: mtctl serve ")


def test_ipv6(spawn, mtctl, plain):
	try:
		socket.create_server(("::1", 0), family=socket.AF_INET6).close()
	except OSError:
		pytest.skip("no IPv6 here")
	server = Server(spawn([mtctl, "serve", "--listen=[::1]:0"], plain))

	assert server.url.startswith("http://[::1]:") and server.get("/healthz").status == 200
	assert server.get("/", Host=f"[::1]:{server.port}").status == 200
	assert server.get("/", Host="[::2]").status == 403


def test_beyond_loopback_it_warns_and_answers_to_its_address(spawn, mtctl, plain):
	server = Server(spawn([mtctl, "serve", "--listen=0.0.0.0:0"], plain))

	assert server.host == "127.0.0.1" and server.get("/healthz").status == 200
	assert server.get("/", Host="evil.example").status == 403
	own = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()
	for address in [one for one in own if "." in one][:1]:
		server.host = address
		assert server.get("/").status == 200
		assert server.get("/", Host="10.255.255.254").status == 403
	server.process.terminate()
	assert "warning: 0.0.0.0:0 is reached from beyond this machine" in server.process.stderr.read()


def test_nothing_is_said_of_loopback(serve):
	server = serve()
	server.process.terminate()

	assert "warning" not in server.process.stderr.read()
