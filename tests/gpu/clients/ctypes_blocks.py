"""The driver by ctypes: blocks of many sizes that are set, read and freed. It needs nothing but Python. Where a pool serves it, 64 MB are
left in the pool."""
import ctypes

from client import finish

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
	result = getattr(cuda, name)(*arguments)
	if result != 0:
		raise SystemExit(f"{name}: {result}")


def block_sum(number):
	"""Of the words of a block, each of which is number; and the block."""
	words, block = 1000 * (number + 1), ctypes.c_uint64()
	host = (ctypes.c_uint32 * words)()
	call("cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(4 * words))
	call("cuMemsetD32_v2", block, number, ctypes.c_size_t(words))
	call("cuMemcpyDtoH_v2", host, block, ctypes.c_size_t(4 * words))
	return sum(host), block


context = ctypes.c_void_p()
call("cuInit", 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
sums = []
for _ in range(3):
	live = []
	for each in range(40):
		total, at = block_sum(each)
		sums.append(total)
		live.append(at)
	for at in live:
		call("cuMemFree_v2", at)
big = ctypes.c_uint64()
call("cuMemAlloc_v2", ctypes.byref(big), ctypes.c_size_t(64 << 20))
call("cuMemFree_v2", big)
finish(results=sums)
