"""The stand-in for libcuda.so.1 by itself, without the shim: that it refuses what a driver refuses, that stale accesses are
seen, and that each version has what it had. The behaviours are functions of the fakecuda_*.c programs, by their names."""
import ctypes
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

from places import ROOT, helper

FAKE = ROOT / "build" / "tests" / "fakecuda"
VERSIONS = {"11.0": 11000, "12.2": 12020, "12.8": 12080, "13.0": 13000}
FAULTS = ["touching_freed_memory_faults", "running_over_a_block_faults", "touching_a_dead_contexts_memory_faults"]
LEGACY, PER_THREAD = 1, 2
FOUND, NOT_FOUND, TOO_NEW = 0, 1, 2


def behaviours(program, but=()):
	text = helper(f"{program}.c").read_text()
	return [name for name in re.findall(r"\bB\((\w+)\)[,\s]", text) if name not in but and name != "name"]


@pytest.fixture
def behave(run, compile_c, bare):
	"""behave(program, behaviour, **settings): runs one behaviour on the newest stand-in."""
	if not (FAKE / "libcuda.so.1").exists():
		pytest.fail(f"{FAKE}/libcuda.so.1 is not there: make fakecuda", pytrace=False)

	def run_one(program, behaviour, **settings):
		binary = compile_c(f"{program}.c", f"-I{ROOT / 'tests/fakecuda'}", f"-L{FAKE}", "-lcuda")
		env = dict(bare, LD_LIBRARY_PATH=str(FAKE), **{"FAKECUDA_" + name: str(value) for name, value in settings.items()})
		return run([binary, behaviour], env, timeout=30)
	return run_one


def expect(done):
	assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("behaviour", behaviours("fakecuda_refusals", FAULTS))
def test_it_refuses_what_a_driver_refuses(behave, behaviour):
	expect(behave("fakecuda_refusals", behaviour))


@pytest.mark.parametrize("behaviour", FAULTS)
def test_memory_that_is_gone_faults(behave, behaviour):
	done = behave("fakecuda_refusals", behaviour)

	assert done.stdout == "still here\n" and done.returncode == -signal.SIGSEGV


def test_a_freed_address_comes_back_at_once_where_that_is_asked(behave):
	expect(behave("fakecuda_refusals", "freed_addresses_rest", REUSE=1))


def test_misuse_aborts_where_that_is_asked(behave):
	done = behave("fakecuda_refusals", "work_on_freed_memory_is_an_error", ABORT=1)

	assert done.returncode == -signal.SIGABRT and "fake_fill touches" in done.stderr


@pytest.mark.parametrize("behaviour", behaviours("fakecuda_streams", ["a_free_waits_for_whom_it_is_told"]))
def test_streams_and_captures(behave, behaviour):
	expect(behave("fakecuda_streams", behaviour))


@pytest.mark.parametrize("waits", [0, 1, 2])
def test_a_free_waits_for_whom_it_is_told(behave, waits):
	expect(behave("fakecuda_streams", "a_free_waits_for_whom_it_is_told", FREE_WAITS=waits))


@pytest.mark.parametrize("behaviour", behaviours("fakecuda_memory", ["what_was_ordered_fails_and_waits"]))
def test_kinds_of_memory(behave, behaviour):
	expect(behave("fakecuda_memory", behaviour, DEVICES=2))


def test_a_primary_event_misses_green_contexts_where_that_is_asked(behave):
	expect(behave("fakecuda_memory", "a_green_contexts_event_sees_only_itself", GREEN_SEEN=0))


def test_what_was_ordered_fails_and_waits(behave):
	expect(behave("fakecuda_memory", "what_was_ordered_fails_and_waits", FAIL="cuMemAlloc_v2:2=2",
	              LATENCY_US="cuMemFree_v2=30000"))


def test_the_ledger_is_written_at_the_end(behave, tmp_path):
	behave("fakecuda_refusals", "a_second_free", LEDGER=tmp_path / "ledger", LOG=tmp_path / "log")

	end = json.loads((tmp_path / "ledger").read_text())
	assert end["live_count"]["device"] == 0 and end["refused_frees"] == 1 and end["contexts"] == 1
	assert end["calls"]["cuMemFree_v2"] == 2
	assert [line.split()[1] for line in (tmp_path / "log").read_text().splitlines()].count("cuMemFree_v2") == 2


# ---- versions and look-ups ----

class Driver:
	def __init__(self, version):
		self.number = VERSIONS[version]
		self.library = ctypes.CDLL(str(FAKE / version / "libcuda.so.1"))

	def has(self, symbol):
		return hasattr(self.library, symbol)

	def symbol(self, name):
		return ctypes.cast(getattr(self.library, name), ctypes.c_void_p).value

	def ask(self, name, version, flags=0):
		"""cuGetProcAddress of 12.0: its result, the pointer, the status."""
		pfn, status = ctypes.c_void_p(), ctypes.c_int(-1)
		result = self.library.cuGetProcAddress_v2(name.encode(), ctypes.byref(pfn), version, ctypes.c_uint64(flags),
		                                          ctypes.byref(status))
		return result, pfn.value, status.value

	def ask_old(self, name, version, flags=0):
		pfn = ctypes.c_void_p()
		result = self.library.cuGetProcAddress(name.encode(), ctypes.byref(pfn), version, ctypes.c_uint64(flags))
		return result, pfn.value


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_exports_what_it_had(version):
	driver = Driver(version)
	number = ctypes.c_int()

	assert driver.library.cuDriverGetVersion(ctypes.byref(number)) == 0 and number.value == driver.number
	for symbol, since in {"cuMemAlloc_v2": 3020, "cuMemAllocAsync": 11020, "cuGetProcAddress": 11030,
	                      "cuGetProcAddress_v2": 12000, "cuCtxRecordEvent": 12050, "cuEventElapsedTime_v2": 12080,
	                      "cuCtxSynchronize_v2": 13000}.items():
		assert driver.has(symbol) == (since <= driver.number), symbol


