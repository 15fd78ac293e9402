"""One run of a workload, watched from outside: its memory over time, what it cost until it fell idle, what it said.

A monitor never waits: whoever owns it calls read() when its output has something to read and tick() about 20 times a
second. A run is active from its start to its idle event (or to its end, where it has none) and then lies idle.
"""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

from lib import processes
from lib.execute import clean_environment

SAMPLE_S = 1 / 20
TREE_S = 1 / 4          # smaps_rollup walks every page table: four times a second at most,
TREE_IDLE_S = 1.5       # and seldom while the tree lies idle, but for the last second
PEAK_S = 1 / 4          # where no idle event tells when to read the high-water mark
MEAN_S = 1.0            # over what idle_mib is a mean
ASK_BEFORE_S = 0.4      # mtctl wakes the worker: only once the mean is taken
STOP_S = 60             # what a program may take to end after its idle time
SAMPLES_KEPT = 300
NOT_LOADED = "cannot be preloaded"   # ld.so says so, and goes on without


class Failure(Exception):
	"""A run that gives no figures, and why."""


class Monitor:
	def __init__(self, job, command, idle_s, timeout_s, mtctl=""):
		self.job, self.idle_s, self.timeout_s, self.mtctl = job, idle_s, timeout_s, mtctl
		self.samples, self.figures, self.measured = [], {}, {}
		self.idle_at = self.ended_at = self.status = self.usage = None
		self.asked, self.partial, self.peak, self.next_sample, self.next_peak = [], b"", 0.0, 0.0, 0.0
		self.complaint = ""
		self.folder = make_folder() if self.is_shimmed() else None
		self.errors = tempfile.TemporaryFile()
		self.begun = self.watched_from = time.monotonic()
		self.process = subprocess.Popen(command, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
			stderr=self.errors, start_new_session=True)
		self.watched = self.process.pid
		os.set_blocking(self.process.stdout.fileno(), False)

	# ---- what it runs in ----
	def is_shimmed(self):
		return "libmtshim" in self.job.candidate.preload

	def environment(self):
		folder = {"MT_DIR": self.folder} if self.folder else {}
		if self.job.entry.hands_on:
			return {**clean_environment(), "BENCH_ENVIRONMENT": json.dumps({**self.job.candidate.variables(), **folder})}
		return {**clean_environment(), **self.job.candidate.outer_variables(), **folder}

	def fileno(self):
		return self.process.stdout.fileno()

	@property
	def is_active(self):
		return self.idle_at is None and self.status is None

	@property
	def has_ended(self):
		return self.status is not None

	# ---- what it says ----
	def read(self):
		"""Takes what its output holds: None while it holds nothing, empty at its end."""
		try:
			data = os.read(self.fileno(), 65536)
		except BlockingIOError:
			return None
		*lines, self.partial = (self.partial + data).split(b"\n")
		for line in lines:
			self.hear(line)
		return data

	def hear(self, line):
		if not line.startswith(b"{"):
			return
		try:
			said = json.loads(line)
		except ValueError:
			return
		if said.get("event") == "watch":
			self.watch(said["pid"])
		elif said.get("event") == "idle" and self.idle_at is None:
			self.fall_idle(said["time"])
		elif "event" not in said:
			self.figures = said

	def watch(self, pid):
		"""From here on it is this process that counts, and nothing that was before."""
		self.watched, self.samples, self.peak = pid, [], 0.0
		self.watched_from = time.monotonic()
		try:
			self.sample(self.watched_from)
		except OSError:
			pass  # it has ended already: its driver says how

	def fall_idle(self, moment):
		try:
			pids = self.pids()
			self.sample(time.monotonic())
			cpu_s, faults = zip(*map(processes.cost, pids))
			if not self.job.entry.is_tree:
				self.peak = processes.peak_mib(self.watched)
		except OSError:
			return  # it has ended meanwhile: what wait4 says has to do
		finally:
			self.idle_at = min(moment, time.monotonic())
		self.measured = {"cpu_s": sum(cpu_s), "minor_faults": sum(faults)}

	# ---- its memory ----
	def pids(self):
		return processes.tree(self.watched) if self.job.entry.is_tree else [self.watched]

	def sample(self, now):
		if self.job.entry.is_tree:
			mib = processes.sum_over(processes.pss_mib, self.pids())
		else:
			mib = processes.rss_mib(self.watched)
		if mib:
			self.samples.append((now - self.begun, mib))
			if self.idle_at is None:
				self.peak = max(self.peak, mib)

	def read_peak(self, now):
		"""While it works and may end at any time."""
		if not self.is_active or self.job.entry.is_tree or now < self.next_peak:
			return
		self.next_peak = now + PEAK_S
		self.peak = max(self.peak, processes.peak_mib(self.watched))

	def step_s(self, now):
		if not self.job.entry.is_tree:
			return SAMPLE_S
		if self.idle_at is None:
			return TREE_S
		return TREE_IDLE_S if now < self.mean_from() - TREE_IDLE_S else min(TREE_S, self.idle_s / 8)

	def mean_until(self):
		return self.idle_at + self.idle_s - min(ASK_BEFORE_S, self.idle_s / 4)

	def mean_from(self):
		return self.mean_until() - min(MEAN_S, self.idle_s / 2)

	# ---- what has to be done now ----
	def tick(self, now):
		if now >= self.next_sample:
			self.next_sample = now + self.step_s(now)
			try:
				self.sample(now)
				self.read_peak(now)
			except OSError:
				pass  # it has ended, and is waited for below
		if self.idle_at is not None and not self.asked and now >= self.mean_until() and self.folder:
			self.ask_shim(now)
		self.check_time(now)
		self.check_end()

	def check_time(self, now):
		late = now - self.begun > self.timeout_s if self.is_active else self.idle_at is not None and (
			now - self.idle_at > self.idle_s + STOP_S)
		if late and not self.complaint:
			self.complaint = f"not idle after {self.timeout_s:g} s" if self.is_active else f"not ended {STOP_S} s after its idle time"
			self.signal_all(signal.SIGKILL)

	def check_end(self):
		pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
		if pid:
			self.status, self.usage, self.ended_at = status, usage, time.monotonic()
			self.process.returncode = os.waitstatus_to_exitcode(status)
			while self.read():  # what it wrote last
				pass
			self.hear(self.partial)
			self.signal_all(signal.SIGKILL)

	def ask_shim(self, now):
		"""mtctl runs beside us: it may have to wait for a worker that sleeps."""
		for pid in self.pids():
			answer = tempfile.TemporaryFile()
			asked = subprocess.Popen([self.mtctl, "stat", str(pid), "--json"], env={**clean_environment(), "MT_DIR": self.folder},
				stdin=subprocess.DEVNULL, stdout=answer, stderr=subprocess.DEVNULL, start_new_session=True)
			self.asked.append((now, asked, answer))

	# ---- its end ----
	def signal_all(self, number):
		try:
			os.killpg(self.process.pid, number)
		except (ProcessLookupError, PermissionError):
			pass

	def kill(self):
		self.signal_all(signal.SIGKILL)
		if self.process.returncode is None:
			self.process.wait()
		self.close()

	def close(self):
		for _, asked, answer in self.asked:
			if asked.poll() is None:
				asked.kill()
				asked.wait()
			answer.close()
		self.process.stdout.close()
		self.errors.close()
		if self.folder:
			shutil.rmtree(self.folder, ignore_errors=True)

	def result(self):
		"""The record of a run that has ended."""
		said = self.said_on_stderr()
		try:
			if self.complaint:
				raise Failure(self.complaint)
			if self.process.returncode != 0:
				raise Failure(f"ended with {self.process.returncode}: {said[-600:]}".rstrip(": "))
			if NOT_LOADED in said:  # then it was glibc that ran, under another's name
				raise Failure(f"its library was not loaded: {said[:600]}")
			if not isinstance(self.figures.get("work_s"), (int, float)):
				raise Failure("it printed no figures with work_s")
			record = {**self.header(), "figures": self.all_figures(), "samples": [] if self.saw_driver_alone() else thin(self.samples)}
			if said:
				record["stderr"] = said[:2000]
			return record
		except Failure as failure:
			return {**self.header(), "reason": str(failure), "run_s": self.ended_at - self.begun}
		finally:
			self.close()

	def header(self):
		label, name, number = self.job.key
		return {"workload": label, "candidate": name, "number": number}

	def said_on_stderr(self):
		self.errors.seek(0)
		return self.errors.read().decode("utf-8", "replace").strip()

	def all_figures(self):
		"""Memory is what was seen from outside, but for programs that ended between two looks. What a hands-on driver says of
		its program stands before what is known of the driver, but not before what was read of the program when it fell idle:
		the driver's figures are those of its whole life."""
		until = self.idle_at or self.ended_at
		measured = {"run_s": until - self.begun, **self.costs(), **self.memory(until)}
		if self.idle_at is not None:
			measured |= self.shim_figures()
		was_read = self.measured and not self.saw_driver_alone()
		trusted = {"cpu_s", "minor_faults"} if self.job.entry.hands_on and not was_read else set()
		if self.idle_at is None:
			trusted |= {"peak_mib"}
		said = {key: value for key, value in self.figures.items() if key not in measured or key in trusted}
		return {**measured, **said}

	def costs(self):
		if self.measured:
			return self.measured
		return {"cpu_s": self.usage.ru_utime + self.usage.ru_stime, "minor_faults": self.usage.ru_minflt}

	def saw_driver_alone(self):
		"""Of a real program that ended at once, or of many, the driver tells."""
		return self.job.entry.hands_on and self.watched == self.process.pid

	def memory(self, until):
		if self.saw_driver_alone():
			return {}
		figures = {"peak_mib": self.peak,
			"integral_mib_s": integral(self.samples, self.watched_from - self.begun, until - self.begun)}
		if self.idle_at is not None and self.idle_s:
			span = [mib for moment, mib in self.samples
				if self.mean_from() <= moment + self.begun <= self.mean_until()]
			if self.ended_at < self.mean_until():
				raise Failure("it did not stay for its idle time")
			span = span or [self.samples[-1][1]]  # this machine was too busy for us
			figures["idle_mib"] = sum(span) / len(span)
		return figures

	def shim_figures(self):
		"""What cleaning has cost, all processes of a tree together; nothing of a process that is too small to have a worker."""
		costs = ("purge_cost_ns", "refault_cost_ns", "gc_cost_ns", "ticks_cost_ns")
		stats = [answer for answer in map(read_answer, self.asked) if answer]
		if not stats:
			return {}
		clean_s = sum(stat.get(cost, 0) for stat in stats for cost in costs) / 1e9
		wall_s = self.asked[0][0] - self.begun
		return {"clean_s": clean_s, "clean_pct": 100 * clean_s / wall_s,
			"purged_mib": sum(stat.get("purged_bytes", 0) for stat in stats) / 2**20}


