"""What the worker does for a process that uses CUDA, over the driver of tests/fakecuda: memory goes back by itself, on a
signal and when asked, never during a capture; figures and out-of-memory reports reach the stats file."""
import json
import os
import pathlib
import re
import shutil
import signal
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAKE = ROOT / "build" / "tests" / "fakecuda"
PYTHON = "/usr/bin/python3"
MB = 1 << 20

# Runs what it is told, a line at a time, and answers each with the value of `answer`.
ACTOR = r'''
import ctypes, json, os, sys, time
cu = ctypes.CDLL("libcuda.so.1")
cu.fakecuda_used_bytes.restype = ctypes.c_uint64
used = lambda device=0: cu.fakecuda_used_bytes(device)
base = 0
def context():
    global base, held
    held = ctypes.c_void_p()
    assert cu.cuInit(0) == 0
    assert cu.cuDevicePrimaryCtxRetain(ctypes.byref(held), 0) == 0 and cu.cuCtxSetCurrent(held) == 0
    base = used()
def alloc(mb):
    at = ctypes.c_uint64()
    result = cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(mb << 20))
    return at if result == 0 else result
def free(at):
    return cu.cuMemFree_v2(at)
def nap(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.005)
print("ready", flush=True)
for line in sys.stdin:
    answer = None
    exec(line)
    print(json.dumps(answer), flush=True)
'''


class Actor:
	def __init__(self, process):
		self.process = process
		self.pid = process.pid
		assert process.stdout.readline() == "ready\n", process.stderr.read()

	def tell(self, line):
		self.process.stdin.write(line + "\n")
		self.process.stdin.flush()
		return json.loads(self.process.stdout.readline())

	def used(self):
		return self.tell("answer = used() - base")

	def end(self):
		self.process.stdin.close()
		return self.process.wait(), self.process.stderr.read()


@pytest.fixture
def actor(spawn, awake):
	def start(settings):
		if not (FAKE / "libcuda.so.1").exists():
			pytest.fail("tests/fakecuda is not built: make fakecuda", pytrace=False)
		one = Actor(spawn([PYTHON, "-c", ACTOR], dict(settings, LD_LIBRARY_PATH=str(FAKE))))
		one.tell("context()")
		if settings.get("MT_MIN_MB") == "0":
			awake(one.pid, settings)
		return one
	return start


def records(stats, one, settings, reason):
	return [record for record in stats(one.pid, settings)["records"] if record["reason"] == reason]


def thread_names(pid):
	names = []
	for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
		names.append((task / "comm").read_text().strip())
	return names


def test_a_capture_between_two_looks_leaves_the_figures_of_the_device(actor, env, awake, stats):
	"""Half of the time a capture is open."""
	settings = env()
	one = actor(settings)
	one.tell("block = alloc(8)")
	awake(one.pid, settings)
	one.tell(r'exec("import threading\ndef storm():\n cu.cuCtxSetCurrent(held)\n stream, graph = ctypes.c_void_p(), ctypes.c_void_p()\n'
	         r' cu.cuStreamCreate(ctypes.byref(stream), 1)\n while True:\n  cu.cuStreamBeginCapture_v2(stream, 2)\n'
	         r'  cu.cuStreamEndCapture(stream, ctypes.byref(graph))\n  cu.cuGraphDestroy(graph)", globals())')
	one.tell("threading.Thread(target=storm, daemon=True).start()")

	seen = [stats(one.pid, settings)["gpu_devices_count"] for _ in range(60)]

	assert seen == [1] * 60


def test_a_process_that_touches_cuda_is_awake_however_small(actor, env, awake, stats, wait_for):
	settings = env(MIN_MB=10000)
	one = actor(settings)
	one.tell("block = alloc(8)")

	wait_for(lambda: {"mtshim", "mtshim-gpu"} <= set(thread_names(one.pid)))
	awake(one.pid, settings)
	seen = stats(one.pid, settings)

	assert (seen["gpu_devices_count"], seen["gpu_allocated_bytes"], seen["gpu_blocks_count"]) == (1, 8 * MB, 1)
	assert seen["gpu_total_bytes"] == 1024 * MB and 0 < seen["gpu_free_bytes"] <= 1016 * MB


