"""`run truth`: what the driver does (the probe), and whether the shim keeps what it promises (the C checks), in all ways."""
import concurrent.futures
import subprocess

from gpu_machine import SKIPPED, WAYS, members
from result import Failure, Skip

CHECK_LIMIT_S = 120
# What docs/gpu.md and the pool's design ask of a driver: key, item of the probe, member.
QUESTIONS = [
	(f"cuMemFree waits for a kernel in a stream: {kind}", f"free_waits.{kind}", "free_waits")
	for kind in ("null", "blocking", "non_blocking", "per_thread", "other_context")] + [
	("cuMemFreeAsync of cuMemAlloc memory gives back without a synchronisation", "freed_in_stream", "is_free_for_cuMemGetInfo"),
	("... and cuMemAlloc gets it", "freed_in_stream", "alloc_code"),
	("cuEventRecord, ns", "cost.events.1", "cuEventRecord_idle_ns"),
	("cuEventRecord in 16 threads, ns", "cost.events.16_threads", "cuEventRecord_ns"),
	("cuEventQuery, ns", "cost.events.1", "cuEventQuery_ready_idle_ns"),
	("cuEventQuery in 16 threads, ns", "cost.events.16_threads", "cuEventQuery_ns"),
	("cuCtxRecordEvent, ns", "cost.events.1", "cuCtxRecordEvent_idle_ns"),
	("a capture (global) survives cuMemFree in its thread", "capture.global.same.plain", "cuMemFree_survives"),
	("... and its result", "capture.global.same.plain", "cuMemFree_code"),
	("a capture (global) survives cuMemFree in another thread", "capture.global.other.plain", "cuMemFree_survives"),
	("a capture (relaxed) survives cuMemFree in another thread", "capture.relaxed.other.plain", "cuMemFree_survives"),
]


def probe_items(machine):
	listed = subprocess.run([machine.programs / "probe", "--list"], capture_output=True, text=True, check=True, env=machine.bare()).stdout
	return {name: int(limit) for name, limit in map(str.split, listed.splitlines())}


def probe(machine, name, limit_s):
	"""Passes when it could be asked; what the answer means is for a reader of docs/gpu.md."""
	status, text = machine.run([machine.programs / "probe", name], machine.bare(), limit_s, subprocess.DEVNULL)
	found = members(text)
	if status == SKIPPED:
		raise Skip(found.get("remark", "no reason"))
	if status != 0:
		raise Failure(f"exit status {status}: {text[-1000:]}")
	return f"{len(found)} answers", found


def checks(machine):
	"""(name, way, settings, why not) of each check in each way; why not is empty where it is tried."""
	listed = subprocess.run([machine.programs / "checks", "--list"], capture_output=True, text=True, check=True, env=machine.bare()).stdout
	for way in WAYS:
		for line in listed.splitlines():
			name, needs, *settings = line.split()
			settings = dict(word.split("=", 1) for word in settings)
			if (needs == "shim" and way == "bare") or (needs == "pool" and not way.startswith("pool")):
				continue
			yield name, way, settings, "" if machine.settings_of(way) is not None else "this library has no MT_CUDA_FREE"


def check(machine, name, way, settings, why_not):
	if why_not:
		raise Skip(why_not)
	if machine.fake:
		# Without fences the stand-in's frees must wait. With them they must not be needed.
		settings = {"FAKECUDA_FREE_WAITS": "1" if way == "pool/async" else "2"} | settings
	status, text = machine.run([machine.programs / "checks", name], machine.env(way, **settings), CHECK_LIMIT_S)
	last = text.rstrip().rpartition("\n")[2]
	if status == SKIPPED:
		raise Skip(last.removeprefix("skipped: "))
	if status != 0:
		raise Failure(f"exit status {status}\n{text.rstrip()}")
	return "" if last.startswith("mtshim[") else last


def tasks(machine):
	"""(name, way, function) of everything, in the order in which it is worth having."""
	found = [(f"probe.{name}", "bare", lambda name=name, limit=limit: probe(machine, name, limit))
	         for name, limit in probe_items(machine).items()]
	return found + [(f"c.{name}", way, lambda words=(name, way, settings, why_not): check(machine, *words))
	                for name, way, settings, why_not in checks(machine)]


def answers(rows):
	"""The questions and their answers, as lines."""
	found = {row["name"]: row.get("figures", {}) for row in rows}
	said = [(question, found.get(f"probe.{item}", {}).get(member)) for question, item, member in QUESTIONS]
	return "\n".join(f"{question}: {'not known' if answer is None else str(answer).lower()}" for question, answer in said)


def run(machine, result, wanted):
	everything = [one for one in tasks(machine) if wanted(one[0])]
	# A process has a stand-in device of its own. The probe measures, and a real device is shared: one at a time.
	single = everything if not machine.fake else [one for one in everything if one[0].startswith("probe.")]
	for name, way, function in single:
		result.take(name, way, function)
	with concurrent.futures.ThreadPoolExecutor(4) as pool:
		list(pool.map(lambda one: result.take(*one), [one for one in everything if one not in single]))
	return answers(result.rows)