def make_folder():
	"""Of its own for each run: what an earlier process left there must not be read. In memory, as the default one is."""
	place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
	return tempfile.mkdtemp(prefix="mtshim-suite-", dir=place)


def read_answer(question):
	_, asked, answer = question
	try:
		if asked.wait(timeout=10) != 0:
			return None
		answer.seek(0)
		return json.loads(answer.read())
	except (subprocess.TimeoutExpired, ValueError):
		return None


def integral(samples, begun, until):
	"""MiB seconds from one moment to another: lines between samples, from nothing (or from what was seen before) at the
	beginning, and what was seen last holds to the end."""
	total, last_time, last_mib = 0.0, begun, 0.0
	for moment, mib in samples:
		if moment <= last_time:
			last_mib = mib
			continue
		if moment >= until:
			mib = last_mib + (mib - last_mib) * (until - last_time) / (moment - last_time)
			return total + (last_mib + mib) / 2 * (until - last_time)
		total += (last_mib + mib) / 2 * (moment - last_time)
		last_time, last_mib = moment, mib
	return total + last_mib * max(0.0, until - last_time)


def thin(samples, most=SAMPLES_KEPT):
	"""For plots: no more than 10 a second, without what lies on a level line, then at most so many."""
	highest = max((mib for _, mib in samples), default=0)
	kept = []
	for place, (moment, mib) in enumerate(samples):
		is_last = place == len(samples) - 1
		if kept and not is_last:
			is_level = max(abs(mib - kept[-1][1]), abs(samples[place + 1][1] - mib)) < highest / 500
			if is_level or moment - kept[-1][0] < 0.099:
				continue
		kept.append([round(moment, 2), round(mib, 1)])
	stride = -(-len(kept) // most)
	return kept[::stride] if stride > 1 else kept
