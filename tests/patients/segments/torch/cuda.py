"""torch.cuda over the driver, by ctypes: first fit in segments of 20 MB, larger requests in segments of their own."""
import ctypes

SEGMENT_BYTES = 20 << 20

_driver = ctypes.CDLL("libcuda.so.1")
_context = ctypes.c_void_p()
for _result in (_driver.cuInit(0), _driver.cuDevicePrimaryCtxRetain(ctypes.byref(_context), 0),
                _driver.cuCtxSetCurrent(_context)):
	assert _result == 0, _result
_segments = []


class OutOfMemoryError(RuntimeError):
	pass


class _Segment:
	def __init__(self, size):
		self.size = size
		self.pieces = []  # (offset, size), by offset
		self.address = ctypes.c_uint64()
		result = _driver.cuMemAlloc_v2(ctypes.byref(self.address), ctypes.c_size_t(size))
		if result != 0:
			raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size >> 20} MiB: {result}")

	def take(self, size):
		at = 0
		for number, (offset, taken) in enumerate([*self.pieces, (self.size, 0)]):
			if offset - at >= size:
				self.pieces.insert(number, (at, size))
				return at
			at = offset + taken
		return None


class Tensor:
	def __init__(self, segment, offset, size):
		self.where = (segment, (offset, size))

	def __del__(self):
		segment, piece = self.where
		segment.pieces.remove(piece)


def empty(size):
	for segment in _segments:
		offset = segment.take(size)
		if offset is not None:
			return Tensor(segment, offset, size)
	try:
		segment = _Segment(max(size, SEGMENT_BYTES))
	except OutOfMemoryError:
		empty_cache()
		segment = _Segment(max(size, SEGMENT_BYTES))
	_segments.append(segment)
	return Tensor(segment, segment.take(size), size)


def empty_cache():
	for segment in [segment for segment in _segments if not segment.pieces]:
		_driver.cuMemFree_v2(segment.address)
		_segments.remove(segment)


def is_initialized():
	return True


def is_current_stream_capturing():
	return False


def device_count():
	return 1


def memory_reserved(device=None):
	return sum(segment.size for segment in _segments)


def memory_allocated(device=None):
	return sum(size for segment in _segments for _, size in segment.pieces)
