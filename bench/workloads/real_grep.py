#!/usr/bin/python3
"""grep over the headers of the machine, 40 times: a short program that reads more than it allocates. The peak is that of one grep."""
import os
import subprocess
import tempfile
import time

import realprog

PATTERN = "^#define .*_MAX"


def headers():
	triplet = "/usr/include/x86_64-linux-gnu"
	return triplet if os.path.isdir(triplet) else "/usr/include"


def peak_mib(command, variables):
	"""To the kernel a child's peak includes its parent's, up to exec: time and env are small, this driver is not."""
	preload = [f"{name}={value}" for name, value in variables.items()]
	done = subprocess.run(["/usr/bin/time", "--format", "%M", "env", *preload, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
		text=True, check=False)
	return int(done.stderr.split()[-1]) / 1024


def main():
	options = realprog.parse_options(__doc__)
	realprog.require("grep")
	command = ["grep", "-rcE", PATTERN, headers()]
	cpu_s, faults = 0.0, 0
	begun = time.monotonic()
	with tempfile.TemporaryDirectory(prefix="mtshim-bench-", dir="/dev/shm") as folder:
		variables = {**realprog.candidate_variables(), "MT_DIR": folder}
		for _ in range(max(1, int(40 * options.scale))):
			used = realprog.Program(command, watched=False, env={**os.environ, **variables}).finish(expected=(0, 1))
			cpu_s, faults = cpu_s + used["cpu_s"], faults + used["minor_faults"]
		work_s = time.monotonic() - begun
		peak = max(peak_mib(command, variables) for _ in range(3))
	realprog.print_figures(work_s=work_s, cpu_s=cpu_s, minor_faults=faults, peak_mib=peak)


if __name__ == "__main__":
	main()