def test_a_process_without_cuda_has_no_such_thread(spawn, env, awake):
	process = spawn([PYTHON, "-c", "input()"], env(MIN_MB=0))
	awake(process.pid, env(MIN_MB=0))

	assert "mtshim-gpu" not in thread_names(process.pid)


def test_freed_memory_goes_back_by_itself_after_the_decay(actor, env, wait_for):
	one = actor(env(CUDA_DECAY_MS=1000))
	one.tell("blocks = [alloc(16) for _ in range(8)]")
	one.tell("[free(block) for block in blocks]")
	freed = time.monotonic()

	assert one.used() == 128 * MB, "kept for reuse at first"
	wait_for(lambda: one.used() == 0, 5)
	assert 0.5 < time.monotonic() - freed < 3.5


def test_twenty_thousand_blocks_go_back_as_soon_as_one(actor, env, wait_for):
	one = actor(env(CUDA_DECAY_MS=1000))
	one.tell("size = ctypes.c_size_t(4096); blocks = [ctypes.c_uint64() for _ in range(20000)]")
	one.tell("[cu.cuMemAlloc_v2(ctypes.byref(block), size) for block in blocks]; [free(block) for block in blocks]")
	freed = time.monotonic()

	wait_for(lambda: one.used() == 0, 10)
	assert time.monotonic() - freed < 3.5


def test_a_cleanup_that_the_driver_does_not_finish_in_time_claims_nothing(actor, env, control, stats):
	"""60 blocks of 100 ms each, of which 5 s are waited for."""
	settings = env(MIN_MB=0, CUDA_DECAY_MS=0)
	one = actor(dict(settings, FAKECUDA_LATENCY_US="cuMemFreeAsync=100000"))
	one.tell("blocks = [alloc(2) for _ in range(60)]; [free(block) for block in blocks]")

	assert control(settings, "trim", one.pid).returncode in (0, 1)

	record = records(stats, one, settings, "request")[-1]
	assert record["gpu_after_bytes"] == record["gpu_before_bytes"] >= 120 * MB, record


@pytest.mark.parametrize("how", ["signal", "trim", "call"])
def test_everything_idle_goes_back_when_asked(actor, env, control, stats, wait_for, how):
	settings = env(MIN_MB=0, CUDA_DECAY_MS=0)
	one = actor(settings)
	one.tell("blocks = [alloc(16) for _ in range(8)]; [free(block) for block in blocks]; kept = alloc(4)")
	assert one.used() >= 128 * MB

	if how == "signal":
		os.kill(one.pid, signal.SIGUSR1)
	elif how == "trim":
		assert control(settings, "trim", one.pid).returncode == 0
	else:
		one.tell("ctypes.CDLL(None).mt_cleanup_memory(1)")

	wait_for(lambda: one.used() <= 16 * MB, 5)
	reason = {"signal": "signal", "trim": "request", "call": "api"}[how]
	record = wait_for(lambda: records(stats, one, settings, reason))[-1]
	assert (record["gpu_state"], record["result"]) == ("done", 1)
	assert record["gpu_before_bytes"] - record["gpu_after_bytes"] >= 112 * MB


def test_a_changed_setting_reaches_the_pool(actor, env, control, wait_for):
	settings = env(MIN_MB=0, CUDA_DECAY_MS=0)
	one = actor(settings)
	one.tell("block = alloc(64); free(block)")
	time.sleep(1)
	assert one.used() == 64 * MB

	assert control(settings, "set", one.pid, "cuda_decay_ms=200").returncode == 0

	wait_for(lambda: one.used() == 0, 5)


