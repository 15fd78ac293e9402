"""Numba: arrays to the device and back, frees deferred by Numba itself, a kernel where its compiler is there."""
import gc

import numba
from numba import cuda
import numpy

from client import finish

for size in (1, 100, 10000, 1000000):
	for repeat in range(20):
		host = numpy.arange(size, dtype=numpy.float64) * repeat
		device = cuda.to_device(host)
		assert (device.copy_to_host() == host).all()
		del device
gc.collect()


@cuda.jit
def double(array):
	place = cuda.grid(1)
	if place < array.size:
		array[place] *= 2


has_kernel = True
host = numpy.arange(100000, dtype=numpy.float64)
device = cuda.to_device(host)
try:
	double[400, 256](device)
	cuda.synchronize()
	assert (device.copy_to_host() == host * 2).all()
except Exception as error:  # NvvmSupportError and its like: no compiler here
	if "nvvm" not in repr(error).lower() and "libdevice" not in repr(error).lower():
		raise
	has_kernel = False
cuda.current_context().deallocations.clear()
finish(numba=numba.__version__, has_kernel=has_kernel, results=[])
