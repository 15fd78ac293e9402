"""CuPy's pools and Numba's pending frees, emptied from outside, with the driver of tests/fakecuda below: what is called of them, in
which Pythons, and when nothing is. PyTorch's cache is test_framework_caches.py's."""
import json
import pathlib
import time

import pytest

from framework_helpers import Actor, program, PYTHON, records

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parents[1]
PYENV = pathlib.Path("/root/.pyenv/versions")

# With PyTorch's fake in the path too, where a test imports it.
ACTOR = program(r'''
import ctypes, gc, operator, os
sys.path[:0] = PATHS
sys.dont_write_bytecode = True
lib = ctypes.CDLL(None)
cu = ctypes.CDLL("libcuda.so.1")
held, stream, block = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(ctypes.byref(held), 0), cu.cuCtxSetCurrent(held)
def touch():
    assert cu.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1 << 20)) == 0
    cu.cuStreamCreate(ctypes.byref(stream), 1)
def capturing():
    status = ctypes.c_int()
    assert cu.cuStreamIsCapturing(stream, ctypes.byref(status)) == 0
    return status.value
def end_capture():
    graph = ctypes.c_void_p()
    assert cu.cuStreamEndCapture(stream, ctypes.byref(graph)) == 0
def calls():
    # No other kind of module: a touch may load it.
    plain = {name: module for name, module in sys.modules.items() if type(module) is type(sys)}
    return [list(getattr(plain.get(name), "calls", [])) for name in ("torch.cuda", "cupy", "numba.cuda.cudadrv.driver")]
def clean():
    lib.mt_cleanup_memory(1)
''')
PATHS = [str(HERE / name) for name in ("fake_torch", "fake_cupy", "fake_numba")]
CUPY = ["device", "pinned"]
NUMBA = ["memory 0", "context 0", "memory 1", "context 1"]


def find_python(version):
	found = [PYTHON] if version == "system" else sorted(map(str, PYENV.glob(f"{version}.*/bin/python3")))
	if not found:
		pytest.skip(f"no Python {version} in {PYENV}")
	return found[-1]


@pytest.fixture
def actor(spawn, awake, fakecuda, env):
	def start(*lines, version="system", touch=True, **settings):
		settings = env(MIN_MB=0, **settings)
		code = f"PATHS = {PATHS!r}\n{ACTOR}"
		one = Actor(spawn([find_python(version), "-c", code], fakecuda(settings)))
		one.settings = settings
		for line in (["touch()"] if touch else []) + list(lines):
			assert isinstance(one.tell(line), list)
		awake(one.pid, settings)
		return one
	return start


IMPORTS = "import cupy, numba.cuda.cudadrv.driver as driver"


@pytest.mark.parametrize("version", ["system", "3.12", "3.13"])
def test_pools_and_pending_frees_are_emptied_once(actor, version):
	one = actor(IMPORTS, version=version)

	assert one.tell("clean()") == [[], CUPY, NUMBA]


def test_the_record_names_them(actor, stats):
	one = actor(IMPORTS, "import torch, signal")

	said = one.tell("os.kill(os.getpid(), signal.SIGUSR1); nap(0.3)")

	# What is read of PyTorch's cache afterwards is told in test_framework_caches.
	assert [said[0][:3], *said[1:]] == [["is_initialized", "is_current_stream_capturing", "empty_cache"], CUPY, NUMBA]
	assert records(stats, one, one.settings, "signal")[-1]["frameworks"] == ["torch", "cupy", "numba"]


def test_nothing_of_them_is_called_that_would_initialise_cuda(actor):
	assert actor(IMPORTS, touch=False).tell("clean()") == [[], [], []]


def test_numba_is_left_alone_on_a_thread_without_a_context(actor):
	one = actor(IMPORTS, "cu.cuCtxSetCurrent(None)")

	assert one.tell("clean()") == [[], CUPY, []]


@pytest.mark.parametrize("error", ["RuntimeError('no')", "SystemExit(3)"])
def test_an_error_in_one_keeps_nobody_else_from_its_turn(actor, error):
	one = actor(IMPORTS, f"cupy.FAILS = driver.FAILS = {error}")

	assert one.tell("clean()") == [[], CUPY, NUMBA]
	assert one.tell("clean(); 1 + 1") == [[], CUPY * 2, NUMBA * 2]


LAZY = r'''
import importlib.util
def lazy(name):
    spec = importlib.util.find_spec(name)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
class Proxy:
    asked = []
    def __getattr__(self, name): Proxy.asked.append(name); raise ImportError(name)
    def __bool__(self): Proxy.asked.append("bool"); raise ImportError("bool")
'''


