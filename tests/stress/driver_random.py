#!/usr/bin/python3
"""A drawn sequence of calls to the CUDA driver, without the shim and with it: the same answers, and no call that returns at once
without it takes longer than 100 ms with it, but for waits that the driver alone has made before.

  driver_random.py PROGRAM SEED CALLS VERSION [--chunk N] [--faults N] [--strict]

PROGRAM is tests/stress/driver_random*.c, built with FLAGS (the test leaves it as build/tests/driver_random-*); VERSION is a directory of build/tests/fakecuda. MTSHIM_LIBRARY names the library, else
it is build/libmtshim.so; MT_* of the environment are its settings (MT_CUDA=pool without any). Each difference is printed with the
fewest operations that still show it.

The calls are run in chunks, each in a process of its own with SEED + the chunk's number; each episode of 120 operations begins and ends
without a context. A slow call counts where it is slow three times. Without --strict a call that succeeds because the pool needs no
driver call for it, where the driver alone refuses it for the moment (KINDER), is no fault; it ends the comparison of its episode. So does
an allocation that finds too little because a context of its device, in which memory had been freed, has since met an error (is_withheld).
"""
import argparse
import dataclasses
import itertools
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SOURCES = sorted((ROOT / "tests/stress").glob("driver_random_*.c"))
FLAGS = [f"-I{ROOT}/tests/fakecuda", f"-L{ROOT}/build/tests/fakecuda", "-lcuda"]
RECORD = struct.Struct("<IIiIQQ30sbB")
CHUNK = 5_000
AT_ONCE_US, SLOW_US = 20_000, 100_000
HANG = "did not return"
RUN_LIMIT_S, SHRINK_S = 240, 30
END = 120 # the operation under which an episode's end is traced
ALLOCATIONS = ("cuMemAlloc_v2", "cuMemAllocPitch_v2", "cuMemAllocManaged", "cuMemAllocAsync", "cuMemCreate")
DEVICE_OF_SLOT = (0, 1, 0, 0, 1) # of a context, as in driver_random_model.h; physical memory is always of device 0
# Out of memory; no context, a broken or a destroyed one.
KINDER = {(name, 2) for name in ALLOCATIONS} | {("cuMemFree_v2", code) for code in (201, 700, 709)}


@dataclasses.dataclass(frozen=True)
class Call:
	code: int
	us: int
	first: int
	second: int
	name: str
	slot: int # of the current context, -1: none
	thread: int

	def answer(self):
		return self.name, self.code, self.first, self.second

	def __str__(self):
		result = HANG if self.code == -1 else f"= {self.code}"
		return f"thread {self.thread}: {self.name}({self.first}, {self.second}) {result}, {self.us / 1000:.1f} ms"


@dataclasses.dataclass(frozen=True)
class Fault:
	kind: str # answer, slow or crash
	seed: int
	episode: int
	operation: int
	name: str
	alone: str
	shimmed: str

	def same_as(self, other):
		return other is not None and (self.kind, self.name, self.alone, self.shimmed) == \
			(other.kind, other.name, other.alone, other.shimmed)


def read(path):
	"""{(episode, operation): its calls in order}."""
	calls = {}
	for record in RECORD.iter_unpack(path.read_bytes()):
		name = record[6].rstrip(b"\0").decode()
		if not name:
			break
		calls.setdefault(record[:2], []).append(Call(record[2], record[3], record[4], record[5], name, record[7], record[8]))
	return calls