def test_the_default_is_the_newest():
	assert (FAKE / "libcuda.so.1").resolve() == (FAKE / "13.0" / "libcuda.so.1").resolve()


@pytest.mark.parametrize("version", ["12.2", "12.8", "13.0"])
def test_a_name_leads_to_what_the_asked_version_knew(version):
	driver = Driver(version)

	assert driver.ask("cuMemAlloc", 2000) == (0, driver.symbol("cuMemAlloc"), FOUND)
	assert driver.ask("cuMemAlloc", 3020) == (0, driver.symbol("cuMemAlloc_v2"), FOUND)
	assert driver.ask("cuMemAlloc", 12000) == (0, driver.symbol("cuMemAlloc_v2"), FOUND)
	assert driver.ask("cuMemAllocAsync", 11010) == (0, None, TOO_NEW)
	assert driver.ask("cuMemAlloc_v2", 12000) == (0, None, NOT_FOUND)
	assert driver.ask("cuMemAlloc", driver.number + 10) == (1, None, -1)
	assert driver.ask("cuGetProcAddress", 11030)[1] == driver.symbol("cuGetProcAddress")
	assert driver.ask("cuGetProcAddress", 12000)[1] == driver.symbol("cuGetProcAddress_v2")
	assert driver.ask("cuCtxRecordEvent", 12020) == (0, None, NOT_FOUND if version == "12.2" else TOO_NEW)


def test_the_older_look_up_says_not_found_by_its_result():
	driver = Driver("12.8")

	assert driver.ask_old("cuMemFree", 11030) == (0, driver.symbol("cuMemFree_v2"))
	assert driver.ask_old("cuNothing", 11030) == (500, None)
	assert driver.ask_old("cuCtxRecordEvent", 11030) == (500, None)


def test_flags_choose_the_default_stream():
	driver = Driver("13.0")

	for flags, suffix in ((0, ""), (LEGACY, ""), (PER_THREAD, "_ptsz")):
		assert driver.ask("cuMemAllocAsync", 12000, flags)[1] == driver.symbol("cuMemAllocAsync" + suffix)
		assert driver.ask("cuStreamBeginCapture", 10000, flags)[1] == driver.symbol("cuStreamBeginCapture" + suffix)
		assert driver.ask("cuStreamBeginCapture", 12000, flags)[1] == driver.symbol("cuStreamBeginCapture_v2" + suffix)
		# One without a twin is found all the same.
		assert driver.ask("cuMemAlloc", 12000, flags)[1] == driver.symbol("cuMemAlloc_v2")
	assert driver.ask("cuMemcpyHtoD", 12000, PER_THREAD)[1] == driver.symbol("cuMemcpyHtoD_v2_ptds")
	assert driver.ask("cuMemAlloc", 12000, LEGACY | PER_THREAD)[0] == 1


def test_every_name_has_an_address_of_its_own():
	driver = Driver("13.0")
	names = re.findall(r"\b[NZD]\((cu\w+),", "".join((ROOT / "tests/fakecuda" / file).read_text() for file in
	                                                ("functions.def", "functions_more.def", "functions_stub.def")))

	assert len(names) > 180
	assert len({driver.symbol(name) for name in names}) == len(names)


# ---- NVML ----

class Process(ctypes.Structure):
	_fields_ = [("pid", ctypes.c_uint), ("used_bytes", ctypes.c_ulonglong), ("gpu_instance", ctypes.c_uint),
	            ("compute_instance", ctypes.c_uint)]


def test_nvml_names_the_other_process(monkeypatch):
	monkeypatch.setenv("FAKECUDA_OTHER_MB", "100")
	nvml = ctypes.CDLL(str(FAKE / "libnvidia-ml.so.1"))
	device, count, processes = ctypes.c_void_p(), ctypes.c_uint(), (Process * 4)()

	assert nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 1  # not initialised
	assert nvml.nvmlInit_v2() == 0
	assert nvml.nvmlDeviceGetHandleByPciBusId_v2(b"00000000:01:00.0", ctypes.byref(device)) == 0
	assert nvml.nvmlDeviceGetHandleByPciBusId_v2(b"0000:07:00.0", ctypes.byref(ctypes.c_void_p())) == 6
	assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), None) == 7 and count.value == 1
	count.value = 4
	assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), processes) == 0
	assert (count.value, processes[0].pid, processes[0].used_bytes) == (1, 4242, 100 << 20)
	assert nvml.nvmlShutdown() == 0 and nvml.nvmlShutdown() == 1


def test_nvml_names_a_process_that_has_a_context_and_no_memory():
	code = f"""
import ctypes, os, sys
cuda, nvml = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL({str(FAKE / "libnvidia-ml.so.1")!r})
device, count, context, row = ctypes.c_void_p(), ctypes.c_uint(4), ctypes.c_void_p(), (ctypes.c_ulonglong * 12)()
nvml.nvmlInit_v2(), nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)), cuda.cuInit(0)
nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), row)
before = count.value
cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0)
count.value = 4
nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), row)
print(before, count.value, row[0] & 0xffffffff == os.getpid(), row[1])
"""
	got = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, LD_LIBRARY_PATH=str(FAKE)), capture_output=True,
	                     text=True, check=False)

	assert (got.stdout, got.returncode) == ("0 1 True 0\n", 0), got.stderr
