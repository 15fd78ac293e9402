#!/usr/bin/python3
"""Everything at once against one tree of processes (storm.c): forks, threads, execs and trims from inside; signals, settings,
cleanups and rounds asked for, and readers of the figures (stat, ps, a server that is scraped) from outside. Every byte is
checked; where forks, threads or blocks do not go on for a minute it has hung, and its threads' stacks are printed. One line for each backend
says what was done, and what went wrong: nothing.

  tests/stress/storm.py [--seconds 600] [--backend jemalloc] [--backend system] [--shim FILE] [--mtctl FILE]
"""
import argparse
import mmap
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "lib"))
import leftovers

GREEDY = {"MT_MIN_MB": "0", "MT_TICK_MS": "10", "MT_IDLE_MS": "10", "MT_SLACK_MB": "0", "MT_SLACK_PCT": "0",
          "MT_SETTLE_MS": "100", "MT_BUDGET_PCT": "100", "MT_GC_ROUNDS": "1"}
SETTINGS = ["tick_ms=10", "idle_ms=50", "slack_mb=1", "budget_pct=50", "heavy_rounds=3", "tick_ms=20", "idle_ms=10",
            "slack_mb=0", "budget_pct=100", "heavy_rounds=0", "gc_rounds=2", "settle_ms=200", "gc_rounds=1", "profile=0"]
# In the order of struct counts in storm.c.
NAMES_OF_COUNTS = ["forks", "execs", "spawns", "threads", "blocks", "handled", "trims", "cleanups", "wrong", "bad_children"]
HANG_S = 60
END_S = 90       # after its time is over, for the children that are still under way


