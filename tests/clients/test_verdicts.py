"""`mtctl diagnose` with its defaults on ten healthy real programs at work: no verdict is an alarm. Each is warmed up, and loaded through
the whole diagnosis; all run at once, which takes some two minutes. "unknown" is honest, and no alarm."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import pytest

import agreement
import leftovers
from places import PYTHON

pytestmark = [pytest.mark.long, pytest.mark.alone]

NOBODY = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
WARM_UP_S, LOOK_S = 30, 60
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

TORCH = """
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.set_num_threads(1)
data = TensorDataset(torch.randn(2000, 3, 32, 32), torch.randint(0, 10, (2000,)))
model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * 30 * 30, 10))
optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
while True:
	for images, labels in DataLoader(data, batch_size=50, shuffle=True, num_workers=2):
		optimiser.zero_grad()
		torch.nn.functional.cross_entropy(model(images), labels).backward()
		optimiser.step()
"""
WSGI = """
import json
rows = [{"id": i, "name": f"row {i}"} for i in range(100_000)]
def application(environ, start_response):
	body = json.dumps(rows[::20]).encode()
	start_response("200 OK", [("Content-Length", str(len(body)))])
	return [body]
"""
SINATRA = """
require "json"
require "sinatra/base"
class App < Sinatra::Base
	set :server, "webrick"
	get("/") { (1..5000).map { |n| {id: n, name: "row #{n}"} }.to_json }
end
App.run!(bind: "127.0.0.1", port: ARGV[0].to_i, server_settings: {AccessLog: []})
"""
NODE = """
const http = require("http")
const rows = Array.from({length: 100000}, (_, id) => ({id, name: `row ${id}`}))
http.createServer((_, reply) => reply.end(JSON.stringify(rows.filter(row => row.id % 20 == 0)))).listen(Number(process.argv[2]), "127.0.0.1")
"""
PHP = '<?php $rows = []; for ($i = 0; $i < 20000; $i++) $rows[] = ["id" => $i, "text" => str_repeat("x", $i % 90)]; echo strlen(serialize($rows));'
CELERY = """
import os
from celery import Celery
folder = os.environ["BROKER"]
app = Celery("work", broker="filesystem://")
app.conf.task_ignore_result = True
app.conf.broker_transport_options = {"data_folder_in": folder, "data_folder_out": os.environ.get("WRITTEN", folder), "control_folder": folder}
@app.task
def work(number):
	return len([{"id": n, "text": "x" * (n % 90)} for n in range(number)])
