"""nginx under the preload: SIGUSR1 has its master and its workers open their logs again; SIGHUP forks new workers."""
import http.client
import pathlib
import shutil
import signal
import socket
import subprocess

import pytest

CONFIGURATION = """
worker_processes 2;
pid {folder}/pid;
error_log {folder}/error.log;
daemon off;
events {{ worker_connections 64; }}
http {{
	access_log {folder}/access.log;
	client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
	uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
	gzip on; gzip_types text/plain; gzip_min_length 100;
	server {{
		listen unix:{folder}/socket;
		root {folder}/pages;
		location /again/ {{ proxy_pass http://unix:{folder}/socket:/; }}
	}}
}}
"""


def ask(path, url):
	connection = http.client.HTTPConnection("localhost", timeout=30)
	connection.sock = socket.socket(socket.AF_UNIX)
	connection.sock.settimeout(30)
	connection.sock.connect(str(path))
	try:
		connection.request("GET", url, headers={"Accept-Encoding": "gzip"})
		answer = connection.getresponse()
		return answer.status, answer.read()
	finally:
		connection.close()


@pytest.fixture
def nginx(spawn, ordinary, wait_for):
	program = shutil.which("nginx", path="/usr/sbin:/usr/bin")
	if program is None:
		pytest.skip("nginx is not installed")
	folder = ordinary.folder
	(folder / "pages").mkdir(mode=0o755)
	(folder / "pages" / "text.txt").write_text("some words of a page\n" * 5000)
	(folder / "nginx.conf").write_text(CONFIGURATION.format(folder=folder))
	for path in (folder / "pages" / "text.txt", folder / "nginx.conf"):
		path.chmod(0o644)

	def start(env):
		process = spawn([program, "-c", folder / "nginx.conf", "-p", folder, "-e", folder / "error.log"], env, cwd=folder,
		                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **ordinary.user)
		wait_for(lambda: (folder / "socket").exists() and len(workers(process)) == 2, 20, "nginx's workers")
		return process
	return start


def workers(process):
	return sorted(map(int, pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text("ascii").split()))


def test_nginx_serves_and_reopens_its_logs(nginx, bare, stats, awake, wait_for, files_of_the_dead, ordinary, backend):
	folder = ordinary.folder

	def served(process):
		answers = [ask(folder / "socket", url) for url in ["/text.txt", "/again/text.txt", "/nothing"] * 5]
		(folder / "access.log").unlink()
		process.send_signal(signal.SIGUSR1)
		wait_for(lambda: (folder / "access.log").exists() or None, 10, "the log is opened again")
		return answers + [ask(folder / "socket", "/text.txt")]

	def stopped(process):
		process.send_signal(signal.SIGQUIT)
		return process.wait(timeout=20)

	expected = served(plain := nginx(bare))
	assert stopped(plain) == 0
	settings = ordinary.env(MIN_MB=0)

	process = nginx(settings)
	first = workers(process)
	for pid in first:
		awake(pid, settings)
	assert served(process) == expected
	counts = {pid: stats(pid, settings)["cleanups"]["signal"] for pid in [process.pid, *first]}
	assert counts == dict.fromkeys(counts, 0)
	process.send_signal(signal.SIGHUP)
	wait_for(lambda: len(now := workers(process)) == 2 and not set(now) & set(first), 20, "new workers in the place of the old")
	assert ask(folder / "socket", "/text.txt") == expected[0]
	wait_for(lambda: not files_of_the_dead(ordinary.mt_dir), 8, "the files of the old workers are gone")
	assert stopped(process) == 0
	assert "exited on signal" not in (folder / "error.log").read_text()
