"""Where everything is on this machine, the environments made of it, and what machine it is: that of tests/gpu/kit, for the benchmarks."""
import importlib
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "gpu" / "kit"))

# pylint: disable=wrong-import-position
from gpu_machine import SKIPPED, Machine
from lib import machine

# What a program that breaks off or prints no figures ends in here: its way is skipped, the others go on.
TROUBLE = (RuntimeError, OSError, LookupError, ValueError, subprocess.SubprocessError)
RUN_LIMIT_S = 180


class Place(Machine):
	def __init__(self, options):
		super().__init__(options.build, options.fake, options.python)
		self.options = options
		self.pairs, self.phases = self.programs / "pairs", self.programs / "phases"

	def bare(self):
		environment = super().bare()
		# The second process of a benchmark sees the same device.
		return environment | ({"FAKECUDA_SHARED": os.path.join(self.mt_dir, "device")} if self.fake else {})

	def describe(self):
		return machine.describe() | self.about()

	def ways_of(self, names):
		"""Those of the names that this library has."""
		return [name for name in names if self.settings_of(name) is not None]


def last_json(text):
	return json.loads(text.rstrip().rpartition("\n")[2])


def reason_of(status, out, err):
	if status == SKIPPED:
		return out.strip().rpartition("\n")[2]
	lines = err.strip().splitlines() or out.strip().splitlines() or [f"exit status {status}"]
	return lines[-1][:200]


def run_to_end(command, environment, limit_s):
	"""What it prints last as JSON; or the reason why there is none."""
	try:
		done = subprocess.run([str(word) for word in command], env=environment, capture_output=True, text=True,
		                      stdin=subprocess.DEVNULL, timeout=limit_s, check=False, errors="replace")
	except subprocess.TimeoutExpired:
		return None, f"killed after {limit_s:.0f} s"
	if done.returncode != 0:
		return None, reason_of(done.returncode, done.stdout, done.stderr)
	return last_json(done.stdout), None


def torch_reason(place):
	"""Why nothing of PyTorch can run here; empty where it can."""
	if place.options.device == "cpu":
		return ""
	code = "import torch\nprint('' if torch.cuda.is_available() else 'torch has no CUDA device here')"
	try:
		done = subprocess.run([place.python, "-c", code], env=place.env("bare"), capture_output=True, text=True, check=False, timeout=120)
	except subprocess.TimeoutExpired:
		return "import torch took more than 120 s"
	return done.stdout.strip() if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no torch"])[-1]


def has_matplotlib():
	try:
		importlib.import_module("matplotlib")
	except ImportError:
		return False
	return True
