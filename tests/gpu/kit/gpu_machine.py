"""Where everything is on this machine, the environments made of it, and which machine it is. bench/gpu uses it, too."""
import ctypes
import datetime
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
FOREIGN = ("LD_PRELOAD", "MALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING", "WORLD_SIZE")
PACKAGES = ("torch", "transformers", "triton", "cupy-cuda12x", "cupy-cuda13x", "cupy", "rmm-cu12", "rmm-cu13", "jax", "numba", "numba-cuda",
            "nvidia-cuda-runtime", "nvidia-cudnn-cu13")
# The four ways in which a program is run: without the shim, counted, and over the pool with each kind of free.
WAYS = {"bare": {}, "pool/wait": {"MT_CUDA": "pool", "MT_CUDA_FREE": "wait"}, "pool/async": {"MT_CUDA": "pool", "MT_CUDA_FREE": "async"},
        "account": {"MT_CUDA": "account"}}
SKIPPED = 77


class Cut(Exception):
	"""There is no time left for it."""


def output_of(command, **options):
	try:
		return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, **options).stdout.strip()
	except (OSError, subprocess.TimeoutExpired):
		return ""


def stand_in():
	"""The folder of libcuda.so.1 where that is the stand-in driver of the tests; None on a real one, and without any."""
	try:
		library = ctypes.CDLL("libcuda.so.1")
	except OSError:
		return None
	if not hasattr(library, "fakecuda_ledger"):
		return None
	with open("/proc/self/maps", encoding="utf-8") as maps:
		return next(os.path.dirname(line.split(None, 5)[5].strip()) for line in maps if "libcuda.so" in line)


def python_with_torch(environment):
	for one in (sys.executable, shutil.which("python3"), shutil.which("python"), "/usr/bin/python3"):
		code = "import importlib.util as u, sys; sys.exit(not u.find_spec('torch'))"
		if one and subprocess.run([one, "-c", code], env=environment, capture_output=True, check=False).returncode == 0:
			return one
	return sys.executable


