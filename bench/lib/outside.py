"""What can only be measured from outside: an idle process, a tick, a start, instructions.

Each function takes (candidate, arguments, build) and answers the figures of one run, as a workload's JSON line would.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time

from lib import execute

TICK_SHAPES = ("idle", "still", "churn", "fragments")
TICK_ARENAS = (8, 64, 512)


def options_of(arguments, **defaults):
	parser = argparse.ArgumentParser(prog="arguments")
	for name, default in defaults.items():
		parser.add_argument("--" + name, type=type(default), default=default)
	return parser.parse_args(arguments)


def task_figures(pid):
	"""CPU time in ns and context switches of every thread of a process, as far as they are alive."""
	cpu_ns = switches = threads = 0
	for task in os.listdir(f"/proc/{pid}/task"):
		folder = f"/proc/{pid}/task/{task}"
		try:
			with open(f"{folder}/schedstat", encoding="ascii") as schedstat:
				ran_ns = int(schedstat.read().split()[0])
			with open(f"{folder}/status", encoding="ascii") as status:
				switched = sum(int(line.split()[1]) for line in status if "ctxt_switches" in line)
		except (FileNotFoundError, ProcessLookupError):
			continue  # it has ended since it was listed
		cpu_ns, switches, threads = cpu_ns + ran_ns, switches + switched, threads + 1
	return cpu_ns, switches, threads


def start_and_wait_ready(command, environment):
	process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
	if process.stdout.readline() != "ready\n":
		raise RuntimeError(f"{command[0]} ended before it was ready")
	return process


def finish(process):
	process.stdin.close()
	process.wait(timeout=30)


def measure_idle(candidate, arguments, build):
	"""Lets a process settle, then counts its CPU time and context switches for a while. --threads 0: bench/idle, which
	has one thread and 100 MiB; else a process of so many threads and 4 GiB."""
	options = options_of(arguments, settle=25.0, over=20.0, threads=0)
	command = [f"{build}/bench/idle"]
	if options.threads:
		command = [f"{build}/bench/tick", "--shape", "resting", "--threads", str(options.threads)]
	process = start_and_wait_ready(command, execute.environment_of(candidate))
	try:
		time.sleep(options.settle)
		cpu_before, switches_before, _ = task_figures(process.pid)
		time.sleep(options.over)
		cpu_after, switches_after, threads = task_figures(process.pid)
	finally:
		finish(process)
	return {
		"cpu_percent": (cpu_after - cpu_before) / (options.over * 1e9) * 100,
		"wakeups_in_5s": (switches_after - switches_before) / options.over * 5,
		"wakeups": switches_after - switches_before,
		"over_s": options.over,
		"threads": threads,
	}


def find_key(tree, key):
	"""A figure of `mtctl stat --json`, wherever in it the key stands."""
	if isinstance(tree, dict):
		if key in tree:
			return tree[key]
		tree = list(tree.values())
	if isinstance(tree, list):
		for branch in tree:
			found = find_key(branch, key)
			if found is not None:
				return found
	return None


def tick_counters(build, pid, environment):
	done = subprocess.run([f"{build}/mtctl", "stat", str(pid), "--json"], capture_output=True, text=True, check=False,
		env=environment)
	if done.returncode != 0:
		raise RuntimeError(f"mtctl stat: {done.stderr.strip()}")
	stat = json.loads(done.stdout)
	counters = [find_key(stat, key) for key in ("ticks_cost_ns", "ticks_count", "tick_ms", "heap_arenas_count")]
	if None in counters:
		raise RuntimeError("mtctl stat --json has no ticks_cost_ns")
	return counters


def worker_task(pid):
	"""The file that says how long the shim's thread has run."""
	for task in os.listdir(f"/proc/{pid}/task"):
		with open(f"/proc/{pid}/task/{task}/comm", encoding="ascii", errors="replace") as comm:
			if comm.read() == "mtshim\n":
				return f"/proc/{pid}/task/{task}/schedstat"
	raise RuntimeError(f"process {pid} has no thread of the shim")