class Runner:
	"""Runs the program without the shim and with it."""

	def __init__(self, program, version, environment=None, library=None, strict=False):
		bare = dict(environment or os.environ)
		shim = str(library or bare.get("MTSHIM_LIBRARY") or ROOT / "build" / "libmtshim.so")
		settings = {name: value for name, value in bare.items() if name.startswith("MT_")}
		bare = {name: value for name, value in bare.items() if not name.startswith("MT_") and name != "LD_PRELOAD"}
		bare.update(LD_LIBRARY_PATH=str(ROOT / "build/tests/fakecuda" / version), FAKECUDA_DEVICES="2", FAKECUDA_MEMORY_MB="1000",
		            FAKECUDA_FREE_WAITS="2")
		self.program, self.bare = str(program), bare
		self.shimmed = dict(bare, **{"MT_CUDA": "pool", **settings}, LD_PRELOAD=shim)
		self.calls, self.strict = 0, strict
		self.withheld = 0 # episodes that ended by is_withheld

	def run(self, shimmed, seed, calls, *kept):
		with tempfile.TemporaryDirectory(prefix="driver_random") as folder:
			trace = pathlib.Path(folder) / "trace"
			environment = dict(self.shimmed, MT_DIR=folder) if shimmed else self.bare
			done = subprocess.run([self.program, str(trace), str(seed), str(calls), *map(str, kept)], env=environment,
			                      timeout=RUN_LIMIT_S, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
			return done.returncode, read(trace)

	def alone(self, seed, calls, *kept):
		status, trace = self.run(False, seed, calls, *kept)
		assert status == 0, f"the driver alone: {self.program} {seed} {calls} ended with {status}"
		return trace

	def faults(self, seed, calls, *kept):
		"""What differs: of each episode the first answer, and every call that is slow again and again."""
		alone = self.alone(seed, calls, *kept)
		status, shimmed = self.run(True, seed, calls, *kept)
		self.calls += sum(map(len, alone.values()))
		found = list(differences(seed, alone, shimmed, self.strict))
		self.withheld += sum(fault.kind == "withheld" for fault in found)
		found = [fault for fault in found if fault.kind != "withheld"]
		if status not in (0, 3):
			last = max(shimmed, default=(0, 0))
			found.append(Fault("crash", seed, *last, "the program", "0", str(status)))
		if any(fault.kind == "answer" for fault in found):
			again = self.alone(seed, calls, *kept)
			varied = {fault.episode for fault in differences(seed, alone, again) if fault.kind == "answer"}
			assert not varied, f"seed {seed}: the driver alone answers differently in episodes {sorted(varied)}"
		suspects = {(fault.episode, fault.operation, fault.name) for fault in found if fault.kind == "slow"}
		for _ in range(2):
			if suspects:
				again = differences(seed, self.alone(seed, calls, *kept), self.run(True, seed, calls, *kept)[1], self.strict)
				suspects &= {(fault.episode, fault.operation, fault.name) for fault in again if fault.kind == "slow"}
		return [fault for fault in found
		        if fault.kind != "slow" or (fault.episode, fault.operation, fault.name) in suspects]

	def shrink(self, fault):
		"""The fewest operations that still show the fault, as (episode, operation), and their calls with the shim. Those of its own
		episode, if they are enough: what the shim keeps from the episodes before may be needed as well."""
		limit = time.monotonic() + SHRINK_S

		def kept(operations):
			return operations[0][0], "," + "".join(f"{episode}.{operation}," for episode, operation in operations)

		def shows(operations):
			return any(fault.same_as(other) for other in self.faults(fault.seed, calls, *kept(operations)))

		calls = fault.episode * END + 1
		last = [(fault.episode, operation) for operation in range(min(fault.operation + 1, END))]
		for before in (0, 1, 3, 9, fault.episode):
			first = max(fault.episode - before, 0)
			operations = [(episode, operation) for episode in range(first, fault.episode) for operation in range(END)] + last
			if shows(operations):
				break
		else:
			return [], {}
		step = len(operations) // 2
		while step > 0 and time.monotonic() < limit:
			place = 0
			while place < len(operations) and time.monotonic() < limit:
				fewer = operations[:place] + operations[place + step:]
				if fewer and shows(fewer):
					operations = fewer
				else:
					place += step
			step //= 2
		return operations, self.run(True, fault.seed, calls, *kept(operations))[1]


def is_kinder(call, other):
	return call.name == other.name and other.code == 0 and (call.name, call.code) in KINDER


def is_withheld(call, other, broken):
	"""What the pool has of a context that an error has ended the driver takes back at the context's end alone (decision 4): until then
	an allocation on its device may find too little."""
	device = 0 if call.name == "cuMemCreate" else DEVICE_OF_SLOT[call.slot] if call.slot >= 0 else None
	return call.name == other.name and (call.code, other.code) == (0, 2) and call.name in ALLOCATIONS and \
		any(DEVICE_OF_SLOT[slot] == device for slot, freed_bytes in broken.items() if freed_bytes)


def differences(seed, alone, shimmed, strict=True):
	"""The first answer of each episode that differs, and the slow calls before it. What the driver alone has waited for in an episode, in a
	cuMemFree say, the shim may wait for later, in the call that needs the memory."""
	diverged, broken, withheld, waited_us = set(), set(), {}, {}
	for place, calls in alone.items():
		episode, operation = place
		if episode in diverged:
			continue
		others = shimmed.get(place, [])
		for call, other in zip(calls, others):
			if other.code == -1:
				yield Fault("slow", seed, episode, operation, call.name, "at once", HANG)
				return
			if call.code == 700:
				broken.add(episode)
			if call.name == "context broken":
				withheld.setdefault(episode, {})[call.first] = call.second
			if call.name == "cuCtxDestroy_v2" and call.code == 0:
				withheld.get(episode, {}).pop(call.first, None)
			if call.answer() != other.answer():
				diverged.add(episode)
				# In a broken context it is chance whether a thread of the storm meets the error or a kept block (KINDER).
				by_chance = call.name.startswith("storm:") and episode in broken
				if not strict and is_withheld(call, other, withheld.get(episode, {})):
					yield Fault("withheld", seed, episode, operation, call.name, *told(call, other))
				elif strict or not (by_chance or is_kinder(call, other)):
					yield Fault("answer", seed, episode, operation, call.name, *told(call, other))
				break
			waited_us[episode] = waited_us.get(episode, 0) + call.us - other.us
			if call.us < AT_ONCE_US and other.us > SLOW_US and -waited_us[episode] > SLOW_US:
				yield Fault("slow", seed, episode, operation, call.name, "at once", "slow")
		else:
			if len(calls) != len(others):
				diverged.add(episode)
				more = (calls if len(calls) > len(others) else others)[min(len(calls), len(others))]
				hung = len(others) > len(calls) and more.code == -1
				yield Fault("slow" if hung else "answer", seed, episode, operation, more.name,
				            f"{len(calls)} calls", HANG if hung else f"{len(others)} calls")
				if hung or not others:
					return


def told(call, other):
	"""How the two answers differ."""
	if call.name != other.name:
		return call.name, other.name
	if call.code != other.code:
		return str(call.code), str(other.code)
	return f"{call.first}, {call.second}", f"{other.first}, {other.second}"


def tell(runner, fault, shrinks=True):
	"""The fault as lines of text, with what leads to it."""
	lines = [f"{fault.name}: {fault.alone} alone, {fault.shimmed} with the shim "
	         f"(seed {fault.seed}, episode {fault.episode}, operation {fault.operation})"]
	operations, trace = runner.shrink(fault) if shrinks else ([], {})
	if operations:
		lines.append("  these are enough: ," + "".join(f"{episode}.{operation}," for episode, operation in operations))
		for place, calls in sorted(trace.items()):
			# A row of the same calls is one line.
			for _, row in itertools.groupby(
					[call for call in calls if place[1] < END or call.name == fault.name],
					lambda call: (call.thread, call.name, call.code, call.first if call.first > 64 else 0)):
				row = list(row)
				lines.append(f"    {place[0]}.{place[1]:3} {row[0]}" + (f" ... {len(row)} times" if len(row) > 1 else ""))
	return "\n".join(lines)


def check(runner, seed, calls, chunk=CHUNK, told_most=3):
	"""All faults of so many calls, told; each kind of fault is shrunk once."""
	texts, seen = [], []
	number = 0
	while number * chunk < calls:
		for fault in runner.faults(seed + number, min(chunk, calls - number * chunk)):
			is_new = not any(fault.same_as(other) for other in seen)
			seen.append(fault)
			if is_new and len(texts) < told_most:
				texts.append(tell(runner, fault))
		number += 1
	return len(seen), texts


def main():
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("program")
	parser.add_argument("seed", type=int)
	parser.add_argument("calls", type=int)
	parser.add_argument("version")
	parser.add_argument("--chunk", type=int, default=CHUNK, help="calls of one process")
	parser.add_argument("--faults", type=int, default=10, help="how many different ones are told")
	parser.add_argument("--strict", action="store_true", help="also where the pool is kinder than the driver alone")
	arguments = parser.parse_args()
	runner = Runner(arguments.program, arguments.version, strict=arguments.strict)
	count, texts = check(runner, arguments.seed, arguments.calls, arguments.chunk, arguments.faults)
	print("\n".join([*texts, f"{runner.calls} calls compared, {count} differ"]))
	return 1 if count else 0


if __name__ == "__main__":
	sys.exit(main())
