"""What the drivers of real programs share: the candidate's environment, the program's life, its figures.

A driver runs without any candidate. It finds the candidate's variables in BENCH_ENVIRONMENT (JSON), gives them to the
program alone, says who is to be watched, and reads from the kernel what the program has used once it has ended.
"""
import argparse
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time

LONGEST_S = 300  # nothing of a driver takes longer, idle time left out: who hangs is ended, and its program with it
PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None)


def parse_options(about, **more):
	"""--idle and --scale, which every driver has, and options of its own as NAME=DEFAULT."""
	parser = argparse.ArgumentParser(description=about)
	parser.add_argument("--idle", type=float, default=0, help="seconds to lie idle once the work is done")
	parser.add_argument("--scale", type=float, default=1, help="how much of the work to do")
	for name, default in more.items():
		if isinstance(default, bool):
			parser.add_argument("--" + name, action="store_true")
		else:
			parser.add_argument("--" + name, type=type(default), default=default)
	options = parser.parse_args()
	signal.signal(signal.SIGALRM, lambda *_: sys.exit(f"not done after {LONGEST_S} s"))  # leaves no folder behind
	signal.alarm(int(LONGEST_S + options.idle))
	return options


def candidate_variables():
	return json.loads(os.environ.get("BENCH_ENVIRONMENT") or "{}")


def require(*programs):
	for program in programs:
		if not shutil.which(program):
			raise SystemExit(f"{program} is not installed: scripts/bootstrap")


def say(event, **more):
	print(json.dumps({"event": event, **more}), flush=True)


def die_with_the_driver():
	libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Program:
	"""The program that is measured. Its standard input is a pipe: one that reads it to the end ends with the driver."""

	def __init__(self, command, watched=True, **popen):
		popen = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, **popen}
		self.command = command
		self.begun = time.monotonic()
		# pylint: disable-next=subprocess-popen-preexec-fn
		self.process = subprocess.Popen(command, env={**os.environ, **popen.pop("env", candidate_variables())},
			preexec_fn=die_with_the_driver, **popen)
		self.pid = self.process.pid
		if watched:
			say("watch", pid=self.pid)

	def say_input(self, text):
		self.process.stdin.write(text.encode())
		self.process.stdin.flush()

	def wait_for(self, stream, marker):
		"""Reads lines of an output of the program until one is the marker, and says how many seconds it ran till then."""
		for line in stream:
			if line.strip() == marker.encode():
				return time.monotonic() - self.begun
		raise SystemExit(f"{self.command[0]} ended before it said {marker}")

	def finish(self, end_signal=None, expected=(0,)):
		"""Ends it, and answers what the kernel counted for it and for the children it waited for. expected: exit codes, negative: the
		number of a signal."""
		if end_signal:
			self.process.send_signal(end_signal)
		if self.process.stdin:
			self.process.stdin.close()
		_, status, used = os.wait4(self.pid, 0)
		self.process.returncode = os.waitstatus_to_exitcode(status)
		if self.process.returncode not in expected:
			raise SystemExit(f"{self.command[0]} ended with {self.process.returncode}")
		return {
			"cpu_s": used.ru_utime + used.ru_stime,
			"peak_mib": used.ru_maxrss / 1024,
			"minor_faults": used.ru_minflt,
		}


def lie_idle(seconds):
	"""The program has done its work: from here on, what it holds is what it does not give back."""
	if seconds > 0:
		say("idle", time=time.monotonic())
		time.sleep(seconds)


def print_figures(**figures):
	print(json.dumps(figures), flush=True)


def own_folder():
	return os.path.dirname(os.path.abspath(__file__))


if __name__ == "__main__":
	sys.exit("realprog.py is no workload: run one of real_*.py")
