"""What the shim itself costs a program whose rounds are long: the share of its time that goes into cleaning."""
import json
import os
import subprocess
import sys
import time

from lib import execute, outside

FL_ROUNDS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "workloads", "fl_rounds.py")
COSTS = ("purge_cost_ns", "refault_cost_ns", "gc_cost_ns", "ticks_cost_ns")
LOOK_BEFORE_END_S = 1.0   # of the last wait


def read_stat(build, pid, environment):
	done = subprocess.run([f"{build}/mtctl", "stat", str(pid), "--json"], capture_output=True, text=True, check=False,
		env=environment)
	if done.returncode != 0:
		raise RuntimeError(f"mtctl stat: {done.stderr.strip()}")
	return json.loads(done.stdout)


def share_of(stat):
	"""Each cost in ms and their sum in % of the time since the shim woke up, as the process itself counts them."""
	costs = {key: outside.find_key(stat, key) for key in COSTS}
	uptime_ms = outside.find_key(stat, "uptime_ms")
	if None in costs.values() or not uptime_ms:
		raise RuntimeError("mtctl stat --json lacks the costs of cleaning")
	figures = {key.replace("_ns", "_ms"): cost / 1e6 for key, cost in costs.items()}
	clean_s = sum(costs.values()) / 1e9
	return {**figures, "clean_s": clean_s, "over_s": uptime_ms / 1e3, "clean_pct": clean_s / uptime_ms * 1e5,
		"purged_mib": outside.find_key(stat, "purged_bytes") / 2**20, "purge_count": outside.find_key(stat, "purge_count")}


def measure_rounds(candidate, arguments, build):
	"""fl_rounds with long waits (--wait S --rounds N); the shim's own account of it, near the end of the last wait."""
	options = outside.options_of(arguments, wait=28.0, rounds=5)
	environment = execute.environment_of(candidate)
	python = os.environ.get("PYTHON", sys.executable)
	process = subprocess.Popen([python, FL_ROUNDS, "--events", "--wait", str(options.wait), "--rounds", str(options.rounds)],
		env=environment, stdout=subprocess.PIPE, text=True)
	cleaning, said = {}, {}
	try:
		for line in process.stdout:
			said = json.loads(line)
			if said.get("event") == "wait" and said["number"] == options.rounds:
				time.sleep(max(0.0, options.wait - LOOK_BEFORE_END_S))
				cleaning = share_of(read_stat(build, process.pid, environment))
	finally:
		if process.poll() is None and not cleaning:
			process.kill()
		process.wait()
	if process.returncode != 0 or not cleaning:
		raise RuntimeError(f"{candidate.name}: fl_rounds ended with {process.returncode}")
	return {**said, **cleaning}
