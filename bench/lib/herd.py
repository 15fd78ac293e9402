"""Many real processes that are awake under the shim, with a folder for their files that is nobody else's."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import time


class Herd:
	"""`env` is for mtctl; `with` ends the processes and removes the folder."""

	def __init__(self, build):
		self.shim = build / "libmtshim.so"
		self.folder = pathlib.Path(tempfile.mkdtemp(prefix="mtshim-bench-", dir="/dev/shm"))
		clean = {name: value for name, value in os.environ.items() if not name.startswith("MT_")}
		self.env = dict(clean, MT_DIR=str(self.folder))
		self.processes = []

	def __enter__(self):
		return self

	def __exit__(self, *_):
		for process in self.processes:
			process.kill()
		for process in self.processes:
			process.wait()
		shutil.rmtree(self.folder)

	def start(self, count, command, rest_s):
		"""So many more; waits until all have files, and rest_s more, beyond what a start costs them."""
		env = dict(self.env, LD_PRELOAD=str(self.shim), MT_MIN_MB="0")
		self.processes += [subprocess.Popen(command, env=env) for _ in range(count)]
		end = time.monotonic() + 120
		while not set(self.pids) <= {int(file.name.split("-")[0]) for file in self.folder.glob("*.stats")}:
			assert time.monotonic() < end, "the processes do not wake up"
			time.sleep(0.1)
		time.sleep(rest_s)

	@property
	def pids(self):
		return [process.pid for process in self.processes]
