#!/usr/bin/python3
"""Python servers that fork their workers after their data are loaded: that no cleanup copies what parent and workers share. A
collection of Python's would, since it writes to each object's header. Exits 1 where a trim, a round or pressure has made memory
more, or a worker was killed. The part at a limit wants memory groups that it may make.

  tests/stress/limits_prefork.py [--runs 5] [--backend jemalloc] [--backend system] [--shim FILE] [--ctl FILE]
"""
import argparse
import contextlib
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "lib"))
import leftovers
import memory_group

SERVER = HERE / "prefork_server.py"
ROWS = 250_000          # 80 MB, of which a collection writes to 50
MOST_MORE_MB = 2        # that a cleanup may add to a process
LIMIT_MB = 222          # 6 workers of 20 MB and their parent fill it to 92 % without the shim
BACKENDS = ["jemalloc", "system"]


@dataclasses.dataclass
class Server:
	process: subprocess.Popen
	workers: list

	@property
	def pids(self):
		return [self.process.pid, *self.workers]

	def ends(self):
		"""Returns the exit statuses of the workers."""
		return [int(word) for word in self.process.stdout.readline().split()]


@contextlib.contextmanager
def server(environment, workers, mb, seconds, rows=ROWS, **options):
	process = subprocess.Popen(["/usr/bin/python3", SERVER, *map(str, (rows, workers, mb, seconds))], env=environment,
	                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True, **options)
	try:
		yield Server(process, [int(word) for word in process.stdout.readline().split()])
	finally:
		with contextlib.suppress(ProcessLookupError):
			os.killpg(process.pid, signal.SIGKILL)
		process.communicate()


def private_mb(pid):
	"""Returns the private memory of this process."""
	text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
	return sum(int(kb) for kb in re.findall(r"^Private_(?:Clean|Dirty): +(\d+)", text, re.M)) / 1024


def tree_mb(pids):
	"""Returns the memory of all processes of the tree, each shared page once."""
	return sum(int(re.search(r"^Pss: +(\d+)", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)[1])
	           for pid in pids) / 1024


def settings(shim, backend, folder, **more):
	bare = {name: value for name, value in os.environ.items() if not name.startswith("MT_") and name != "LD_PRELOAD"}
	return {**bare, "LD_PRELOAD": str(shim), "MT_ALLOCATOR": backend, "MT_DIR": str(folder), **more}


def trim(ctl, environment, pid):
	plain = {name: value for name, value in environment.items() if name != "LD_PRELOAD"}
	return subprocess.run([str(ctl), "trim", str(pid)], env=plain, capture_output=True, text=True, timeout=30)


def trim_all(ctl, environment, workers=4, mb=20, rows=ROWS):
	"""Trims each idle worker, then their parent. Answers, of each process, by how many MB its own memory grew; by how many the
	tree's did; and what mtctl said."""
	with server(environment, workers, mb, 60, rows) as tree:
		time.sleep(1.5)  # the settling after so many allocations is no cleanup of ours
		before = [private_mb(pid) for pid in tree.pids]
		tree_before = tree_mb(tree.pids)
		said = [trim(ctl, environment, pid) for pid in [*tree.workers, tree.process.pid]]
		tree_more = tree_mb(tree.pids) - tree_before
		# Once the workers are trimmed the parent alone may have pages that were theirs: it is judged by the tree.
		more = [private_mb(pid) - mb for pid, mb in zip(tree.pids, before)][1:]
	return more, tree_more, said


def wait_rounds(environment, seconds=5, workers=4, mb=20):
	"""Returns the growth of the tree in MB while every process ends rounds with light cleanups."""
	with server(environment, workers, mb, 60) as tree:
		before = tree_mb(tree.pids)
		time.sleep(seconds)
		return tree_mb(tree.pids) - before


def ends_at_limit(environment, limit_mb=LIMIT_MB, workers=6, mb=20, seconds=2):
	"""How each worker has ended, and how far the group was filled, in percent."""
	group = memory_group.MemoryGroup(f"{leftovers.prefix()}prefork", limit_mb << 20)
	try:
		with server(environment, workers, mb, seconds,
		            preexec_fn=group.enter) as tree:
			ends = tree.ends()
		return ends, group.read("memory.max_usage_in_bytes") * 100 / (limit_mb << 20)
	finally:
		group.remove()


def can_limit():
	try:
		memory_group.MemoryGroup(f"{leftovers.prefix()}probe", LIMIT_MB << 20).remove()
	except memory_group.CannotMake:
		return False
	return True


def check(backend, shim, ctl, runs):
	"""Returns whether all is well, and prints failures."""
	fine = True
	with tempfile.TemporaryDirectory(prefix=leftovers.prefix(), dir="/dev/shm") as folder:
		more, tree_more, _ = trim_all(ctl, settings(shim, backend, folder))
		fine &= max(more) <= MOST_MORE_MB and tree_more <= MOST_MORE_MB
		print(f"prefork {backend:9} trims: at most {max(more):+.1f} MB in a worker, {tree_more:+.1f} MB in the tree", flush=True)
		grown = wait_rounds(settings(shim, backend, folder, MT_GC_ROUNDS="1", MT_ROUND="timer:2"))
		fine &= grown <= MOST_MORE_MB
		print(f"prefork {backend:9} rounds: {grown:+.1f} MB in the tree", flush=True)
		for kind, more in (("bare", None), ("default", {}), ("MT_PRESSURE=0", {"MT_PRESSURE": "0"})) if can_limit() else ():
			killed, filled = 0, []
			for _ in range(1 if kind != "default" else runs):
				environment = settings(shim, backend, folder, **(more or {}))
				if more is None:
					del environment["LD_PRELOAD"]
				ends, percent = ends_at_limit(environment)
				killed += len(ends) - ends.count(0) if ends else 6
				filled.append(percent)
			fine &= kind != "default" or killed == 0
			print(f"prefork {backend:9} limit, {kind}: {killed} workers killed, filled to {max(filled):.0f} %", flush=True)
	return fine


def main():
	parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
	parser.add_argument("--runs", type=int, default=5)
	parser.add_argument("--backend", action="append", choices=BACKENDS)
	parser.add_argument("--shim", type=pathlib.Path, default=ROOT / "build" / "libmtshim.so")
	parser.add_argument("--ctl", type=pathlib.Path, default=ROOT / "build" / "mtctl")
	options = parser.parse_args()
	leftovers.sweep()
	fine = [check(backend, options.shim.resolve(), options.ctl.resolve(), options.runs) for backend in options.backend or BACKENDS]
	return 0 if all(fine) else 1


if __name__ == "__main__":
	sys.exit(main())