class Machine:
	"""build holds libmtshim.so, mtctl and tests/gpu; fake is the folder of a stand-in driver, or None. No command runs beyond deadline."""

	def __init__(self, build, fake=None, python=None, seconds=float("inf")):
		self.build = pathlib.Path(build).resolve()
		self.programs, self.shim, self.mtctl = self.build / "tests" / "gpu", self.build / "libmtshim.so", self.build / "mtctl"
		self.fake = pathlib.Path(fake).resolve() if fake else None
		self.deadline = time.monotonic() + seconds
		self.groups = set()
		in_memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
		self.mt_dir = tempfile.mkdtemp(prefix="mtshim-gpu-", dir=in_memory)
		self.python = python or python_with_torch(self.bare())
		self.settings = output_of([self.mtctl, "options"], env=self.bare())

	def missing(self):
		return [str(path) for path in (self.shim, self.mtctl, *(self.programs / name for name in ("checks", "probe", "pairs", "phases")))
		        if not path.exists()]

	def knows(self, setting):
		return setting in self.settings

	def settings_of(self, way):
		"""None for a way that this library does not have."""
		settings = WAYS[way]
		if self.knows("MT_CUDA_FREE") or "MT_CUDA_FREE" not in settings:
			return settings
		# A library without the setting has one kind of free, async.
		return None if settings["MT_CUDA_FREE"] == "wait" else {"MT_CUDA": "pool"}

	def left(self):
		return self.deadline - time.monotonic()

	def bare(self):
		environment = {name: value for name, value in os.environ.items()
		               if not name.startswith("MT_") and not name.startswith("FAKECUDA_") and name not in FOREIGN}
		if self.fake:
			path = environment.get("LD_LIBRARY_PATH")
			environment["LD_LIBRARY_PATH"] = f"{self.fake}:{path}" if path else str(self.fake)
			# As a real driver's: its cuMemFree waits for all work of the context.
			environment.update(FAKECUDA_FREE_WAITS="2", FAKECUDA_DEVICES="2")
		return environment

	def env(self, way, **variables):
		"""way: one of WAYS, or "auto", the shim without a setting."""
		environment = self.bare()
		if way != "bare":
			environment.update(LD_PRELOAD=str(self.shim), MT_DIR=self.mt_dir, MTCTL=str(self.mtctl))
			environment.update(self.settings_of(way) if way != "auto" else {})
		return environment | {name: str(value) for name, value in variables.items() if way != "bare" or not name.startswith("MT_")}

	def start(self, command, environment, **options):
		process = subprocess.Popen([str(word) for word in command], env=environment, stdout=subprocess.PIPE, text=True, errors="replace",
		                           start_new_session=True, **options)
		self.groups.add(process.pid)
		return process

	def kill(self, process):
		"""The session of its own that it leads, and so what it has started."""
		self.groups.discard(process.pid)
		try:
			os.killpg(process.pid, signal.SIGKILL)
		except ProcessLookupError:
			pass

	def run(self, command, environment, limit_s, stderr=subprocess.STDOUT):
		"""Status and output of a command; 124 where it was killed at its limit. Cut where nothing of the time is left."""
		if self.left() < 2:
			raise Cut("no time left")
		process = self.start(command, environment, stdin=subprocess.DEVNULL, stderr=stderr)
		try:
			text, _ = process.communicate(timeout=min(limit_s, self.left()))
			return process.returncode, text
		except subprocess.TimeoutExpired:
			self.kill(process)
			text, _ = process.communicate()
			if self.left() <= 0:
				raise Cut("killed: no time left") from None
			return 124, text + f"\nkilled after {limit_s:.0f} s"
		finally:
			self.kill(process)

	def gpu_figures(self, pid):
		"""What mtctl says of the first device of a process under the shim; {} where it says nothing."""
		text = output_of([self.mtctl, "stat", str(pid), "--json"], env=self.bare() | {"MT_DIR": self.mt_dir})
		try:
			return json.loads(text)["devices"][0]
		except (ValueError, KeyError, IndexError):
			return {}

	def free_bytes(self):
		"""Of device 0, as a process without the shim sees it; its own context is a constant part."""
		status, text = self.run([self.programs / "checks", "--role", "free"], self.bare(), 60)
		return int(text.split()[-1]) if status == 0 else None

	def end(self):
		for group in list(self.groups):
			try:
				os.killpg(group, signal.SIGKILL)
			except ProcessLookupError:
				pass
		shutil.rmtree(self.mt_dir, ignore_errors=True)

	def about(self):
		"""What each file of results begins with."""
		asked = "name,driver_version,memory.total,persistence_mode,clocks.max.sm,power.limit"
		status, text = self.run([self.programs / "probe", "machine"], self.bare(), 60, subprocess.DEVNULL)
		said = members(text)
		shown = output_of(["nvidia-smi", "--id=0", f"--query-gpu={asked}", "--format=csv,noheader"]).splitlines()
		device = said.get("device") if status == 0 else f"none ({said.get('remark', f'status {status}')})"
		return {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), "commit": commit(), "device": device,
		        "driver": driver_version() or ("stand-in" if self.fake else "unknown"), "cuda": said.get("cuda_version"),
		        "gpu": shown[0] if shown else "", "has_gpu": status == 0, "is_stand_in": bool(said.get("is_fake")),
		        "kernel": platform.release(), "glibc": platform.libc_ver()[1], "cores": os.cpu_count(),
		        "versions": {"python": platform.python_version(), **package_versions(self.python)}}


def members(text):
	"""Lines `key TAB JSON value` of the probe; any other line is a remark."""
	found = {}
	for line in text.splitlines():
		key, tab, value = line.partition("\t")
		try:
			found[key if tab else "remark"] = json.loads(value) if tab else line.removeprefix("skipped: ")
		except ValueError:
			found["remark"] = line
	return found


def driver_version():
	try:
		text = pathlib.Path("/proc/driver/nvidia/version").read_text(encoding="utf-8")
	except OSError:
		text = ""
	shown = output_of(["nvidia-smi", "--id=0", "--query-gpu=driver_version", "--format=csv,noheader"]).splitlines()
	return shown[0] if shown else next((word for word in text.split() if word[:1].isdigit() and "." in word), "")


def commit():
	"""Of the kit, or of the checkout that this is a part of."""
	kept = ROOT / "COMMIT"
	if kept.exists():
		return kept.read_text(encoding="utf-8").strip()
	return output_of(["git", "-C", str(ROOT), "describe", "--always", "--dirty"])


def package_versions(python):
	code = (f"import importlib.metadata as m\nfor n in {PACKAGES}:\n try: print(n, m.version(n))\n"
	        " except m.PackageNotFoundError: pass")
	return dict(line.split(" ", 1) for line in output_of([python, "-c", code]).splitlines() if " " in line)
