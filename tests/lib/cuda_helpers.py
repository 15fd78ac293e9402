"""A CUDA program under the real shim, on the stand-in driver."""
import pytest

MB = 1 << 20


@pytest.fixture
def cuda(steer, compile_c, fakecuda, env, awake):
	"""cuda(fake settings, MT settings): cuda_puppet.c, awake. It returns no device memory by decay."""
	program = compile_c("cuda_puppet.c")

	def start(driver=None, **settings):
		settings = {"CUDA_DECAY_MS": 0, "CUDA_LOW_PCT": 0, **settings}
		one = steer([program], fakecuda(env(**settings), **{"MEMORY_MB": 1000, **(driver or {})}))
		assert one.number("info") > 0
		awake(one.pid, one.env)
		return one
	return start


def fill(one, live_mb, idle_mb, each_mb=4):
	"""Allocates blocks in slots from 0 on, live_mb of which stay, and frees idle_mb."""
	slots = range((live_mb + idle_mb) // each_mb)
	for slot in slots:
		assert one.number(f"alloc {slot} {each_mb * MB}") == 0
	for slot in slots[live_mb // each_mb:]:
		assert one.number(f"free {slot}") == 0
	# They are idle once the device is done with them.
	assert one.number("sync") == 0
