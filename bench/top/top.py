#!/usr/bin/python3
"""What `mtctl top` costs at its default interval with 100 processes.

  bench/top/top.py [--build build] [--processes 100] [--seconds 60] [--strict]

It draws on a pseudo terminal of 160 x 50 that is read as fast as it writes. CPU time is the scheduler's own count of nanoseconds
(/proc/PID/schedstat), its share is of one core; the first two looks, which read every file whole, are measured by themselves. All
processes of the machine are in it that carry the shim, and for those that do not a question each."""
import argparse
import fcntl
import os
import pathlib
import pty
import signal
import struct
import sys
import termios
import threading
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1]), str(pathlib.Path(__file__).resolve().parents[1] / "serve")]
from lib.herd import Herd  # noqa: E402
from serve import SLEEP, cpu_ns  # noqa: E402

MOST_SHARE, START_S = 0.01, 3


def start_top(build, env):
	"""Its pid, and the terminal's other end."""
	pid, terminal = pty.fork()
	if pid == 0:
		os.execve(build / "mtctl-top", ["mtctl", "top"], dict(env, TERM="xterm-256color", LC_ALL="C.UTF-8"))
	fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 50, 160, 0, 0))
	return pid, terminal


def drain(terminal, counts):
	try:
		while data := os.read(terminal, 1 << 16):
			counts.append(len(data))
	except OSError:
		pass


def measure(args, build, env):
	pid, terminal = start_top(build, env)
	written = []
	reader = threading.Thread(target=drain, args=(terminal, written))
	reader.start()
	try:
		time.sleep(START_S)
		start = cpu_ns(pid)
		shown = sum(written)
		time.sleep(args.seconds)
		share = (cpu_ns(pid) - start) / 1e9 / args.seconds
		shown = sum(written) - shown
	finally:
		os.kill(pid, signal.SIGTERM)
		_, status = os.waitpid(pid, 0)
		reader.join()
		os.close(terminal)
	assert status == 0 and shown, f"it has ended with {status}, and has written {shown} bytes"
	print(f"mtctl top, every 2 s: {share:.2%} of a core, {shown / args.seconds / 1024:.1f} kB a second to the terminal; "
	      f"the first {START_S} s took {start / 1e6:.0f} ms")
	return share


def main():
	parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
	parser.add_argument("--build", default="build", type=pathlib.Path)
	parser.add_argument("--processes", default=100, type=int)
	parser.add_argument("--seconds", default=60, type=int)
	parser.add_argument("--strict", action="store_true", help="fail where the bound is missed")
	args = parser.parse_args()
	build = args.build.resolve()
	with Herd(build) as herd:
		herd.start(args.processes, SLEEP, 5)
		share = measure(args, build, herd.env)
	print("PASS" if share < MOST_SHARE else "FAIL", f"with {args.processes} processes under {MOST_SHARE:.0%} of a core")
	return 1 if args.strict and share >= MOST_SHARE else 0


if __name__ == "__main__":
	sys.exit(main())
