"""Celery and gunicorn, whose worker processes count for themselves, IPython, and what the pytest plugin costs."""
import collections
import http.client
import json
import re
import signal
import socket
import subprocess

import pytest


@pytest.fixture
def celery(commands, spawn, run, programs, tmp_path):
	"""celery(name, env): the results of 12 tasks by a worker with two processes, and the rounds before each task, by process."""
	def work(name, environment):
		folder = tmp_path / name
		folder.mkdir()
		environment = dict(environment, BROKER=str(folder), PYTHONPATH=str(programs))
		worker = spawn([commands("small") / "python", "-m", "celery", "-A", "celery_tasks", "worker", "--pool=prefork", "--concurrency=2"],
		               environment, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
		asked = run([commands("small") / "python", programs / "celery_ask.py"], environment, timeout=120)
		worker.send_signal(signal.SIGTERM)
		assert (asked.returncode, worker.wait(timeout=60)) == (0, 0), asked.stderr
		return asked.stdout, json.loads(asked.stderr.splitlines()[-1])
	return work


def test_a_celery_worker_ends_a_round_each_second_task(celery, bare, env):
	plain, none = celery("plain", bare)
	under, figures = celery("under", env())

	assert under == plain and "ValueError(3)" in plain
	assert {rounds for _, rounds in none} == {0}
	by_process = collections.defaultdict(list)
	for pid, rounds in figures:
		by_process[pid].append(rounds)
	# 12 tasks of two processes are 5 or 6 rounds. The last task of a process does not see its own, and the failed one says nothing.
	assert sum(max(rounds) for rounds in by_process.values()) in (4, 5)
	assert all(after - before in (0, 1) for rounds in by_process.values() for before, after in zip(rounds, rounds[1:]))


CONFIGURATION = '''
from mtshim.integrations.gunicorn import post_fork, rounds, when_ready, worker_exit
workers = 2
preload_app = True
accesslog = None
post_request = rounds(every=3)
'''
APPLICATION = '''
import os
import mtshim

def application(environ, start_response):
	start_response("200 OK", [("Content-Type", "text/plain"), ("Pid", str(os.getpid())), ("Rounds", str(mtshim.stats().rounds_count))])
	return [environ["PATH_INFO"].encode()]
'''


class UnixConnection(http.client.HTTPConnection):
	def __init__(self, path):
		super().__init__("localhost", timeout=30)
		self.path = str(path)

	def connect(self):
		self.sock = socket.socket(socket.AF_UNIX)
		self.sock.settimeout(30)
		self.sock.connect(self.path)


def ask(path, number):
	connection = UnixConnection(path)
	try:
		connection.request("GET", f"/{number}")
		answer = connection.getresponse()
		return answer.status, answer.read(), int(answer.headers["Pid"]), int(answer.headers["Rounds"])
	finally:
		connection.close()


ASGI_APPLICATION = """
import os
import mtshim
from mtshim.integrations.asgi import RoundMiddleware

async def reply(scope, receive, send):
	if scope["type"] == "http":
		headers = [(b"pid", b"%d" % os.getpid()), (b"rounds", b"%d" % mtshim.stats().rounds_count)]
		await send({"type": "http.response.start", "status": 200, "headers": headers})
		await send({"type": "http.response.body", "body": scope["path"].encode()})

application = RoundMiddleware(reply, every=3)
"""


@pytest.fixture
def gunicorn(commands, spawn, wait_for, tmp_path):
	"""gunicorn(name, env, application, *options): replies to 20 requests, and the log."""
	(tmp_path / "gunicorn.conf.py").write_text(CONFIGURATION)

	def serve(name, environment, application=APPLICATION, *options):
		(tmp_path / "application.py").write_text(application)
		path, log = tmp_path / name, tmp_path / f"{name}.log"
		with open(log, "w", encoding="utf-8") as out:
			server = spawn([commands("small") / "python", "-m", "gunicorn", "--bind", f"unix:{path}", "--worker-tmp-dir", tmp_path,
			                *options, "application:application"], environment, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=out)
		wait_for(lambda: log.read_text().count("in worker") == 2, 60, "two workers")
		answers = [ask(path, number) for number in range(20)]
		server.send_signal(signal.SIGTERM)
		assert server.wait(timeout=60) == 0
		return answers, log.read_text()
	return serve


def test_the_middleware_ends_a_round_each_third_request_of_uvicorns_worker(gunicorn, bare, env):
	"""Which calls no hook after a request."""
	worker = ["--worker-class", "uvicorn_worker.UvicornWorker"]
	plain, _ = gunicorn("plain", bare, ASGI_APPLICATION, *worker)
	under, _ = gunicorn("under", env(), ASGI_APPLICATION, *worker)

	assert [answer[:2] for answer in under] == [answer[:2] for answer in plain] and {rounds for *_, rounds in plain} == {0}
	by_process = collections.defaultdict(list)
	for _, _, pid, rounds in under:
		by_process[pid].append(rounds)
	# The replies of a process say how many rounds the requests before have ended.
	assert all(rounds == [number // 3 for number in range(len(rounds))] for rounds in by_process.values())


def test_gunicorns_workers_end_a_round_each_third_request_and_log_what_was_returned(gunicorn, bare, env):
	plain, plain_log = gunicorn("plain", bare)
	under, log = gunicorn("under", env(MIN_MB=0))

	assert [answer[:2] for answer in under] == [answer[:2] for answer in plain]
	assert plain_log.count("mtshim: not active in worker") == 2 and "returned" not in plain_log
	assert log.count("mtshim: active, on jemalloc in worker") == 2
	by_process = collections.Counter(pid for _, _, pid, _ in under)
	logged = {int(pid): int(rounds) for pid, rounds in re.findall(r"mtshim: worker (\d+): (\d+) rounds, .* MB returned", log)}
	assert len(logged) == 2
	assert {pid: logged[pid] for pid in by_process} == {pid: requests // 3 for pid, requests in by_process.items()}


def test_the_magic_of_ipython_cleans_up_and_says_what_it_returned(commands, run, bare, env, programs, tmp_path):
	def session(environment):
		done = run([commands("small") / "python", "-m", "IPython", "--no-banner", "--colors=NoColor", programs / "session.ipy"],
		           dict(environment, IPYTHONDIR=str(tmp_path)), timeout=120)
		assert "UsageError: level is 'hard'; it must be one of purge, light, heavy" in done.stderr
		return done.stdout.splitlines()

	plain = session(bare)
	under = session(env())

	assert plain == ["mtshim is not active: start Jupyter with `mtshim run -- jupyter lab`"] * 2
	assert float(re.fullmatch(r"([\d.]+) MB returned", under[0])[1]) > 150
	assert re.fullmatch(r"[\d.]+ MB resident, [\d.]+ MB in use on jemalloc; 0 light, 1 heavy cleanups, \d+ purges, [\d.]+ MB returned", under[1])
	assert under[2] == under[1] and len(under) == 3


def test_pytest_loads_the_plugin_of_the_wheel(commands, run, env, tmp_path):
	(tmp_path / "test_leak.py").write_text("kept = []\ndef test_leak(): kept.append(bytearray(50 << 20))\ndef test_clean(): bytearray(50 << 20)\n")

	without = run([commands("small") / "python", "-m", "pytest", "-q", "test_leak.py"], env(), cwd=tmp_path)
	watched = run([commands("small") / "python", "-m", "pytest", "-q", "--mtshim-leak-mb=20", "test_leak.py"], env(), cwd=tmp_path)

	assert "2 passed" in without.stdout and without.returncode == 0
	assert watched.returncode == 1 and "2 passed, 1 error" in watched.stdout and "test_leak leaves 5" in watched.stdout
