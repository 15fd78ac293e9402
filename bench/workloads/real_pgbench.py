#!/usr/bin/python3
"""PostgreSQL under pgbench: 4 clients and its own mix of transactions. The server is as in real_postgres.py, with all its processes;
the client is outside of the candidate.
"""
import signal
import subprocess
import tempfile
import time

import real_postgres
import realprog


def main():
	options = realprog.parse_options(__doc__)
	realprog.require("pgbench", "unshare")
	programs = real_postgres.server_programs()
	with tempfile.TemporaryDirectory(prefix="mtshim-bench-") as folder:
		real_postgres.make_cluster(programs, folder)
		program = real_postgres.start(programs, folder)
		real_postgres.wait_ready(programs, folder)
		client = ["pgbench", "-h", folder, "-U", "postgres"]
		subprocess.run([*client, "-i", "-q", "-s", "2", "postgres"], capture_output=True, check=True)
		begun = time.monotonic()
		subprocess.run([*client, "-n", "-c", "4", "-t", str(max(50, int(1200 * options.scale))), "postgres"], capture_output=True, check=True)
		work_s = time.monotonic() - begun
		realprog.lie_idle(options.idle)
		used = program.finish(signal.SIGINT)
	realprog.print_figures(work_s=work_s, **used)


if __name__ == "__main__":
	main()
