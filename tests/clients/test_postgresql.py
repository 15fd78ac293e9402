"""PostgreSQL under the preload: a process for each connection and each parallel worker, which wake each other with SIGUSR1."""
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import time

import pytest

SETTINGS = {"listen_addresses": "", "fsync": "off", "dynamic_shared_memory_type": "mmap", "shared_buffers": "16MB",
            "autovacuum": "off", "max_connections": "20", "log_checkpoints": "off",
            # Every query is worth four workers.
            "max_parallel_workers_per_gather": "4", "min_parallel_table_scan_size": "0", "parallel_setup_cost": "0",
            "parallel_tuple_cost": "0"}
QUERY = "select bid, count(*), sum(aid % 7), max(filler) from pgbench_accounts group by 1 order by 1;\n"
QUERIES = 8


def programs_folder():
	"""Debian keeps the server's programs out of PATH, in a folder for each version."""
	def version(path):
		return float(path.parent.parent.name)

	found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=version)
	if not found or shutil.which("pgbench") is None or shutil.which("psql") is None:
		pytest.skip("postgresql is not installed")
	return found[-1].parent


class Cluster:
	"""A server in a folder of its own, on a Unix socket alone. Its processes lead sessions of their own, so only the server
	itself can end them all: .stop() in every case."""

	def __init__(self, run, spawn, wait_for, ordinary, name, env):
		self.run_one, self.env, self.user = run, env, ordinary.user
		self.folder, self.log = ordinary.folder / name, ordinary.folder / f"{name}.log"
		self.programs = programs_folder()
		done = self.run(self.programs / "initdb", "-D", self.folder, "--locale=C", "-E", "UTF8", "-A", "trust", "--no-sync",
		                "-U", "postgres", env=env)
		assert done.returncode == 0, done.stdout + done.stderr
		self.said_by_initdb = [done.stdout.replace(str(self.folder), ""), done.stderr]
		options = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
		with open(self.log, "w", encoding="ascii") as log:
			self.server = spawn([self.programs / "postgres", "-D", self.folder, "-k", self.folder, *options], env,
			                    stdout=subprocess.DEVNULL, stderr=log, **self.user)
		self.connection = ["-h", str(self.folder), "-U", "postgres"]
		wait_for(lambda: self.run("psql", *self.connection, "-c", "select 1").returncode == 0, 30, "a connection")

	def run(self, *words, env=None, **options):
		"""Clients run without the shim unless told otherwise."""
		bare = {name: value for name, value in self.env.items() if name != "LD_PRELOAD"}
		return self.run_one(words, env or bare, cwd="/", **self.user, **options)

	def processes(self):
		children = pathlib.Path(f"/proc/{self.server.pid}/task/{self.server.pid}/children").read_text("ascii")
		return [self.server.pid, *map(int, children.split())]

	def stop(self, how=signal.SIGINT):
		if self.server.poll() is None:
			self.server.send_signal(how)
		return self.server.wait(timeout=30)


@pytest.fixture
def cluster(run, spawn, wait_for, ordinary):
	"""cluster(name, env): a server whose programs, and initdb before it, had this environment."""
	try:
		pwd.getpwuid(ordinary.user.get("user", os.geteuid()))
	except KeyError:
		pytest.skip("initdb refuses a user without a name")
	made = []

	def make(name, env):
		made.append(Cluster(run, spawn, wait_for, ordinary, name, env))
		return made[-1]

	yield make
	for one in made:
		one.stop(signal.SIGQUIT)


def work(one, pgbench_env=None):
	"""What can be compared of one cluster: what initdb, pgbench and the tables say."""
	done = [one.run("pgbench", *one.connection, "-i", "-q", "-s", "1", "postgres", env=pgbench_env),
	        one.run("pgbench", *one.connection, "-n", "--random-seed=7", "-c", "4", "-j", "2", "-t", "100", "postgres",
	                env=pgbench_env),
	        one.run("psql", *one.connection, "-At", "-c", "select count(*), sum(abalance) from pgbench_accounts;"
	                "select count(*), sum(delta) from pgbench_history; select no_such_thing")]
	return one.said_by_initdb, [(ran.returncode, re.sub(r"\d+\.\d+", "N", ran.stdout)) for ran in done]


def query_in_parallel(one, spawn, wait_for):
	"""What parallel queries of one connection say while its process gets yet more of the signal; and that process, which
	stays connected."""
	bare = {name: value for name, value in one.env.items() if name != "LD_PRELOAD"}
	said = one.log.with_suffix(".out")
	with open(said, "w", encoding="ascii") as out:
		client = spawn(["psql", *one.connection, "-At", "postgres"], bare, cwd="/", stdout=out, **one.user)
	client.stdin.write("select pg_backend_pid();\n")
	client.stdin.flush()
	backend_pid = int(wait_for(said.read_text, what="the backend's pid"))
	client.stdin.write("explain (costs off) " + QUERY + QUERY * QUERIES + "\\echo done\n")
	client.stdin.flush()
	end = time.monotonic() + 60
	while not said.read_text().endswith("done\n"):
		assert time.monotonic() < end and client.poll() is None, said.read_text()[-1000:]
		os.kill(backend_pid, signal.SIGUSR1)
		time.sleep(0.005)
	return said.read_text().splitlines()[1:], backend_pid


def test_postgresql_answers_the_same_its_own_signals_are_no_cleanups_and_no_files_are_left(cluster, spawn, bare, stats, control, ordinary,
                                                                                          wait_for, files_of_the_dead):
	plain = cluster("plain", bare)
	worked, (queried, _) = work(plain), query_in_parallel(plain, spawn, wait_for)
	assert plain.stop() == 0

	for backend in ("jemalloc", "system"):
		settings = ordinary.env(MIN_MB=0, ALLOCATOR=backend)
		shimmed = cluster(backend, settings)
		assert work(shimmed, settings) == worked
		said, backend_pid = query_in_parallel(shimmed, spawn, wait_for)
		assert said == queried
		assert any("Workers Planned: 4" in line for line in said)
		pids = shimmed.processes()
		assert backend_pid in pids and len(pids) > 4
		assert {pid: stats(pid, settings)["cleanups"]["signal"] for pid in pids} == dict.fromkeys(pids, 0)
		# What is asked for by mtctl is done as ever.
		assert control(settings, "trim", backend_pid).returncode == 0
		# Of the dozen shells and servers that initdb runs, of pgbench, and of these.
		for _ in range(5):
			assert shimmed.run("psql", *shimmed.connection, "-c", "select 1", env=settings).returncode == 0
		wait_for(lambda: not files_of_the_dead(ordinary.mt_dir), 8, "the files of ended processes are gone")
		assert shimmed.stop() == 0
		wait_for(lambda: not files_of_the_dead(ordinary.mt_dir), 5, "the server's own are gone")
		assert not re.search(r"mtshim\[|PANIC|FATAL(?!:  (the database system is|terminating connection due to admin))|terminated by signal",
		                     shimmed.log.read_text())
