#!/usr/bin/python3
"""One backend of PostgreSQL over two rounds of what a session does: it makes tables, sorts, joins and aggregates in memory, builds large
values, prepares statements, runs PL/pgSQL; then the session stays open and idle, as those of a connection pool do.

The server has 16 MB of shared buffers, no worker of its own for the queries, no disk to wait for and nothing in /dev/shm. Its client
is psql, outside of the candidate. What is watched is the backend; cpu_s and minor_faults are those of the whole server. PostgreSQL
refuses root: a root's server runs in a user namespace, as user 1000 of it.
"""
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import procself
import realprog

SETTINGS = {"listen_addresses": "", "shared_buffers": "16MB", "work_mem": "64MB", "maintenance_work_mem": "64MB", "fsync": "off",
            "dynamic_shared_memory_type": "mmap", "autovacuum": "off", "max_parallel_workers_per_gather": "0", "jit": "off",
            "max_wal_size": "4GB"}
ROUND = r"""
create temp table event as select i as id, i * 2654435761 % {owners} as owner, 'kind ' || i * 40503 % 37 as kind,
  i * 69069 % 1000 / 7.0 as weight, repeat(md5(i::text), (1 + i * 7919 % 9)::int) as note from generate_series(1::bigint, {rows}) i;
create index on event (owner, weight);
create index on event (note);
select count(*) from (select kind, owner, count(*), max(note) from event group by kind, owner) t;
select count(*) from (select note, row_number() over (order by note desc) from event) t;
select count(*) from event a join (select owner, array_agg(note) notes from event group by owner) b using (owner);
select sum(length(t)) from (select string_agg(note, ',' order by id) t from event group by owner % 10) t;
select sum(length(j::text)) from (select jsonb_agg(to_jsonb(event)) j from event where id % 4 = 0 group by owner % 20) t;
do $$
declare
  all_of_it jsonb := '{{}}';
  lines text[] := '{{}}';
begin
  for i in 1..{names} loop
    execute format('create table t_{round}_%s (id integer primary key, name text unique, at timestamp default now())', i);
    execute format('prepare p_{round}_%s as select id, name from t_{round}_%s where id = $1 and name like $2', i, i);
    lines := lines || repeat('line ' || i, 40);
    all_of_it := all_of_it || jsonb_build_object('name ' || i, lines[1:50]);
  end loop;
end $$;
drop table event;
discard plans;
"""


def server_programs():
	"""Debian keeps them out of PATH, in a folder for each version."""
	found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parent.parent.name))
	if not found:
		raise SystemExit("postgresql is not installed: scripts/bootstrap")
	return found[-1].parent


def start(programs, folder, **popen):
	"""The server over a cluster that initdb has made. env brings the candidate's variables: an allocator with a thread of its own, loaded
	into unshare, would keep it from making the namespace."""
	words = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
	brought = [f"{name}={value}" for name, value in realprog.candidate_variables().items()]
	return realprog.Program([*as_a_user(), "env", *brought, programs / "postgres", "-D", f"{folder}/data", "-k", folder, *words], env={},
		stderr=subprocess.DEVNULL, **popen)


def make_cluster(programs, folder):
	subprocess.run([*as_a_user(), programs / "initdb", "-D", f"{folder}/data", "--locale=C", "-E", "UTF8", "-A", "trust", "--no-sync", "-U",
		"postgres"], stdout=subprocess.DEVNULL, check=True)


def as_a_user():
	return ["unshare", "--user", "--map-user=1000", "--map-group=1000"] if os.getuid() == 0 else []


class Session:
	"""psql, which waits for more until its input ends."""

	def __init__(self, folder):
		self.process = subprocess.Popen(["psql", "-h", folder, "-U", "postgres", "-XqAt", "-v", "ON_ERROR_STOP=1"], stdin=subprocess.PIPE,
			stdout=subprocess.PIPE, text=True)

	def say(self, text):
		"""Returns the answer's last line."""
		self.process.stdin.write(text + "\n\\echo done\n")
		self.process.stdin.flush()
		last = ""
		for line in self.process.stdout:
			if line.strip() == "done":
				return last
			last = line.strip()
		raise SystemExit("the session ended before its work was done")

	def end(self):
		self.process.stdin.close()
		if self.process.wait() != 0:
			raise SystemExit(f"psql ended with {self.process.returncode}")


def wait_ready(programs, folder):
	for _ in range(300):
		if subprocess.run([programs / "pg_isready", "-q", "-h", folder], check=False).returncode == 0:
			return
		time.sleep(0.05)
	raise SystemExit("postgres did not start")


def main():
	options = realprog.parse_options(__doc__, rounds=2)
	realprog.require("psql", "unshare")
	programs = server_programs()
	with tempfile.TemporaryDirectory(prefix="mtshim-bench-") as folder:
		make_cluster(programs, folder)
		program = start(programs, folder, watched=False)
		wait_ready(programs, folder)
		session = Session(folder)
		backend = int(session.say("select pg_backend_pid();"))
		realprog.say("watch", pid=backend)
		begun = time.monotonic()
		for number in range(options.rounds):
			rows = max(2000, int(120_000 * options.scale))
			session.say(ROUND.format(rows=rows, owners=rows // 40, names=max(20, int(300 * options.scale)), round=number))
		work_s = time.monotonic() - begun
		realprog.lie_idle(options.idle)
		peak = procself.status_mib("VmHWM", backend)
		session.end()
		used = program.finish(signal.SIGINT)
	realprog.print_figures(work_s=work_s, **{**used, "peak_mib": peak})


if __name__ == "__main__":
	main()