class Storm:
	def __init__(self, options, backend, program):
		self.options, self.backend = options, backend
		self.folder = tempfile.mkdtemp(prefix=leftovers.prefix(), dir="/dev/shm")
		self.memory = os.memfd_create("storm", 0)
		os.ftruncate(self.memory, mmap.PAGESIZE)
		self.page = mmap.mmap(self.memory, mmap.PAGESIZE)
		self.over = threading.Event()
		self.alive = threading.Event()
		self.done = {"signals": 0, "sets": 0, "asked": 0, "reads": 0, "scrapes": 0, "refused": 0}
		self.output = []
		self.trouble = ""
		bare = {name: value for name, value in os.environ.items() if not name.startswith("MT_") and name != "LD_PRELOAD"}
		self.plain = dict(bare, MT_DIR=self.folder)
		shimmed = dict(self.plain, **GREEDY, LD_PRELOAD=str(options.shim), MT_ALLOCATOR=backend, STORM_COUNTS=str(self.memory))
		self.process = subprocess.Popen([program, str(options.seconds), "3", "2"], env=shimmed, stdout=subprocess.PIPE,
		                                stderr=subprocess.STDOUT, text=True, errors="replace", pass_fds=[self.memory],
		                                start_new_session=True)
		self.server = None

	def counts(self):
		return dict(zip(NAMES_OF_COUNTS, struct.unpack_from(f"{len(NAMES_OF_COUNTS)}Q", self.page)))

	def ask(self, count, *words, well=(0,)):
		"""Runs one command of mtctl, and counts it if it succeeds."""
		done = subprocess.run([str(self.options.mtctl), *words], env=self.plain, capture_output=True, timeout=120)
		self.done[count if done.returncode in well else "refused"] += 1

	# ---- what goes on at once: each in a thread of its own, until it is over ----

	def listen(self):
		for line in self.process.stdout:
			self.output.append(line.rstrip("\n"))
			self.alive.set()

	def send_signals(self):
		"""To the root, and now and then to all of the tree; who is between its exec and its constructor blocks it."""
		while not self.over.wait(0.005):
			try:
				if self.done["signals"] % 20 == 0:
					os.killpg(self.process.pid, signal.SIGUSR1)
				else:
					os.kill(self.process.pid, signal.SIGUSR1)
			except ProcessLookupError:
				return
			self.done["signals"] += 1

	def control(self):
		pid = str(self.process.pid)
		number = 0
		while not self.over.wait(0.05):
			self.ask("sets", "set", pid, SETTINGS[number % len(SETTINGS)])
			number += 1
			if number % 3 == 0:
				self.ask("asked", "trim", pid, *["--light"][:number % 2], well=(0, 1))  # 1: it has refused
			if number % 5 == 0:
				self.ask("asked", "round", pid)
			if number % 7 == 0:
				self.ask("asked", "reset-peak", pid)

	def read(self):
		while not self.over.wait(0.05):
			self.ask("reads", "stat", str(self.process.pid), "--json")
			self.ask("reads", "ps", "--json")

	def scrape(self):
		self.server = subprocess.Popen([str(self.options.mtctl), "serve", "--open", "--listen=127.0.0.1:0", "--interval=0"], env=self.plain,
		                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
		url = self.server.stdout.readline().partition("#")[0].strip()
		while not self.over.wait(0.1):
			try:
				with urllib.request.urlopen(url + "metrics", timeout=60) as answer:
					text = answer.read()
			except OSError:
				text = b""
			self.done["scrapes" if b"mtshim_" in text else "refused"] += 1

	# ---- the end, or a hang ----

	def stacks(self):
		text = []
		for entry in sorted(pathlib.Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
			try:
				words = (entry / "stat").read_text().rpartition(")")[2].split()
				if int(words[3]) != self.process.pid:
					continue
				got = subprocess.run(["gdb", "-batch", "-p", entry.name, "-ex", "thread apply all bt 30"],
				                     capture_output=True, text=True, timeout=60)
				text.append(f"-- process {entry.name}, state {words[0]}\n{got.stdout}")
			except (OSError, subprocess.TimeoutExpired, ValueError):
				continue
		return "\n".join(text)

	def still(self, since):
		"""Whether one of what must go on has not since `since`, which it keeps up: by name when, and how many there were."""
		now = self.counts()
		for name in ("forks", "threads", "blocks"):
			if since.get(name, (0, -1))[1] != now[name]:
				since[name] = (time.monotonic(), now[name])
		return any(time.monotonic() - when > HANG_S for when, _ in since.values())

	def watch(self):
		"""Until the root ends. It hangs when a part of it does not go on, or when it does not come to its end."""
		time_is_over = time.monotonic() + self.options.seconds
		since = {}
		while self.process.poll() is None:
			if (time.monotonic() < time_is_over and self.still(since)) or time.monotonic() > time_is_over + END_S:
				self.trouble += f"hung:\n{self.stacks()}\n"
				return
			time.sleep(0.2)

	def run(self):
		jobs = [self.send_signals, self.control, self.read, self.scrape]
		threads = [threading.Thread(target=job, daemon=True) for job in [self.listen, *jobs]]
		threads[0].start()
		if not self.alive.wait(60):
			self.trouble += f"did not begin:\n{self.stacks()}\n"
		else:
			for thread in threads[1:]:
				thread.start()
			self.watch()
		self.over.set()
		status = self.process.poll()
		self.kill()
		threads[0].join(10)
		if status != 0 or "over" not in self.output:
			self.trouble += f"ended with {status}: " + "\n".join(self.output[-20:]) + "\n"

	def kill(self):
		for process in (self.process, self.server):
			try:
				if process:
					os.killpg(process.pid, signal.SIGKILL)
			except ProcessLookupError:
				pass
		self.process.wait()

	def close(self):
		shutil.rmtree(self.folder, ignore_errors=True)

	def line(self):
		seen, done = self.counts(), self.done
		return (f"storm over {self.backend}, {self.options.seconds} s: {seen['forks']} forks, {seen['execs']} execs, "
		        f"{seen['spawns']} spawns, {seen['threads']} threads, {seen['blocks']} blocks, {done['signals']} signals "
		        f"({seen['handled']} handled by the program), {seen['cleanups']} cleanups, {done['sets']} sets, "
		        f"{done['asked']} trims, rounds and resets asked for, {seen['trims']} trims by the program, "
		        f"{done['reads'] + done['scrapes']} reads; {seen['wrong']} wrong bytes, {seen['bad_children']} bad ends, "
		        f"{'hung' if self.trouble.startswith('hung') else 'no hang'}")

	def is_well(self):
		seen, done = self.counts(), self.done
		return not self.trouble and seen["wrong"] == 0 and seen["bad_children"] == 0 and seen["forks"] > 0 and \
			all(done[name] for name in ("signals", "sets", "asked", "reads", "scrapes"))


def compiled(folder):
	program = folder / "storm"
	subprocess.run(["gcc", "-std=c11", "-O1", "-g", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fno-builtin", "-pthread",
	                f"-I{ROOT / 'shim'}", "-o", program, HERE / "storm.c"], check=True)
	return program


def main():
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--seconds", type=int, default=600)
	parser.add_argument("--backend", action="append", choices=["jemalloc", "system"], help="both, at once, without")
	parser.add_argument("--shim", type=pathlib.Path, default=ROOT / "build" / "libmtshim.so")
	parser.add_argument("--mtctl", type=pathlib.Path, default=ROOT / "build" / "mtctl")
	options = parser.parse_args()
	options.shim, options.mtctl = options.shim.resolve(), options.mtctl.resolve()
	leftovers.sweep()
	with tempfile.TemporaryDirectory(prefix=leftovers.prefix()) as folder:
		program = compiled(pathlib.Path(folder))
		storms = [Storm(options, backend, program) for backend in options.backend or ["jemalloc", "system"]]
		threads = [threading.Thread(target=storm.run) for storm in storms]
		for thread in threads:
			thread.start()
		for thread in threads:
			thread.join()
	for storm in storms:
		print(storm.trouble + storm.line(), flush=True)
		storm.close()
	return 0 if all(storm.is_well() for storm in storms) else 1


if __name__ == "__main__":
	sys.exit(main())