@pytest.mark.parametrize("version", ["system", "3.12", "3.13"])
@pytest.mark.parametrize("name", ["cupy", "torch"])
def test_a_module_that_loads_at_the_first_touch_is_not_touched(actor, name, version):
	one = actor(f"exec({LAZY!r})", f"lazy({name!r})", version=version)

	one.tell("clean()")

	assert one.tell(f"raise Exception(type(sys.modules[{name!r}]).__name__)") == "Exception('_LazyModule')"


@pytest.mark.parametrize("line, left", [
	("sys.modules['cupy'] = Proxy()", "cupy"),
	("cupy.__spec__._initializing = True", "cupy"),
	("driver.__spec__._initializing = True", "numba"),
	("del cupy.get_default_memory_pool, cupy.get_default_pinned_memory_pool", "cupy"),
	("del driver.driver", "numba"),
	("sys.modules['cupy'] = sys.modules['numba.cuda.cudadrv.driver'] = None", "both")],
	ids=["proxy", "cupy", "numba", "half-cupy", "half-numba", "none"])
def test_what_is_not_completely_there_is_left_alone(actor, line, left):
	one = actor(f"exec({LAZY!r})", IMPORTS, "names = [cupy.calls, driver.calls]", line)

	one.tell("clean()")

	expected = {"cupy": [[], NUMBA], "numba": [CUPY, []], "both": [[], []]}[left]
	assert one.tell("raise Exception(json.dumps(names + [Proxy.asked]))") == f"Exception({json.dumps(expected + [[]])!r})"


@pytest.mark.parametrize("version", ["system", "3.12", "3.13"])
def test_a_thousand_cleanups_keep_no_reference(actor, version):
	one = actor(IMPORTS, "import torch", "gc.disable(); gc.freeze()", version=version)
	names = "[torch, torch.cuda, torch.cuda.calls, cupy, cupy.Pool, cupy._pools['device'], cupy.Pool.free_all_blocks, driver, " \
	        "driver.driver, driver.driver.devices, driver.driver.devices[0], driver.driver.devices[1].primary_context, " \
	        "driver.Pending.clear, sys.modules, torch.__spec__, cupy.__spec__]"
	one.tell(f"names = {names}; clean(); before = [sys.getrefcount(name) for name in names]")

	one.tell("for _ in range(1000): clean()")

	one.tell("after = [sys.getrefcount(name) for name in names]")
	assert one.tell("raise Exception([b - a for a, b in zip(before, after)])") == f"Exception({[0] * 16})"
	assert one.tell("raise Exception(len(cupy.calls))") == "Exception(2002)"


def test_the_decay_leaves_pytorchs_cache_when_a_capture_has_begun_since_it_looked(actor):
	"""Begun in the look after which the release is due; PyTorch itself knows nothing of it."""
	one = actor("import torch; looks = []; ask = torch.cuda.memory_allocated", FRAMEWORK_DECAY_MS=700)
	one.tell("torch.cuda.memory_allocated = lambda device: (looks.append(1), len(looks) == 3 and "
	         "cu.cuStreamBeginCapture_v2(stream, 0), ask(device))[2]")

	calls = one.tell("nap(1.8)")[0]

	assert "empty_cache" not in calls
	assert one.tell("raise Exception((len(looks), capturing()))") == "Exception((4, 1))", "the call has run, and only looked"


def test_caches_are_left_when_a_capture_has_begun_before_the_call_runs(actor, control, stats, wait_for):
	"""The cleanup is asked for while the main thread is in C, where it then begins a capture."""
	one = actor(IMPORTS, "cupy.ASK = capturing")

	one.begin("list(map(operator.call, [sum, cu.cuStreamBeginCapture_v2], [range(16_000_000), stream], [0, 0])); nap(0.4)")
	time.sleep(0.1)  # the line has been read by then
	control(one.settings, "trim", one.pid)
	assert one.end() == [[], [], []]
	record = records(stats, one, one.settings, "request")[-1]
	assert (record["gpu_state"], record["frameworks"]) == ("capturing", [])

	is_retry = one.tell("end_capture(); nap(0.7)")

	assert is_retry == [[], [["device", 0], ["pinned", 0]], NUMBA], "and once it has ended they are emptied, once"
	record = wait_for(lambda: records(stats, one, one.settings, "capture"))[-1]
	assert (record["gpu_state"], record["frameworks"]) == ("done", ["cupy", "numba"])
