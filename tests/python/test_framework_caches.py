"""The device caches of Python's frameworks, emptied from outside: what is called of them, and when nothing is."""
import ctypes
import json
import pathlib
import re
import signal
import time

import pytest

from framework_helpers import Actor, program, PYTHON, records

FAKE = pathlib.Path(__file__).parent / "fake_torch"

# null where torch is not loaded.
ACTOR = program("""
def calls():
    return sys.modules["torch.cuda"].calls if "torch.cuda" in sys.modules else None
""")


@pytest.fixture
def actor(spawn, awake):
	def start(settings, *lines):
		one = Actor(spawn([PYTHON, "-c", ACTOR], dict(settings, PYTHONPATH=str(FAKE))))
		awake(one.pid, settings)
		for line in lines:
			one.tell(line)
		return one
	return start


def emptied(calls):
	return (calls or []).count("empty_cache")


def trim(one, control, settings, *words):
	one.begin("nap(1.5)")
	done = control(settings, "trim", one.pid, *words)
	assert done.returncode in (0, 1), done.stdout + done.stderr
	return one.end()


def test_a_trim_empties_the_cache_once(actor, env, control, stats):
	settings = env(MIN_MB=0)
	one = actor(settings, "import torch")

	calls = trim(one, control, settings)

	assert emptied(calls) == 1
	record = records(stats, one, settings, "request")[-1]
	assert (record["level"], record["gc_state"], record["gpu_state"]) == ("heavy", "done", "done")
	assert record["frameworks"] == ["torch"]


def test_the_signal_empties_it_once(actor, env, stats, wait_for):
	settings = env(MIN_MB=0)
	one = actor(settings, "import torch", "import os, signal")

	calls = one.tell("os.kill(os.getpid(), signal.SIGUSR1); nap(2)")

	assert emptied(calls) == 1
	assert records(stats, one, settings, "signal")[-1]["frameworks"] == ["torch"]


def test_a_call_of_the_program_itself_empties_it_at_once(actor, env):
	one = actor(env(MIN_MB=0), "import torch", "import ctypes")

	assert emptied(one.tell("ctypes.CDLL(None).mt_cleanup_memory(1)")) == 1
	assert emptied(one.tell("ctypes.CDLL(None).mt_cleanup_memory(0)")) == 1


def test_a_light_cleanup_leaves_it(actor, env, control):
	settings = env(MIN_MB=0)
	one = actor(settings, "import torch")

	assert emptied(trim(one, control, settings, "--light")) == 0


def test_a_light_cleanup_tells_what_it_holds(actor, env, control, stats):
	settings = env(MIN_MB=0)
	one = actor(settings, "import torch")

	trim(one, control, settings, "--light")

	seen = stats(one.pid, settings)
	assert (seen["framework_reserved_bytes"], seen["framework_allocated_bytes"]) == (512 << 20, 64 << 20)


@pytest.mark.parametrize("mode, least, most", [("off", 100_000, 400_000), ("on", 0, 0)])
def test_a_cleanup_tells_how_many_objects_are_in_arenas(actor, env, control, stats, mode, least, most):
	settings = env(MIN_MB=0, PYTHON_MALLOC=mode)
	one = actor(settings, "kept = [str(number) for number in range(100_000)]")

	trim(one, control, settings, "--light")

	if not any(hasattr(ctypes.pythonapi, name) for name in ("_Py_GetAllocatedBlocks", "_Py_GetGlobalAllocatedBlocks")):
		least = most = 0  # CPython 3.13 and later export neither
	assert least <= (stats(one.pid, settings)["python_blocks_count"] or 0) <= most


def test_nothing_is_imported(actor, env, control, stats):
	settings = env(MIN_MB=0)
	one = actor(settings)

	assert trim(one, control, settings) is None
	assert records(stats, one, settings, "request")[-1]["frameworks"] == []


@pytest.mark.parametrize("what", ["torch.cuda.INITIALIZED = False", "torch.cuda.CAPTURING = True",
                                  "torch.cuda.is_initialized = 7", "del torch.cuda.is_current_stream_capturing",
                                  "torch.__spec__._initializing = True", "torch.cuda.__spec__._initializing = True",
                                  "sys.modules['torch'] = None"])
def test_it_is_left_alone_where_it_may_not_be_called(actor, env, control, what):
	settings = env(MIN_MB=0)
	one = actor(settings, "import torch", what)

	assert emptied(trim(one, control, settings)) == 0
	assert one.tell("1 + 1") is not None, "and the program goes on"


