"""Processes of one user share a device: one that is out of its memory gets what the others hold there and do not use (MT_CUDA_RESCUE).

The stand-in driver's memory is shared by the processes that name one file (FAKECUDA_SHARED).
"""
import pathlib
import re
import signal
import time

import pytest

from framework_helpers import Actor, program, PYTHON

MB = 1 << 20
FAKE_TORCH = pathlib.Path(__file__).parents[1] / "python" / "fake_torch"

# A program of Python whose framework holds blocks in a cache of its own.
CACHING = program(r"""
import ctypes, torch
cu = ctypes.CDLL("libcuda.so.1")
held = ctypes.c_void_p()
assert cu.cuInit(0) == 0 and cu.cuDevicePrimaryCtxRetain(ctypes.byref(held), 0) == 0 and cu.cuCtxSetCurrent(held) == 0
cache = []
def keep(mb):
    at = ctypes.c_uint64()
    assert cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(mb << 20)) == 0
    cache.append(at)
def empty():
    sys.modules["torch.cuda"].calls.append("empty_cache")
    while cache:
        cu.cuMemFree_v2(cache.pop())
torch.cuda.empty_cache = empty
def calls():
    return sys.modules["torch.cuda"].calls.count("empty_cache")
""")

# One that uses two devices.
DEVICES = program(r"""
import ctypes
cu = ctypes.CDLL("libcuda.so.1")
cu.fakecuda_used_bytes.restype = ctypes.c_uint64
assert cu.cuInit(0) == 0
def cache(device, mb):
    held, at = ctypes.c_void_p(), ctypes.c_uint64()
    assert cu.cuDevicePrimaryCtxRetain(ctypes.byref(held), device) == 0 and cu.cuCtxSetCurrent(held) == 0
    assert cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(mb << 20)) == 0 and cu.cuMemFree_v2(at) == 0
def calls():
    return [cu.fakecuda_used_bytes(device) >> 20 for device in (0, 1)]
""")


@pytest.fixture
def shared(tmp_path, fakecuda, env):
	"""shared(driver settings, **settings): the environment of a process on the shared device, of 1,000 MB."""
	def make(driver=None, **settings):
		settings = {"CUDA_DECAY_MS": 0, "CUDA_LOW_PCT": 0, **settings}
		driver = {"MEMORY_MB": 1000, "SHARED": tmp_path / "device", **(driver or {})}
		return fakecuda(env(**settings), **driver)
	return make


@pytest.fixture
def client(steer, compile_c, shared, awake):
	"""client(driver settings, **settings): a program in C with a context, awake."""
	def start(driver=None, **settings):
		one = steer([compile_c("cuda_puppet.c")], shared(driver, **settings))
		assert one.number("info") > 0
		awake(one.pid, one.env)
		return one
	return start


def begin(one, line):
	one.process.stdin.write(line + "\n")
	one.process.stdin.flush()


def end(one):
	return int(one.process.stdout.readline())


def alloc(one, slot, mb):
	"""The driver's result, and the seconds that it took."""
	began = time.monotonic()
	return one.number(f"alloc {slot} {mb * MB}"), time.monotonic() - began