"""
NGINX = """
worker_processes 2; pid {folder}/pid; error_log {folder}/error.log; daemon off;
events {{ worker_connections 64; }}
http {{
	access_log off;
	client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
	uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
	gzip on; gzip_types text/plain;
	server {{ listen 127.0.0.1:{port}; root {folder}/pages; }}
}}
"""


def found(*names):
	for name in names:
		path = shutil.which(name, path="/usr/sbin:/usr/bin:/bin")
		if path:
			return path
	raise LookupError(f"{names[0]} is not installed")


def module(name):
	if subprocess.run([PYTHON, "-c", f"import {name}"], capture_output=True, check=False).returncode != 0:
		raise LookupError(f"the Python module {name} is not installed")


def free_port():
	import socket
	with socket.socket() as one:
		one.bind(("127.0.0.1", 0))
		return one.getsockname()[1]


class Running:
	"""One program in a folder of its own. `load` is called over and over until it is stopped."""

	def __init__(self, bare, shim, mtctl):
		self.folder = pathlib.Path(tempfile.mkdtemp(prefix=leftovers.prefix(), dir="/tmp"))
		self.mt_dir = pathlib.Path(tempfile.mkdtemp(prefix=leftovers.prefix(), dir="/dev/shm"))
		for path in (self.folder, self.mt_dir):
			if NOBODY:
				os.chown(path, NOBODY["user"], NOBODY["group"])
		self.bare, self.mtctl = dict(bare, HOME=str(self.folder)), mtctl
		self.env = dict(self.bare, LD_PRELOAD=str(shim), MT_DIR=str(self.mt_dir))
		self.stack, self.stopped, self.process = contextlib.ExitStack(), threading.Event(), None

	def file(self, name, text):
		path = self.folder / name
		path.parent.mkdir(exist_ok=True)
		path.write_text(text)
		return path

	def start(self, *words, **more):
		self.process = subprocess.Popen([str(word) for word in words], env=dict(self.env, **more), cwd=self.folder,
		                                start_new_session=True, **QUIET, **NOBODY)

	def bare_run(self, *words, timeout=60, **options):
		return subprocess.run([str(word) for word in words], env=self.bare, cwd=self.folder, capture_output=True, timeout=timeout, check=False,
		                      **NOBODY, **options)

	def load(self, once, pause_s=0.05):
		def again():
			while not self.stopped.wait(pause_s):
				with contextlib.suppress(OSError, subprocess.SubprocessError):
					once()
		thread = threading.Thread(target=again)
		thread.start()
		self.stack.callback(thread.join)

	def http(self, port, path="/"):
		self.load(lambda: self.bare_run("ab", "-q", "-n", "20", "-c", "2", f"http://127.0.0.1:{port}{path}"), 0.5)

	def mt(self, *words):
		return subprocess.run([str(self.mtctl), *map(str, words)], env=dict(self.bare, MT_DIR=str(self.mt_dir)), capture_output=True,
		                      text=True, timeout=300, check=False)

	def tree(self, pid=None):
		pid = pid or self.process.pid
		yield pid
		with contextlib.suppress(OSError):
			for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
				yield from self.tree(int(child))

	def diagnose(self):
		"""The process of the tree with the largest RSS that lasts: a worker where there are workers, and none that helps for a moment."""
		def rss(pid):
			with contextlib.suppress(OSError):
				return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1])
			return 0
		time.sleep(WARM_UP_S / 2)
		lasting = set(self.tree())
		time.sleep(WARM_UP_S / 2)
		chosen = max(lasting.intersection(self.tree()) or {self.process.pid}, key=rss)
		done = self.mt("diagnose", chosen, f"--for={LOOK_S}", "--json")
		self.seen = agreement.look(self.mt, chosen)
		return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

	def stop(self):
		self.stopped.set()
		if self.process:
			with contextlib.suppress(ProcessLookupError):
				os.killpg(self.process.pid, 15)
			with contextlib.suppress(subprocess.TimeoutExpired):
				self.process.wait(10)
			with contextlib.suppress(ProcessLookupError):
				os.killpg(self.process.pid, 9)
			self.process.wait()
		self.stack.close()
		for path in (self.folder, self.mt_dir):
			shutil.rmtree(path, ignore_errors=True)


def torch_training(run):
	module("torch")
	run.start(PYTHON, run.file("train.py", TORCH))


def redis(run):
	port = free_port()
	run.start(found("redis-server"), "--port", port, "--save", "", "--maxmemory", "60mb", "--maxmemory-policy", "allkeys-lru")
	work = ["redis-benchmark", "-p", port, "-q", "-r", "20000", "-d", "500"]
	for _ in range(50):  # until it listens; then all keys are there
		if run.bare_run(*work, "-n", "200000", "-P", "50", "-t", "set").returncode == 0:
			break
		time.sleep(0.2)
	run.load(lambda: run.bare_run(*work, "-n", "3000", "-t", "set,get"), 0.5)


def postgresql(run):
	programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))
	if not programs or not shutil.which("pgbench"):
		raise LookupError("postgresql is not installed")
	made = run.bare_run(programs[-1] / "initdb", "-D", run.folder / "data", "-A", "trust", "--no-sync", "-U", "postgres",
	                    timeout=300)
	assert made.returncode == 0, made.stderr
	run.start(programs[-1] / "postgres", "-D", run.folder / "data", "-k", run.folder, "-c", "listen_addresses=", "-c", "fsync=off")
	words = ["-h", run.folder, "-U", "postgres", "postgres"]
	for _ in range(100):
		if run.bare_run("pgbench", "-i", "-q", "-s", "3", *words, timeout=300).returncode == 0:
			break
		time.sleep(0.2)
	# One run: each of its connections is a process of the server, which ends with it.
	bench = subprocess.Popen([str(word) for word in ("pgbench", "-c", "2", "-T", "600", "-R", "100", *words)], env=run.bare, cwd=run.folder,
	                         **QUIET, **NOBODY)
	run.stack.callback(bench.wait)
	run.stack.callback(bench.kill)


def nginx(run):
	port = free_port()
	run.file("pages/text.txt", "some words of a page\n" * 5000)
	run.start(found("nginx"), "-c", run.file("nginx.conf", NGINX.format(folder=run.folder, port=port)), "-p", run.folder, "-e",
	          run.folder / "error.log")
	run.http(port, "/text.txt")


def gunicorn(run):
	port = free_port()
	run.file("web.py", WSGI)
	run.start(found("gunicorn"), "-w", "2", "-b", f"127.0.0.1:{port}", "web:application")
	run.http(port)


def sinatra(run):
	if run.bare_run(found("ruby"), "-e", 'require "sinatra/base"').returncode != 0:
		raise LookupError("sinatra is not installed")
	port = free_port()
	run.start(found("ruby"), run.file("app.rb", SINATRA), port)
	run.http(port)


def git_gc(run):
	"""One packing that takes minutes: files that are alike, and each compared with hundreds of others."""
	folder = run.folder / "repository"
	assert run.bare_run("git", "init", "-q", folder).returncode == 0
	chance = random.Random(1)
	words = [f"word{n}" for n in range(2000)]
	for n in range(300):
		(folder / f"{n}.txt").write_text("\n".join(" ".join(chance.choices(words, k=8)) for _ in range(4000)))
	run.bare_run("chown", "-R", "65534:65534", folder)
	for words in (["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "all"]):
		assert run.bare_run("git", "-C", folder, *words, timeout=300).returncode == 0
	run.start(found("git"), "-C", folder, "-c", "pack.threads=1", "-c", "gc.aggressiveWindow=1000", "gc", "-q", "--aggressive", "--force")


def node(run):
	port = free_port()
	run.start(found("node"), run.file("server.js", NODE), port)
	run.http(port)


def php_fpm(run):
	programs = sorted(pathlib.Path("/usr/sbin").glob("php-fpm*"))
	if not programs:
		raise LookupError("php-fpm is not installed")
	page, place = run.file("page.php", PHP), run.folder / "socket"
	run.file("pool.conf", f"[global]\nerror_log = {run.folder}/fpm.log\ndaemonize = no\n[www]\nlisten = {place}\npm = static\n"
	                      "pm.max_children = 2\n")
	run.start(programs[-1], "-F", "-y", run.folder / "pool.conf", "-p", run.folder)
	asked = dict(run.bare, SCRIPT_FILENAME=str(page), SCRIPT_NAME="/page.php", REQUEST_METHOD="GET")
	run.load(lambda: subprocess.run([found("cgi-fcgi"), "-bind", "-connect", place], env=asked, timeout=30, check=False, **QUIET, **NOBODY))


def celery(run):
	module("celery")
	run.file("work.py", CELERY)
	broker, written = run.folder / "broker", run.folder / "written"
	for folder in (broker, written):
		folder.mkdir()
		if NOBODY:
			os.chown(folder, NOBODY["user"], NOBODY["group"])
	run.start(PYTHON, "-m", "celery", "-A", "work", "worker", "-c", "2", "--without-gossip", "--without-mingle", BROKER=str(broker))
	env = dict(run.bare, BROKER=str(broker), WRITTEN=str(written))

	def ask():
		"""A message is moved to the broker once it is whole: celery ends at one that is half written."""
		subprocess.run([PYTHON, "-c", "import work\nfor n in range(100):\n\twork.work.delay(20000 + n)\n"], env=env, cwd=run.folder, timeout=60,
		               check=False, **QUIET, **NOBODY)
		for message in written.iterdir():
			message.rename(broker / message.name)
	run.load(ask, 2)


PROGRAMS = [torch_training, redis, postgresql, nginx, gunicorn, sinatra, git_gc, node, php_fpm, celery]


@pytest.fixture(scope="module")
def verdicts(bare, shim, mtctl, public):
	"""The exit code and the report of each program by its name; the reason of one that cannot run."""
	library = public(shim)

	def one(program):
		run = Running(bare, library, mtctl)
		try:
			program(run)
			code, said = run.diagnose()
			return code, said, run.seen
		except LookupError as missing:
			return None, str(missing), None
		except (AssertionError, OSError, subprocess.SubprocessError) as failed:
			return -1, repr(failed), None
		finally:
			run.stop()
	with concurrent.futures.ThreadPoolExecutor(len(PROGRAMS)) as pool:
		results = dict(zip([program.__name__ for program in PROGRAMS], pool.map(one, PROGRAMS)))
	for name, (code, said, _) in results.items():
		print(f"{name}: {code} {said['verdict'] + ': ' + said['title'] if isinstance(said, dict) else said}", file=sys.stderr)
	return results


@pytest.mark.parametrize("name", [program.__name__ for program in PROGRAMS])
def test_a_healthy_program_at_work_is_no_alarm(verdicts, name):
	code, said, _ = verdicts[name]
	if code is None:
		pytest.skip(said)

	assert isinstance(said, dict), said
	assert said["verdict"] in ("healthy", "unknown"), json.dumps(said, indent=1)
	assert not said["ended"], "the program did not run to the end"


@pytest.mark.parametrize("name", [program.__name__ for program in PROGRAMS])
def test_the_commands_agree_on_a_program_at_work(verdicts, name):
	code, said, seen = verdicts[name]
	if code is None:
		pytest.skip(said)

	assert isinstance(said, dict), said
	wrong = agreement.of_one_look(seen) + agreement.with_diagnosis(seen, said, tried=True)
	assert not wrong, "\n".join([*wrong, seen["text"], json.dumps(said, indent=1)])
