#!/usr/bin/python3
"""One program of the Python Performance Benchmark Suite, in one process that then lies idle: bench/peers/get fetches the programs.

pyperf, which runs them as its authors do, starts a process for each value. Memory at rest needs one process that stays, so a stand-in for
pyperf.Runner calls the same functions for so many loops.
"""
import argparse
import asyncio
import json
import os
import runpy
import sys
import time
import types

FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
	"build", "peers", "pyperformance", "pyperformance", "data-files", "benchmarks")


class Runner:
	"""What the programs use of pyperf.Runner. Each benchmark of a program runs `loops` times, and its time counts."""
	loops, work_s, arguments = 1, 0.0, ()

	def __init__(self, **_options):
		self.argparser, self.metadata, self.args = argparse.ArgumentParser(), {}, None

	def parse_args(self, *_):
		self.args = self.argparser.parse_args(list(Runner.arguments))
		return self.args

	def bench_time_func(self, _name, function, *arguments, **_options):
		begun = time.perf_counter()
		function(Runner.loops, *arguments)
		Runner.work_s += time.perf_counter() - begun

	def bench_func(self, name, function, *arguments, **_options):
		def repeat(loops):
			for _ in range(loops):
				function(*arguments)
		self.bench_time_func(name, repeat)

	def bench_async_func(self, name, function, *arguments, **_options):
		self.bench_func(name, lambda: asyncio.run(function(*arguments)))


def main():
	parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
	parser.add_argument("program", help="as deltablue, for bm_deltablue")
	parser.add_argument("--loops", type=int, default=1)
	parser.add_argument("--idle", type=float, default=0)
	parser.add_argument("--argument", action="append", default=[], help="for the program itself")
	options = parser.parse_args()
	script = os.path.join(FOLDER, "bm_" + options.program, "run_benchmark.py")
	if not os.path.exists(script):
		sys.exit(f"{script} is missing: make bench-peers")
	Runner.loops, Runner.arguments = options.loops, options.argument
	sys.modules["pyperf"] = types.SimpleNamespace(Runner=Runner, perf_counter=time.perf_counter, python_implementation=lambda: "cpython")
	sys.path.insert(0, os.path.dirname(script))
	sys.argv = [script]
	runpy.run_path(script, run_name="__main__")
	if options.idle > 0:
		print(json.dumps({"event": "idle", "time": time.monotonic()}), flush=True)
		time.sleep(options.idle)
	print(json.dumps({"work_s": Runner.work_s}), flush=True)


if __name__ == "__main__":
	main()