def cache(one, mb, each_mb=100, first=100):
	"""Allocates and frees: the pool keeps the blocks."""
	slots = range(first, first + mb // each_mb)
	for slot in slots:
		assert one.number(f"alloc {slot} {each_mb * MB}") == 0
	for slot in slots:
		assert one.number(f"free {slot}") == 0
	assert one.number("sync") == 0


def held(one):
	return one.number("used 0") // MB


def rescues(stats, one):
	return [record for record in stats(one.pid, one.env)["records"] if record["reason"] == "rescue"]


def test_a_process_gets_what_another_has_cached(client, stats):
	holder, other = client(), client()
	cache(holder, 800)

	result, took = alloc(other, 0, 500)

	assert result == 0 and took < 0.9
	assert holder.number(f"alloc 0 {400 * MB}") == 0, "the holder goes on with what is left"


def test_both_sides_tell_who_gave_how_much(client, stats, control):
	holder, other = client(), client()
	cache(holder, 800)
	assert alloc(other, 0, 500)[0] == 0

	given, = rescues(stats, holder)
	assert given["gpu_before_bytes"] - given["gpu_after_bytes"] == 800 * MB
	assert (given["rescued_pid"], given["level"]) == (other.pid, "heavy")
	seen = stats(other.pid, other.env)
	assert [seen[name] for name in ("gpu_rescue_count", "gpu_rescue_bytes", "gpu_rescue_pid")] == [1, 800 * MB, holder.pid]
	shown = control(other.env, "stat", other.pid).stdout
	assert re.search(rf"rescue.* 800\.0 MB.*process {holder.pid}", shown), shown


def test_four_clients_share_a_device_by_turns(client):
	clients = [client() for _ in range(4)]

	for _ in range(2):
		for one in clients:
			cache(one, 800, 200)

	assert max(held(one) for one in clients) <= 800


def test_busy_processes_fail_about_as_rarely_as_on_the_driver_alone(spawn, compile_c, shared):
	"""Each of three takes and frees 400 of 1,000 MB in turn: the driver alone fails for less than one call in 1,000."""
	busy = [spawn([compile_c("cuda_shortage.c"), "busy"], shared(MIN_MB=0)) for _ in range(3)]
	counts = [[int(word) for word in one.communicate()[0].split()[:2]] for one in busy]

	calls, failures = map(sum, zip(*counts))
	assert calls > 1000 and failures < calls / 200, counts


def test_what_is_freed_soon_after_a_rescue_goes_back_at_once(client):
	holder, other = client(), client()
	cache(holder, 800)
	assert alloc(other, 0, 500)[0] == 0

	cache(holder, 400)
	assert held(holder) == 0
	time.sleep(1.2)
	cache(holder, 400)
	assert held(holder) == 400


def test_processes_that_run_out_together_all_get_theirs(client):
	clients = [client() for _ in range(4)]
	for one in clients:
		cache(one, 200)
	for one in clients:
		cache(one, 40, 40)

	for one in clients:
		begin(one, f"alloc 0 {230 * MB}")

	assert [end(one) for one in clients] == [0, 0, 0, 0]


def test_two_that_ask_each_other_for_what_neither_has_end_in_the_drivers_error(client):
	clients = [client(), client()]
	for one in clients:
		assert alloc(one, 0, 450)[0] == 0

	began = time.monotonic()
	for one in clients:
		begin(one, f"alloc 1 {300 * MB}")

	assert [end(one) for one in clients] == [2, 2]
	assert time.monotonic() - began < 3


def leave_pending(one, mb, ms):
	"""Frees blocks behind work that takes so long."""
	slots = range(mb // 100)
	for slot in slots:
		assert one.number(f"alloc {slot} {100 * MB}") == 0
	assert one.number(f"delay {ms * 1000}") == 0
	for slot in slots:
		assert one.number(f"free {slot}") == 0


@pytest.mark.parametrize("idle_mb", [0, 200])
def test_what_is_freed_behind_work_comes_when_the_work_is_done(client, stats, idle_mb):
	holder, other = client(CUDA_FREE="async"), client()
	cache(holder, 600 + idle_mb)
	leave_pending(holder, 600, 400)

	result, took = alloc(other, 0, 700)

	assert result == 0 and took < 0.95
	assert sum(one["gpu_before_bytes"] - one["gpu_after_bytes"] for one in rescues(stats, holder)) == (600 + idle_mb) * MB
	assert stats(other.pid, other.env)["gpu_rescue_bytes"] == (600 + idle_mb) * MB


def test_work_that_goes_on_is_waited_for_up_to_a_second(client):
	holder, other = client(CUDA_FREE="async"), client()
	leave_pending(holder, 600, 3000)

	result, took = alloc(other, 0, 700)

	assert result == 2 and 0.8 < took < 2
	assert held(holder) == 600


@pytest.mark.parametrize("kind", ["vmm", "async", "pitch", "managed", "array"])
def test_any_kind_of_memory_gets_it(client, kind):
	holder, other = client(), client()
	cache(holder, 800)

	assert other.number(f"{kind} 0 {500 * MB}") == 0


def test_only_the_device_that_is_full_is_given_back(client, spawn, shared, awake):
	settings = shared({"DEVICES": 2}, MIN_MB=0)
	holder = Actor(spawn([PYTHON, "-c", DEVICES], settings))
	awake(holder.pid, settings)
	assert holder.tell("[cache(device, 400) for device in (0, 1)]") == [400, 400]

	assert alloc(client({"DEVICES": 2}), 0, 900)[0] == 0

	assert holder.tell("pass") == [0, 400]


@pytest.mark.parametrize("asks, gives", [(0, 1), (1, 0)])
def test_without_the_setting_nobody_asks_and_nobody_gives(client, stats, asks, gives):
	holder, other = client(CUDA_RESCUE=gives), client(CUDA_RESCUE=asks)
	cache(holder, 800)

	result, took = alloc(other, 0, 500)

	assert result == 2 and took < 0.9
	assert held(holder) == 800 and rescues(stats, holder) == []


@pytest.mark.parametrize("name, value", [("CUDA_INJECTION64_PATH", "/tool.so"), ("CUDA_MPS_PIPE_DIRECTORY", "/tmp/mps")])
def test_a_client_of_a_tool_or_of_mps_neither_asks_nor_gives(client, monkeypatch, bare, steer, compile_c, shared, awake, name, value):
	def special(**settings):
		one = steer([compile_c("cuda_puppet.c")], dict(shared(**settings), **{name: value}))
		assert one.number("info") > 0
		awake(one.pid, one.env)
		return one
	ordinary, watched = client(), special(CUDA="pool")
	cache(ordinary, 500)
	assert alloc(watched, 0, 600)[0] == 2, "does not ask"
	cache(watched, 400)
	assert alloc(ordinary, 0, 900)[0] == 2, "does not give"


def test_a_stopped_process_is_waited_for_up_to_a_second_and_then_not_again(client):
	holder, other = client(), client()
	cache(holder, 800)
	holder.process.send_signal(signal.SIGSTOP)
	try:
		first, second = alloc(other, 0, 500), alloc(other, 0, 500)
	finally:
		holder.process.send_signal(signal.SIGCONT)

	assert (first[0], second[0]) == (2, 2)
	assert 0.8 < first[1] < 2.5 and second[1] < 0.5


def test_memory_that_comes_free_while_others_are_waited_for_is_found(client):
	"""Of a process that the shim cannot ask, while one that it has asked is stopped."""
	holder, other, third = client(), client(), client(CUDA="account", CUDA_RESCUE=0)
	cache(holder, 300)
	assert third.number(f"alloc 0 {600 * MB}") == 0
	holder.process.send_signal(signal.SIGSTOP)
	try:
		begin(other, f"alloc 0 {500 * MB}")
		time.sleep(0.3)
		assert third.number("free 0") == 0
		assert end(other) == 0
	finally:
		holder.process.send_signal(signal.SIGCONT)


def test_where_nobody_has_anything_nobody_waits(client, spawn, shared):
	spawn([PYTHON, "-c", "import time; time.sleep(100)"], shared(MIN_MB=0))
	holder, other = client(), client()
	assert alloc(holder, 0, 900)[0] == 0

	result, took = alloc(other, 0, 500)

	assert result == 2 and took < 0.9


def test_what_the_program_holds_stays_its_own(client):
	holder, other = client(), client()
	assert alloc(holder, 0, 300)[0] == 0 and holder.number(f"fill 0 {MB} 7") == 0
	cache(holder, 600)

	assert alloc(other, 0, 500)[0] == 0

	assert holder.number(f"check 0 {MB} 7") == 0 and held(holder) == 300


def test_a_capture_on_either_side_is_left_whole(client):
	holder, other = client(), client()
	cache(holder, 800)
	assert holder.number("capture 1") == 0

	assert alloc(other, 0, 500)[0] == 2, "nothing is given during a capture"

	assert holder.number("uncapture") == 0
	assert other.number("capture 2") == 0
	time.sleep(1.1)
	assert alloc(other, 0, 500)[0] == 0
	assert other.number("uncapture") == 0


def test_a_forked_child_of_a_client_asks_nobody(client):
	holder, other = client(), client()
	cache(holder, 100)
	assert alloc(other, 0, 800)[0] == 0

	other.tell("fork 0")

	assert held(holder) == 100


# ---- frameworks ----

@pytest.fixture
def caching(spawn, shared, awake):
	def start(**settings):
		settings = shared(MIN_MB=0, CUDA="account", **settings)
		one = Actor(spawn([PYTHON, "-c", CACHING], dict(settings, PYTHONPATH=str(FAKE_TORCH))))
		awake(one.pid, settings)
		one.env = settings
		return one
	return start


def test_a_frameworks_cache_is_given_without_a_collection(caching, client, stats):
	holder, other = caching(), client()
	holder.tell("[keep(100) for _ in range(8)]")
	holder.begin("nap(2)")

	result, took = alloc(other, 0, 500)

	assert (result, holder.end()) == (0, 1) and took < 1.5, took
	given, = rescues(stats, holder)
	assert given["gpu_before_bytes"] - given["gpu_after_bytes"] == 800 * MB
	assert (given["frameworks"], given["gc_state"]) == (["torch"], "none")


def test_a_framework_that_asks_again_is_helped_at_its_second_error_alone(client, steer, compile_c, shared, awake, tmp_path, stats):
	library = tmp_path / "libc10_cuda.so"
	library.write_bytes(pathlib.Path(compile_c("nothing.c", "-shared", "-fPIC")).read_bytes())
	holder = client()
	cache(holder, 800)
	environment = shared()
	other = steer([compile_c("cuda_puppet.c")], dict(environment, LD_PRELOAD=f"{environment['LD_PRELOAD']} {library}"))
	assert other.number("info") > 0
	awake(other.pid, environment)

	assert alloc(other, 0, 500)[0] == 2, "its own cache goes first"
	assert held(holder) == 800
	assert alloc(other, 0, 500)[0] == 0