def test_during_a_capture_nothing_is_given_back_and_the_record_says_so(actor, env, control, stats):
	settings = env(MIN_MB=0, CUDA_DECAY_MS=1000)
	one = actor(settings)
	one.tell("stream = ctypes.c_void_p(); cu.cuStreamCreate(ctypes.byref(stream), 1)")
	one.tell("block = alloc(64)")
	assert one.tell("free(block); answer = cu.cuStreamBeginCapture_v2(stream, 0)") == 0

	control(settings, "trim", one.pid)
	os.kill(one.pid, signal.SIGUSR1)
	time.sleep(2)

	assert records(stats, one, settings, "request")[-1]["gpu_state"] == "capturing"
	assert stats(one.pid, settings)["gpu_capturing"] == 1
	assert one.tell("graph = ctypes.c_void_p(); answer = cu.cuStreamEndCapture(stream, ctypes.byref(graph))") == 0
	time.sleep(1.5)
	assert one.used() == 0, "and afterwards it goes"


def test_of_several_ranks_none_gives_back_for_a_timer_round(actor, env, control, stats):
	settings = dict(env(MIN_MB=0, CUDA_DECAY_MS=0, ROUND="timer:1", HEAVY_ROUNDS=1), WORLD_SIZE="4")
	one = actor(settings)
	one.tell("block = alloc(64); free(block)")
	time.sleep(2.5)

	assert one.used() == 64 * MB
	assert records(stats, one, settings, "round")[-1]["gpu_state"] == "ranks"
	control(settings, "trim", one.pid)
	assert one.used() == 0


# Nothing but rounds may clean up, whatever falls.
ROUNDS_ONLY = {"MIN_MB": 0, "SLACK_MB": 100000, "SLACK_PCT": 100, "SETTLE_MS": 3600000, "BUDGET_PCT": 0, "ROUND": "auto"}
HEAP = "held = [bytearray(3 << 20) for _ in range(40)]"
# How a round's memory is let go; each answers when all of it is gone.
FALLS = {
	"device": ("gpu = alloc(200)", "free(gpu)"),
	"heap": (HEAP, "held = None"),
	"device-first": (f"gpu = alloc(200); {HEAP}", "free(gpu); nap(0.2); held = None"),
	"heap-first": (f"gpu = alloc(200); {HEAP}", "held = None; nap(0.2); free(gpu)"),
}


@pytest.mark.slow
@pytest.mark.slow
@pytest.mark.parametrize("how", FALLS)
def test_a_fall_of_device_memory_ends_a_round_and_with_the_heaps_it_is_one(actor, env, stats, how):
	settings = env(**ROUNDS_ONLY, GC_ROUNDS=1, CUDA_DECAY_MS=0)
	one = actor(settings)
	rise, fall = FALLS[how]
	# It naps in Python, so that the collections that rounds ask for are not waited for.
	for number in range(1, 4):
		one.tell(f"{rise}; nap(0.8)")
		assert stats(one.pid, settings)["rounds_count"] == number - 1
		one.tell(f"{fall}; nap(1.5)")
		assert stats(one.pid, settings)["rounds_count"] == number

	seen = stats(one.pid, settings)
	assert seen["light_count"] == 3
	assert {record["reason"] for record in seen["records"]} == {"round"}, "no purge of its own"


def test_less_than_16_mb_of_a_device_is_no_round(actor, env, stats):
	settings = env(**ROUNDS_ONLY)
	one = actor(settings)
	for _ in range(3):
		one.tell("gpu = alloc(15); nap(0.4); free(gpu); nap(0.4)")

	assert stats(one.pid, settings)["rounds_count"] == 0


@pytest.mark.parametrize("choice", ["account", "pool"])
def test_an_error_that_a_framework_overcomes_with_an_empty_cache_is_no_alarm(actor, env, stats, control, choice):
	"""As PyTorch does: the same size again once a part of its cache has gone back, and again once all has."""
	settings = env(MIN_MB=0, CUDA=choice, CUDA_DECAY_MS=0)
	one = actor(settings)
	one.tell("held = [alloc(100) for _ in range(9)]")

	assert one.tell("answer = [alloc(300)] + [free(held.pop())] + [alloc(300)]") == [2, 0, 2]
	assert one.tell("free(held.pop()); big = alloc(300); answer = big == 2") is False

	seen = stats(one.pid, settings)
	assert (seen["gpu_num_ooms"], seen["ooms"]) == (0, [])
	assert seen["gpu_num_alloc_retries"] >= 1, "it was a retry"
	assert re.fullmatch(
		r"no out-of-memory error has reached this program, by its figures of [\d:.]+; one counts after 5 s, unless the program overcomes it\n",
		control(settings, "stat", one.pid, "--oom").stdout)
	_, errors = one.end()
	assert "gpu-oom" not in errors