@pytest.mark.parametrize("error", ["RuntimeError('no')", "SystemExit(3)", "MemoryError()", "OSError(5, 'x')"])
def test_an_error_in_it_does_not_reach_the_program(actor, env, control, stats, error):
	settings = env(MIN_MB=0)
	one = actor(settings, "import torch", f"torch.cuda.FAILS = {error}")

	assert emptied(trim(one, control, settings)) == 1
	assert records(stats, one, settings, "request")[-1]["frameworks"] == []
	assert one.tell("nap(0.1)").count("empty_cache") == 1


def test_an_interrupt_that_falls_into_it_reaches_the_program(actor, env):
	"""Asked for by the program itself: asked from outside, it might fall into the reading of the next line."""
	one = actor(env(MIN_MB=0), "import torch, os, signal", "torch.cuda.FAILS = KeyboardInterrupt()")

	assert one.tell("os.kill(os.getpid(), signal.SIGUSR1); nap(1.5)") == "KeyboardInterrupt()"


def test_references_are_given_back(actor, env):
	one = actor(env(MIN_MB=0), "import torch, ctypes, gc", "lib = ctypes.CDLL(None)", "lib.mt_cleanup_memory(1)",
	            "torch.cuda.calls.clear(); names = [torch, torch.cuda, torch.cuda.calls, torch.cuda.empty_cache, True]",
	            "before = [sys.getrefcount(name) for name in names]",
	            "for _ in range(50): lib.mt_cleanup_memory(1)")

	one.tell("torch.cuda.calls.clear(); after = [sys.getrefcount(name) for name in names]")

	assert one.tell("raise Exception(all(abs(a - b) < 5 for a, b in zip(after, before)))") == "Exception(True)"


# ---- page-locked host memory ----

HOST_CALLS = ("empty_host_cache", "_host_emptyCache")
ACCELERATOR, BINDING = "import torch.accelerator", "import torch._C"


@pytest.mark.parametrize("there, called", [
	([ACCELERATOR, BINDING], ["empty_host_cache"]), ([BINDING], ["_host_emptyCache"]),
	([ACCELERATOR, "del torch.accelerator.empty_host_cache", BINDING], ["_host_emptyCache"]), ([], []),
	([BINDING, "del torch._C._host_emptyCache"], []),
	# Where CUDA is not the accelerator, or not in use, nothing is called at all.
	([ACCELERATOR, BINDING, "torch.accelerator.TYPE = 'mps'"], []),
	([ACCELERATOR, BINDING, "torch.accelerator.TYPE = None"], []), ([ACCELERATOR, BINDING, "torch.accelerator.TYPE = 7"], []),
	([ACCELERATOR, BINDING, "torch.cuda.INITIALIZED = False"], []), ([ACCELERATOR, BINDING, "torch.cuda.CAPTURING = True"], [])])
def test_a_heavy_cleanup_releases_page_locked_memory_by_the_name_that_there_is(actor, env, there, called):
	one = actor(env(MIN_MB=0), "import torch, ctypes", *there)

	calls = one.tell("ctypes.CDLL(None).mt_cleanup_memory(1)")

	assert [call for call in calls if call in HOST_CALLS] == called
	assert not any(call in HOST_CALLS for call in one.tell("torch.cuda.calls.clear(); ctypes.CDLL(None).mt_cleanup_memory(0)"))


def test_the_decay_of_a_device_cache_leaves_page_locked_memory(actor, env):
	one = actor(env(MIN_MB=0, FRAMEWORK_DECAY_MS=500), "import torch", ACCELERATOR)

	calls = one.tell("nap(2)")

	assert emptied(calls) == 1 and "empty_host_cache" not in calls


def test_a_cleanup_tells_page_locked_bytes_before_and_after(actor, env, fakecuda, control, stats):
	settings = fakecuda(env(MIN_MB=0))
	one = actor(settings, "import torch", ACCELERATOR, "import ctypes", "cu = ctypes.CDLL('libcuda.so.1')",
	            "held = ctypes.c_void_p(); assert cu.cuInit(0) == 0",
	            "assert cu.cuDevicePrimaryCtxRetain(ctypes.byref(held), 0) == 0 and cu.cuCtxSetCurrent(held) == 0",
	            "kept = ctypes.c_void_p(); assert cu.cuMemHostAlloc(ctypes.byref(kept), ctypes.c_size_t(8 << 20), 0) == 0",
	            "torch.accelerator.hold(64)")

	one.begin("nap(1.5)")
	done = control(settings, "trim", one.pid)
	one.end()

	assert re.search(r"^  page-locked +72\.0 MB +8\.0 MB +-64\.0 MB$", done.stdout, re.MULTILINE), done.stdout
	record = records(stats, one, settings, "request")[-1]
	assert (record["pinned_before_bytes"], record["pinned_after_bytes"], record["result"]) == (72 << 20, 8 << 20, 1)
	assert control(settings, "trim", "--light", one.pid) and \
		records(stats, one, settings, "request")[-1]["pinned_before_bytes"] is None