def watch_wakes(path, over_s):
	"""CPU time in ns of each time the thread woke up, by looking often; the tick, and all the rest that it does."""
	def ran_ns():
		with open(path, encoding="ascii") as schedstat:
			return int(schedstat.read().split()[0])
	wakes, last, end = [], ran_ns(), time.monotonic() + over_s
	while time.monotonic() < end:
		time.sleep(0.02)
		now = ran_ns()
		if now != last:
			wakes.append(now - last)
		last = now
	return wakes


def measure_shape(shape, arenas, candidate, options, build):
	"""Ticks of one shape of bench/workloads/tick.c, once its heap has settled and what there was to do is done."""
	environment = {**execute.environment_of(candidate), "MT_MALLOC_CONF": f"narenas:{arenas}"}
	process = start_and_wait_ready([f"{build}/bench/tick", "--shape", shape, "--threads", str(options.threads), "--arenas",
		str(arenas)], environment)
	try:
		time.sleep(options.settle)
		cost_before, count_before, _, _ = tick_counters(build, process.pid, environment)
		time.sleep(0.5)
		wakes = watch_wakes(worker_task(process.pid), options.over)
		cost_after, count_after, tick_ms, found = tick_counters(build, process.pid, environment)
	finally:
		finish(process)
	count = count_after - count_before
	return {
		f"tick_us_{shape}_{arenas}": (cost_after - cost_before) / count / 1e3 if count else None,
		f"wake_median_us_{shape}_{arenas}": statistics.median(wakes) / 1e3 if wakes else None,
		f"wake_mean_us_{shape}_{arenas}": statistics.mean(wakes) / 1e3 if wakes else None,
		f"cpu_percent_{shape}_{arenas}": sum(wakes) / (options.over * 1e9) * 100,
		f"ticks_{shape}_{arenas}": count,
		f"tick_ms_{shape}_{arenas}": tick_ms,
		f"arenas_found_{shape}_{arenas}": found,
	}


def measure_tick(candidate, arguments, build):
	"""Mean CPU time of a tick that finds nothing to do, in every shape of that and for each number of arenas."""
	options = options_of(arguments, threads=200, settle=13.0, over=10.0)
	figures = {}
	for shape in TICK_SHAPES:
		for arenas in TICK_ARENAS:
			figures |= measure_shape(shape, arenas, candidate, options, build)
	return figures


def measure_startup(candidate, _arguments, _build):
	"""One start and end of a program that does nothing, in milliseconds; and whether it left a file behind."""
	with tempfile.TemporaryDirectory(prefix="mtshim-bench-", dir="/dev/shm") as folder:
		environment = {**execute.environment_of(candidate), "MT_DIR": folder}
		begun = time.perf_counter_ns()
		pid = os.posix_spawn("/bin/true", ["true"], environment)
		_, status = os.waitpid(pid, 0)
		taken = time.perf_counter_ns() - begun
		if status != 0:
			raise RuntimeError(f"{candidate.name}: /bin/true ended with status {status}")
		return {"start_ms": taken / 1e6, "files": len(os.listdir(folder))}


def count_instructions(command, environment):
	valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
	done = subprocess.run(valgrind + command, env=environment, capture_output=True, text=True, check=False)
	found = re.search(r"Collected : (\d+)", done.stderr)
	if done.returncode != 0 or not found:
		raise RuntimeError(f"callgrind {' '.join(command)}: {done.stderr[-1000:]}")
	return int(found.group(1))


def measure_instructions(candidate, arguments, build):
	"""Instructions of one malloc and free, loop included: the difference of two runs, so that the start cancels. pair_small_64B is that of
	a process that stays small: below 16 MB of allocations (docs/decisions/0032-asleep-on-libcs-malloc.md)."""
	options = options_of(arguments, short=50000, long=1250000, small=150000)
	environment = execute.environment_of(candidate)
	figures = {}
	for mode, small, long, name in (("fixed", "0", options.long, "pair_64B"), ("mixed", "0", options.long, "pair_mixed"),
			("fixed", "1", options.small, "pair_small_64B")):
		words = [f"{build}/bench/small_pairs", "--mode", mode, "--small", small, "--pairs"]
		counts = [count_instructions([*words, str(pairs)], environment) for pairs in (options.short, long)]
		figures[name] = (counts[1] - counts[0]) / (long - options.short)
	return figures
