"""`run clients`: the same output and exit status with the shim as without, and what `mtctl trim` gives back. A client that is not there, or
fails without the shim too, is skipped by name."""
import concurrent.futures
import json
import os
import shutil
import subprocess
import threading

from gpu_machine import ROOT, Cut
from result import Failure, Skip

FOLDER = ROOT / "tests" / "gpu" / "clients"
LIMIT_S = 150
NO_CACHE = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def torch_conf(text):
	return {"PYTORCH_CUDA_ALLOC_CONF": text, "PYTORCH_ALLOC_CONF": text}


JAX = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
AUTO, ALL = ("auto",), ("auto", "pool/wait", "pool/async")
# name: (script and arguments, modules, environment, ways)
CLIENTS = {
	"torch.cache": (["torch_train.py"], ["torch"], {}, AUTO),
	"torch.no_cache": (["torch_train.py"], ["torch"], NO_CACHE, ALL),
	"torch.no_cache_signal": (["torch_train.py", "--signal"], ["torch"], NO_CACHE, ("pool/wait", "pool/async")),
	"torch.no_cache_decay": (["torch_train.py", "--steps", "60"], ["torch"], NO_CACHE | {"MT_CUDA_DECAY_MS": "50"}, ("pool/async",)),
	"torch.expandable": (["torch_train.py"], ["torch"], torch_conf("expandable_segments:True"), AUTO),
	"torch.malloc_async": (["torch_train.py"], ["torch"], torch_conf("backend:cudaMallocAsync"), AUTO),
	"torch.graph": (["torch_train.py", "--graph"], ["torch"], {}, AUTO),
	"torch.graph_signal": (["torch_train.py", "--graph", "--signal"], ["torch"], {}, AUTO),
	"torch.compile": (["torch_compile.py"], ["torch", "triton"], {}, AUTO),
	"torch.loader": (["torch_loader.py"], ["torch"], {}, AUTO),
	"torch.transformers": (["torch_transformers.py"], ["torch", "transformers"], {}, AUTO),
	"triton": (["triton_sum.py"], ["torch", "triton"], {}, AUTO),
	"cupy": (["cupy_sums.py"], ["cupy"], {}, ALL),
	"jax": (["jax_steps.py"], ["jax"], JAX, AUTO),
	"jax.platform": (["jax_steps.py"], ["jax"], JAX | {"XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}, ALL),
	"numba": (["numba_copies.py"], ["numba.cuda"], {}, ALL),
	"ctypes": (["ctypes_blocks.py"], [], {}, ALL),
}
# Code that ends with the reason why a module is of no use here.
USABLE = {
	"torch": "import torch\nif not torch.cuda.is_available(): raise SystemExit('no CUDA device for torch')",
	"cupy": "import cupy\ncupy.zeros(1)",
	"jax": "import jax\nif jax.default_backend() not in ('gpu', 'cuda'): raise SystemExit('no CUDA device for jax')",
}


class Modules:
	"""Which Python packages are of use here; each is asked once."""

	def __init__(self, machine):
		self.machine, self.reasons, self.lock = machine, {}, threading.Lock()

	def need(self, *names):
		with self.lock:
			for name in names:
				if name not in self.reasons:
					self.reasons[name] = self.ask(name)
				if self.reasons[name]:
					raise Skip(self.reasons[name])

	def ask(self, name):
		status, text = self.machine.run([self.machine.python, "-c", USABLE.get(name, f"import {name}")], self.machine.bare(), 120)
		lines = text.strip().splitlines() or ["no reason"]
		return "" if status == 0 else lines[-1][:160] if lines[-1].startswith("no CUDA") else f"{name} is of no use here ({lines[-1][:120]})"


# ---- with and without ----

def without(machine, command, environment):
	"""What a client prints last without the shim. Skips where it fails."""
	status, text = machine.run(command, machine.env("bare", **environment), LIMIT_S)
	if status != 0:
		raise Skip(f"exit status {status} without the shim, too: {text.rstrip().rpartition(chr(10))[2][:160]}")
	return last_object(text)


def last_object(text):
	return json.loads(next(line for line in reversed(text.splitlines()) if line.startswith("{")))


def held_mib(device):
	"""What the process holds of the device by the shim's figures: cuMemAlloc, the driver's own pool, cuMemCreate."""
	return sum(device.get(key, 0) for key in ("reserved_bytes", "async_reserved_bytes", "vmm_live_bytes")) >> 20


def with_shim(machine, command, environment):
	"""What a client prints last under the shim, and what it held before and after `mtctl trim`."""
	if machine.left() < 2:
		raise Cut("no time left")
	process = machine.start(command, environment | {"HOLD": "1"}, stdin=subprocess.PIPE, stderr=subprocess.STDOUT)
	timer = threading.Timer(min(LIMIT_S, machine.left()), machine.kill, [process])
	timer.start()
	lines, device = [], ({}, {})
	try:
		for line in process.stdout:
			lines.append(line)
			if line.startswith("{") and not device[0]:
				device = trimmed(machine, process.pid)
				process.stdin.close()
		status = process.wait()
	finally:
		timer.cancel()
		machine.kill(process)
	if status != 0 and machine.left() <= 0:
		raise Cut("killed: no time left")
	if status != 0:
		raise Failure(f"exit status {status}\n{''.join(lines)[-2500:]}")
	return last_object("".join(lines)), *device


def trimmed(machine, pid):
	before = machine.gpu_figures(pid)
	subprocess.run([machine.mtctl, "trim", str(pid)], env=machine.bare() | {"MT_DIR": machine.mt_dir}, capture_output=True, check=False,
	               timeout=60)
	return before, machine.gpu_figures(pid)


def same(one, other):
	"""Numbers of the results to 1e-5, all else exactly."""
	results, wanted = one["results"], other["results"]
	close = len(results) == len(wanted) and all(abs(left - right) <= 1e-5 * abs(right) + 1e-6 for left, right in zip(results, wanted))
	if one | {"results": wanted} != other or not close:
		raise Failure(f"with the shim: {one}\nwithout: {other}")
	return f"{len(wanted)} results {'equal' if results == wanted else 'equal to 1e-5'}"


def judge(found, expected, again):
	"""As same(). Skips where a second run without the shim (again) differs from the first one, too."""
	try:
		return same(found, expected)
	except Failure as failure:
		try:
			same(again(), expected)
		except Failure:
			raise Skip("its results differ from run to run without the shim, too") from None
		raise failure from None


def compare(machine, way, command, environment, wanted):
	"""wanted: a function that returns what the client prints without the shim."""
	if way != "auto" and machine.settings_of(way) is None:
		raise Skip("this library has no MT_CUDA_FREE")
	expected = wanted()
	found, before, after = with_shim(machine, command, machine.env(way, **environment))
	text = judge(found, expected, lambda: without(machine, [word for word in command if word != "--signal"], environment))
	figures = {"held_mib": held_mib(before), "held_after_trim_mib": held_mib(after)} if before else {}
	return text + (f", trim {figures['held_mib']} -> {figures['held_after_trim_mib']} MiB" if figures else ""), figures


class Once:
	"""The result of a function, or what it raised, for several threads."""

	def __init__(self, function):
		self.function, self.lock, self.said = function, threading.Lock(), None

	def __call__(self):
		with self.lock:
			if self.said is None:
				try:
					self.said = self.function(), None
				except Exception as error:  # pylint: disable=broad-except
					self.said = None, error
			if self.said[1]:
				raise self.said[1]
			return self.said[0]


def comparisons(machine, modules):
	for name, (words, needed, environment, ways) in CLIENTS.items():
		command = [machine.python, FOLDER / words[0], *words[1:]]
		plain = [word for word in command if word != "--signal"]  # it would end by it

		def bare(plain=plain, needed=needed, environment=environment):
			modules.need(*needed)
			return without(machine, plain, environment)
		wanted = Once(bare)
		for way in ways:
			yield name, way, lambda words=(way, command, environment, wanted): compare(machine, *words)


# ---- one at a time: what fills or watches the device ----

def last_json(machine, script, way, **environment):
	status, text = machine.run([machine.python, FOLDER / script], machine.env(way, **environment), LIMIT_S)
	if status != 0:
		raise Failure(f"{script}: exit status {status}\n{text[-2500:]}")
	return last_object(text)


def give_back(machine, modules, mib, way, **environment):
	"""SIGUSR1 gives back everything idle, as another process sees it."""
	modules.need("torch")
	process = machine.start([machine.python, FOLDER / "torch_give_back.py", "--mib", mib], machine.env(way, **environment),
	                        stdin=subprocess.PIPE, stderr=subprocess.STDOUT)
	timer = threading.Timer(min(LIMIT_S, machine.left()), machine.kill, [process])
	timer.start()
	seen, said = {}, []
	try:
		for line in process.stdout:
			word = line.strip()
			if word in ("begin", "idle", "done"):
				seen[word] = machine.free_bytes()
				process.stdin.write("\n")
				process.stdin.flush()
			else:
				said.append(line)
		status = process.wait()
	finally:
		timer.cancel()
		machine.kill(process)
	if status != 0 or len(seen) < 3:
		raise Failure(f"exit status {status}\n{''.join(said)[-2500:]}")
	kept, idle = (seen["begin"] - seen["done"]) >> 20, (seen["begin"] - seen["idle"]) >> 20
	text = f"idle held {idle} MiB, after SIGUSR1 {kept} MiB"
	# One block of a sixteenth stays live.
	if idle < mib * 0.8 or kept > mib / 16 + 64:
		raise Failure(text)
	return text, {"held_mib": idle, "held_after_trim_mib": kept}


def retry(machine, modules, **environment):
	"""What PyTorch overcomes is a retry to the shim too, and no error; what PyTorch raises is one."""
	modules.need("torch")
	seen = last_json(machine, "torch_retry.py", "auto", **environment)
	overcome, raised = seen["overcome"], seen["raised"]
	if overcome["torch"]["num_alloc_retries"] < 1 or overcome["torch"]["num_ooms"] or raised["torch"]["num_ooms"] != 1:
		raise Skip(f"PyTorch has not met what was prepared for it: {seen}")
	if overcome["shim"]["num_ooms"] or overcome["shim"]["num_alloc_retries"] < 1 or raised["shim"]["num_ooms"] < 1:
		raise Failure(str(seen))
	return f"retries {overcome['shim']['num_alloc_retries']}, errors {raised['shim']['num_ooms']}"


def pinned(machine, modules):
	modules.need("torch")
	seen = last_json(machine, "torch_pinned.py", "auto")
	if not seen["can_release"]:
		raise Skip(f"torch {seen['torch']} has no call that releases page-locked memory")
	if (seen["before"] or 0) < seen["mib"] << 20 or seen["before"] - seen["after"] < seen["mib"] << 20:
		raise Failure(str(seen))
	return f"{seen['before'] >> 20} -> {seen['after'] >> 20} MiB"


def sanitizer(machine):
	"""compute-sanitizer sees the same of one of our checks with the shim as without: here `auto` must hide nothing."""
	program = shutil.which("compute-sanitizer")
	if not program:
		raise Skip("no compute-sanitizer here")
	command = [program, "--leak-check", "full", "--error-exitcode", "9", machine.programs / "checks", "families"]
	seen = []
	for way in ("bare", "auto"):
		status, text = machine.run(command, machine.env(way), LIMIT_S)
		seen.append((status, sorted(line for line in text.splitlines() if "SUMMARY" in line)))
		if way == "bare" and not seen[0][1]:
			raise Skip(f"compute-sanitizer does not run here: {text.strip()[-160:]}")
	if seen[0] != seen[1]:
		raise Failure(f"without the shim {seen[0]}, with it {seen[1]}")
	return f"exit status {seen[0][0]}, {'; '.join(seen[0][1])}"


def singles(machine, modules):
	yield "torch.give_back_no_cache", "pool/async", lambda: give_back(machine, modules, 2048, "pool/async", MT_CUDA_DECAY_MS=0, **NO_CACHE)
	yield "torch.give_back_cache", "auto", lambda: give_back(machine, modules, 2048, "auto")
	yield "torch.retry", "auto", lambda: retry(machine, modules)
	yield "torch.retry_expandable", "auto", lambda: retry(machine, modules, **torch_conf("expandable_segments:True"))
	yield "torch.pinned", "auto", lambda: pinned(machine, modules)
	yield "compute-sanitizer", "auto", lambda: sanitizer(machine)


def run(machine, result, wanted):
	modules = Modules(machine)
	with concurrent.futures.ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
		list(pool.map(lambda one: result.take(*one), [one for one in comparisons(machine, modules) if wanted(one[0])]))
	for one in singles(machine, modules):
		if wanted(one[0]):
			result.take(*one)
	given = [(f"{row['name']} {row['way']}", row["figures"]) for row in result.rows if row.get("figures")]
	return "\n".join(["MiB of the device held before and after a cleanup on request"] + [
		f"{name:36} {figures['held_mib']:8} {figures['held_after_trim_mib']:8}" for name, figures in given]) if given else ""