# ---- MT_FRAMEWORK_DECAY_MS ----

def test_an_unused_cache_is_released_after_its_time(actor, env, stats):
	settings = env(MIN_MB=0, FRAMEWORK_DECAY_MS=1000)
	one = actor(settings, "import torch")

	assert emptied(one.tell("nap(0.8)")) == 0
	calls = one.tell("nap(2.5)")

	assert emptied(calls) == 1
	record = records(stats, one, settings, "framework")[-1]
	assert (record["gpu_before_bytes"], record["gpu_after_bytes"], record["result"]) == (512 << 20, 64 << 20, 1)
	assert stats(one.pid, settings)["gpu_framework_count"] == 1


def test_an_unused_cache_is_released_while_the_program_never_waits(actor, env):
	"""In a loop of one thread, where CPython 3.9 to 3.12 notice no call of another thread's."""
	one = actor(env(MIN_MB=0, FRAMEWORK_DECAY_MS=1000), "import torch")

	assert emptied(one.tell('exec("end = time.monotonic() + 3.3\\nwhile time.monotonic() < end: pass")')) == 1


def test_a_cache_that_is_used_again_in_time_is_kept(actor, env):
	one = actor(env(MIN_MB=0, FRAMEWORK_DECAY_MS=2000), "import torch")

	calls = one.tell("for _ in range(5): nap(0.6); torch.cuda.ALLOCATED[0] = 512 << 20; nap(0.6); "
	                 "torch.cuda.ALLOCATED[0] = 64 << 20")

	assert emptied(calls) == 0 and "memory_reserved" in calls


@pytest.mark.parametrize("settings, why", [({}, "it is off by default"),
                                           ({"FRAMEWORK_DECAY_MS": 600, "SLACK_MB": 1000}, "the gate is larger"),
                                           ({"FRAMEWORK_DECAY_MS": 600, "SLACK_PCT": 90}, "the share is larger")])
def test_a_cache_below_the_gate_is_kept(actor, env, settings, why):
	one = actor(env(MIN_MB=0, **settings), "import torch")

	assert emptied(one.tell("nap(2.5)")) == 0, why


def test_the_decay_never_touches_a_framework_that_captures(actor, env):
	one = actor(env(MIN_MB=0, FRAMEWORK_DECAY_MS=600), "import torch", "torch.cuda.CAPTURING = True")

	calls = one.tell("nap(2.5)")

	assert emptied(calls) == 0 and "memory_reserved" not in calls


# ---- where several processes train together ----

def test_of_several_ranks_none_flushes_unasked(actor, env, control, stats):
	settings = dict(env(MIN_MB=0, FRAMEWORK_DECAY_MS=600, ROUND="timer:1", HEAVY_ROUNDS=1), WORLD_SIZE="2")
	one = actor(settings, "import torch")

	calls = one.tell("nap(3)")

	assert emptied(calls) == 0
	rounds = records(stats, one, settings, "round")
	assert rounds and all(record["gc_state"] == "none" and record["gpu_state"] == "ranks" for record in rounds)
	assert emptied(trim(one, control, settings)) == 1, "asked, it does"


def test_a_marked_round_flushes_in_every_rank(actor, env, control, stats):
	settings = dict(env(MIN_MB=0, GC_ROUNDS=1, CUDA_EMPTY_CACHE=1), WORLD_SIZE="2")
	one = actor(settings, "import torch")

	one.begin("nap(2)")
	control(settings, "round", one.pid)

	assert emptied(one.end()) == 1


def test_rounds_are_heavy_only_when_told_so(actor, env, control):
	settings = env(MIN_MB=0, GC_ROUNDS=1)
	one = actor(settings, "import torch")

	one.begin("nap(2)")
	control(settings, "round", one.pid)

	assert emptied(one.end()) == 0


@pytest.mark.parametrize("words, released", [((), 1), (("--light",), 0)], ids=["heavy", "light"])
def test_a_heavy_trim_has_pyarrow_release_what_its_pool_does_not_use(spawn, env, awake, control, words, released):
	settings = env(MIN_MB=0)
	code = program("import pyarrow\ndef calls():\n    return pyarrow.released\n")
	one = Actor(spawn([PYTHON, "-c", code], dict(settings, PYTHONPATH=str(FAKE.parent / "fake_arrow"))))
	awake(one.pid, settings)

	assert trim(one, control, settings, *words) == released
