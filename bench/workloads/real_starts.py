#!/usr/bin/python3
"""500 short processes from a shell, as start scripts of trainings have them: true, ls, grep, sh. hyperfine times them.

The candidate's environment is given by `env` in the command, so that hyperfine itself is not under it. The shim's folder
is one of its own, and must be empty at the end: a short process leaves nothing behind.
"""
import json
import os
import resource
import shlex
import subprocess
import tempfile

import realprog

SCRIPT = "i=0; while [ $i -lt {rounds} ]; do /bin/true; ls / >/dev/null; grep -q root /etc/passwd; sh -c :; i=$((i+1)); done"
EACH_ROUND = 4


def under(variables, command):
	return ["env", *(f"{name}={value}" for name, value in variables.items()), *command]


def peak_of_one_mib(variables):
	"""grep asks the kernel for its own peak."""
	command = under(variables, ["grep", "VmHWM", "/proc/self/status"])
	return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[1]) / 1024


def time_by_hyperfine(command, runs):
	with tempfile.NamedTemporaryFile(suffix=".json", prefix="mtshim-bench-") as answer:
		done = subprocess.run(["hyperfine", "-N", "--style", "none", "--warmup", "1", "--runs", str(runs), "--export-json",
			answer.name, shlex.join(command)], capture_output=True, text=True, check=False)
		if done.returncode != 0:  # else it only warns of outliers, which the suite judges by itself
			raise SystemExit(f"hyperfine: {done.stderr.strip()}")
		return json.load(answer)["results"][0]


def main():
	options = realprog.parse_options(__doc__, repeats=3)
	realprog.require("hyperfine", "grep")
	rounds = max(1, int(125 * options.scale))
	with tempfile.TemporaryDirectory(prefix="mtshim-bench-", dir="/dev/shm") as folder:
		variables = {**realprog.candidate_variables(), "MT_DIR": folder}
		timed = time_by_hyperfine(under(variables, ["sh", "-c", SCRIPT.format(rounds=rounds)]), max(2, options.repeats))
		faults = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
		peak_mib = peak_of_one_mib(variables)
		left = sorted(os.listdir(folder))
	if left:
		raise SystemExit(f"files left behind in MT_DIR: {', '.join(left)}")
	realprog.print_figures(work_s=timed["median"], ms_per_process=timed["median"] * 1e3 / (rounds * EACH_ROUND),
		cpu_s=timed["user"] + timed["system"], minor_faults=faults // (max(2, options.repeats) + 1), peak_mib=peak_mib,
		files_left=0)


if __name__ == "__main__":
	main()
