"""Where everything is on this machine, the environments made of it, and what machine it is."""
import importlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from lib import machine

HERE = pathlib.Path(__file__).resolve().parent
FOREIGN = ("LD_PRELOAD", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "WORLD_SIZE")
PACKAGES = ("torch", "cupy-cuda12x", "cupy-cuda13x", "cupy", "rmm-cu12", "rmm-cu13", "jax", "numba",
            "nvidia-cuda-runtime", "nvidia-cudnn-cu13")
SKIPPED = 77
# What a program that breaks off or prints no figures ends in here: its way is skipped, the others go on.
TROUBLE = (RuntimeError, OSError, LookupError, ValueError, subprocess.SubprocessError)
RUN_LIMIT_S = 180


def python_with_torch():
	for one in (sys.executable, shutil.which("python3"), shutil.which("python"), "/usr/bin/python3"):
		if one and subprocess.run([one, "-c", "import importlib.util as u, sys; sys.exit(not u.find_spec('torch'))"],
		                          capture_output=True, check=False).returncode == 0:
			return one
	return sys.executable


class Place:
	def __init__(self, options):
		self.options = options
		self.build = pathlib.Path(options.build).resolve()
		self.pairs = self.build / "tests" / "gpu" / "pairs"
		self.phases = self.build / "tests" / "gpu" / "phases"
		self.shim = self.build / "libmtshim.so"
		self.mtctl = self.build / "mtctl"
		self.folder = tempfile.mkdtemp(prefix="mtshim-gpu-bench-", dir="/dev/shm")
		self.python = options.python or python_with_torch()

	def needs(self):
		return [self.pairs, self.phases, self.shim, self.mtctl]

	def env(self, with_shim, **variables):
		environment = {name: value for name, value in os.environ.items() if not name.startswith("MT_") and name not in FOREIGN}
		if self.options.fake:
			environment.update(LD_LIBRARY_PATH=os.path.abspath(self.options.fake), FAKECUDA_FREE_WAITS="2",
			                   FAKECUDA_SHARED=os.path.join(self.folder, "device"))
		if with_shim:
			environment.update(LD_PRELOAD=str(self.shim), MT_DIR=self.folder)
		return environment | {name: str(value) for name, value in variables.items()}

	def gpu_figures(self, pid):
		"""What mtctl says of the first device of a process under the shim; {} where it says nothing."""
		done = subprocess.run([self.mtctl, "stat", str(pid), "--json"], env=self.env(False, MT_DIR=self.folder), capture_output=True,
		                      text=True, check=False, timeout=20)
		try:
			return json.loads(done.stdout)["devices"][0]
		except (ValueError, KeyError, IndexError):
			return {}

	def remove(self):
		shutil.rmtree(self.folder, ignore_errors=True)


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
		done = subprocess.run([place.python, "-c", code], env=place.env(False), capture_output=True, text=True, check=False, timeout=120)
	except subprocess.TimeoutExpired:
		return "import torch took more than 120 s"
	return done.stdout.strip() if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no torch"])[-1]


def has_matplotlib():
	try:
		importlib.import_module("matplotlib")
	except ImportError:
		return False
	return True


def describe(python):
	code = (f"import importlib.metadata as m\nfor n in {PACKAGES}:\n try: print(n, m.version(n))\n"
	        " except m.PackageNotFoundError: pass")
	about = machine.describe()
	asked = "name,driver_version,memory.total,persistence_mode,clocks.max.sm,power.limit"
	about["gpu"] = machine.output_of(["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader"])
	about["python"] = sys.version.split()[0]
	about["versions"] |= dict(line.split(" ", 1) for line in machine.output_of([python, "-c", code]).splitlines() if " " in line)
	return about