def test_a_program_that_fails_once_and_waits_is_reported_all_the_same(actor, env, stats, wait_for):
	settings = env(MIN_MB=0)
	one = actor(settings)
	one.tell("held = [alloc(100) for _ in range(9)]")
	assert one.tell("answer = alloc(300)") == 2

	(oom,) = wait_for(lambda: stats(one.pid, settings)["ooms"], 9)

	assert (oom["asked_bytes"], oom["num_ooms"], oom["cause"]) == (300 * MB, 1, "live tensors")
	assert stats(one.pid, settings)["gpu_num_ooms"] == 1


def test_where_free_and_own_are_all_of_the_device_no_other_process_is_blamed(actor, env, stats, wait_for):
	settings = env(MIN_MB=0)
	one = actor(settings)
	one.tell("held = [alloc(mb) for mb in (108, 108, 108, 104)]")
	assert one.tell("answer = alloc(900)") == 2
	(oom,) = wait_for(lambda: stats(one.pid, settings)["ooms"], 9)
	_, errors = one.end()

	assert oom["cause"] == "live tensors" and "smaller batches" in oom["advice"]
	assert "596 MB free of 1024 MB, this process: allocated 428 MB, unused in the pool 0 MB" in errors


def test_a_program_that_dies_of_it_still_reports(actor, env):
	one = actor(env())
	one.process.stdin.write("alloc(4000) == 2 and sys.exit(7)\n")
	status, errors = one.end()

	assert status == 7
	assert "device 0 is out of memory: cuMemAlloc asked for 4000 MB; 1024 MB free of 1024 MB" in errors


def test_a_forked_child_does_not_touch_the_driver(actor, env):
	one = actor(env(MIN_MB=0, CUDA_DECAY_MS=200))
	one.tell("block = alloc(64)")
	one.tell("free(block)")

	assert one.tell("answer = (lambda child: os.waitpid(child, 0)[1] if child else "
	                "(ctypes.CDLL(None).mt_cleanup_memory(1), nap(1.5), os._exit(0)))(os.fork())") == 0
	assert one.used() == 0


def test_off_is_off(actor, env):
	one = actor(env(CUDA="off", MIN_MB=10000))
	one.tell("block = alloc(2); free(block)")

	assert one.used() == 0
	assert "mtshim-gpu" not in thread_names(one.pid)


def test_an_out_of_memory_through_others_names_them(actor, env, stats, wait_for):
	settings = dict(env(MIN_MB=0), FAKECUDA_OTHER_MB="900")
	one = actor(settings)
	assert one.tell("answer = alloc(300)") == 2
	one.tell("small = alloc(1)")
	(oom,) = wait_for(lambda: stats(one.pid, settings)["ooms"])
	_, errors = one.end()

	assert oom["cause"] == "other processes"
	# In a pid namespace nobody can be told from us.
	if oom["others_bytes"] is None:
		assert "other processes: not known" in errors
	else:
		assert (oom["others_count"], oom["others_bytes"]) == (1, 900 * MB) and "other processes: 900 MB" in errors


def test_a_caching_framework_that_is_loaded_late_ends_the_pool(actor, env, stats, wait_for, compile_c, tmp_path):
	library = tmp_path / "libc10_cuda.so"
	shutil.copy(compile_c("nothing.c", "-shared", "-fPIC"), library)
	settings = env(MIN_MB=0, CUDA_DECAY_MS=60000)
	one = actor(settings)
	one.tell("kept = alloc(4); block = alloc(64); free(block)")
	assert stats(one.pid, settings)["cuda"] == "pool" and one.used() == 68 * MB

	one.tell(f"ctypes.CDLL({str(library)!r}, os.RTLD_NOW)")

	wait_for(lambda: one.used() == 4 * MB, 7, "what was cached goes back")
	seen = wait_for(lambda: (lambda seen: seen if seen["cuda"] != "pool" else None)(stats(one.pid, settings)))
	assert seen["cuda"].startswith("account: PyTorch") and seen["devices"][0]["mode"] == "account"
	assert one.tell("block = alloc(16); free(block); answer = free(kept)") == 0
	assert one.used() == 0, "and nothing is cached any more"


