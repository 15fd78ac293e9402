"""Numba's CUDA driver layer at work: arrays to the device and back, streams, events, pinned and mapped memory, its queue of deferred
frees, the end of the context. Prints results only, never an address. Kernels are not compiled: that needs NVVM."""
import ctypes
import gc
import os
import sys
import time

import numpy
from numba import cuda
from numba.cuda.cudadrv.driver import driver

CALLS = None
# A collection looks at all that is not frozen, and Numba's modules are no garbage.
gc.freeze()


def calls(symbol):
	"""How often the fake driver was entered there."""
	global CALLS
	if CALLS is None:
		CALLS = ctypes.CDLL("libcuda.so.1").fakecuda_calls
		CALLS.argtypes, CALLS.restype = [ctypes.c_char_p], ctypes.c_uint64
	return CALLS(symbol.encode())


def used():
	ask = ctypes.CDLL("libcuda.so.1").fakecuda_used_bytes
	ask.restype = ctypes.c_uint64
	return ask(0)


def there_and_back():
	generator = numpy.random.default_rng(7)
	for shape in [(1,), (1000,), (300, 400), (64, 3, 32, 32)]:
		host = generator.random(shape)
		device = cuda.to_device(host)
		print("back", shape, numpy.array_equal(device.copy_to_host(), host))
		other = cuda.device_array_like(device)
		other.copy_to_device(device)
		print("copied", numpy.array_equal(other.copy_to_host(), host), other.shape, other.dtype)
		part = device[:1]
		print("part", numpy.array_equal(part.copy_to_host(), host[:1]))


def training(rounds):
	"""The same arrays each round, dropped at its end."""
	total = 0.0
	for number in range(rounds):
		arrays = [cuda.to_device(numpy.full(size, number, dtype=numpy.float32)) for size in (1000, 65536, 300000)]
		scratch = cuda.device_array((512, 512), dtype=numpy.float32)
		total += sum(float(array.copy_to_host().sum()) for array in arrays)
		del arrays, scratch
		gc.collect()
	print("training", total)


def streams_and_events():
	stream = cuda.stream()
	host = numpy.arange(100000, dtype=numpy.int64)
	with cuda.pinned(host):
		device = cuda.to_device(host, stream=stream)
		begin, end = cuda.event(), cuda.event()
		begin.record(stream)
		back = device.copy_to_host(stream=stream)
		end.record(stream)
		end.synchronize()
		stream.synchronize()
	print("stream", numpy.array_equal(back, host), cuda.event_elapsed_time(begin, end) >= 0, end.query())
	with stream.auto_synchronize():
		device.copy_to_host(back, stream=stream)
	print("stream again", numpy.array_equal(back, host))
	page_locked = cuda.pinned_array(5000, dtype=numpy.float64)
	page_locked[:] = 3
	print("pinned", float(cuda.to_device(page_locked).copy_to_host().sum()))
	mapped = cuda.mapped_array(5000, dtype=numpy.float64)
	mapped[:] = 4
	print("mapped", float(numpy.asarray(mapped).sum()))
	managed = cuda.managed_array(5000, dtype=numpy.float64)
	managed[:] = 5
	print("managed", float(numpy.asarray(managed).sum()))


def memory_info():
	context = cuda.current_context()
	context.memory_manager.deallocations.clear()
	before = context.get_memory_info()
	array = cuda.device_array(16 << 20, dtype=numpy.uint8)
	held = context.get_memory_info()
	del array
	gc.collect()
	context.memory_manager.deallocations.clear()
	after = context.get_memory_info()
	print("info", held.total == before.total, before.free - held.free == 16 << 20, after.free == before.free)


def deferred():
	"""Frees wait in Numba's queue as long as it is told to."""
	context = cuda.current_context()
	context.memory_manager.deallocations.clear()
	with cuda.defer_cleanup():
		for _ in range(20):
			cuda.device_array(1000)
		gc.collect()
		print("deferred", len(context.memory_manager.deallocations))
	context.memory_manager.deallocations.clear()
	print("cleared", len(context.memory_manager.deallocations))


def out_of_memory():
	try:
		cuda.device_array(1 << 40, dtype=numpy.uint8)
		print("no error")
	except cuda.cudadrv.driver.CudaAPIError as error:
		print(error.code, error.msg)


def the_end():
	keep = cuda.to_device(numpy.ones(1000))
	print("kept", float(keep.copy_to_host().sum()))
	del keep
	cuda.current_context().reset()
	cuda.close()
	print("closed")
	if "CUDA_NUMBA_ONCE" in os.environ:
		return
	device = cuda.to_device(numpy.ones(10))
	print("again", float(device.copy_to_host().sum()))
	del device
	gc.collect()
	cuda.current_context().reset()
	cuda.close()


def steered():
	"""Does what stdin says, for tests that look from outside."""
	queue = []
	for line in sys.stdin:
		word, *rest = line.split()
		if word == "fill":
			queue = [cuda.device_array(int(rest[1]), dtype=numpy.uint8) for _ in range(int(rest[0]))]
		elif word == "drop":
			queue = []
			gc.collect()
		elif word == "spin":
			print("spins", flush=True)
			end = time.monotonic() + float(rest[0])
			while time.monotonic() < end:
				pass
		elif word == "clear":
			cuda.current_context().memory_manager.deallocations.clear()
		print({"used": used, "pending": lambda: len(cuda.current_context().memory_manager.deallocations)}.get(word, lambda: word)(), flush=True)


if sys.argv[1:] == ["steered"]:
	steered()
else:
	print(cuda.is_available(), driver.get_version(), len(cuda.gpus), cuda.get_current_device().name)
	there_and_back()
	training(20)
	streams_and_events()
	memory_info()
	deferred()
	out_of_memory()
	the_end()
	if "CUDA_NUMBA_CALLS" in os.environ:
		print("calls", calls("cuMemAlloc_v2"), calls("cuMemFree_v2"), used(), file=sys.stderr)