POOLS = r'''
def keep_async(mb):
    pool, at = ctypes.c_void_p(), ctypes.c_uint64()
    most = ctypes.c_uint64(1 << 60)
    return [cu.cuDeviceGetDefaultMemPool(ctypes.byref(pool), 0), cu.cuMemPoolSetAttribute(pool, 4, ctypes.byref(most)),
            cu.cuMemAllocAsync(ctypes.byref(at), ctypes.c_size_t(mb << 20), None), cu.cuMemFreeAsync(at, None),
            cu.cuCtxSynchronize()]
def keep_graph(mb):
    stream, at, graph, executable = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_void_p()
    return [cu.cuStreamCreate(ctypes.byref(stream), 1), cu.cuStreamBeginCapture_v2(stream, 0),
            cu.cuMemAllocAsync(ctypes.byref(at), ctypes.c_size_t(mb << 20), stream), cu.cuMemFreeAsync(at, stream),
            cu.cuStreamEndCapture(stream, ctypes.byref(graph)),
            cu.cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_uint64(0)),
            cu.cuGraphLaunch(executable, stream), cu.cuStreamSynchronize(stream),
            cu.cuGraphExecDestroy(executable), cu.cuGraphDestroy(graph)]
cu.fakecuda_calls.restype = ctypes.c_uint64
'''


@pytest.mark.parametrize("what, symbol", [("async", "cuMemPoolTrimTo"), ("graph", "cuDeviceGraphMemTrim")])
def test_what_the_drivers_own_pools_keep_goes_back_in_a_heavy_cleanup(actor, env, stats, wait_for, what, symbol):
	settings = env(MIN_MB=0)
	one = actor(settings)
	one.tell(f"exec({POOLS!r}, globals())")
	one.tell("alloc(2)")
	before = one.used()
	assert set(one.tell(f"answer = keep_{what}(64)")) == {0}
	assert one.used() == before + 64 * MB

	one.tell("import signal; os.kill(os.getpid(), signal.SIGUSR1); nap(0.5)")

	wait_for(lambda: one.used() == before, 3)
	assert one.tell(f"answer = cu.fakecuda_calls({symbol.encode()!r})") == 1
	record = wait_for(lambda: records(stats, one, settings, "signal"))[-1]
	assert record["gpu_before_bytes"] - record["gpu_after_bytes"] >= 64 * MB


def switches(pid):
	"""Voluntary switches of our threads, by name."""
	found = {}
	for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
		name = (task / "comm").read_text().strip()
		if name.startswith("mtshim"):
			found[name] = int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.MULTILINE)[1])
	return found


def test_an_idle_process_with_nothing_cached_wakes_no_more_often_than_one_without_cuda(actor, env, spawn, awake, stats):
	"""Once in 5 s, so that it is once in the window at most; with CUDA it asks the other thread each time, and waits for the answer."""
	settings = env(MIN_MB=0, TICK_MS=5000)
	one = actor(settings)
	one.tell("kept = alloc(2); free(alloc(2)); ctypes.CDLL(None).mt_cleanup_memory(1)")
	with_cuda = one.pid
	without = spawn([PYTHON, "-c", "input()"], settings).pid
	awake(without, settings)
	assert stats(with_cuda, settings)["devices"][0]["idle_bytes"] == 0
	time.sleep(0.5)
	before = {pid: switches(pid) for pid in (with_cuda, without)}

	time.sleep(3)

	woken = {pid: sum(switches(pid).values()) - sum(before[pid].values()) for pid in before}
	assert set(before[with_cuda]) == {"mtshim", "mtshim-gpu"} and set(before[without]) == {"mtshim"}
	assert woken[without] <= 1 and woken[with_cuda] <= 3, woken
