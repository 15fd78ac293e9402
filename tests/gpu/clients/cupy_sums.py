"""CuPy with its pool, and with its pool off (every array is a cuMemAlloc): sums, a product and a sort, checked by NumPy."""

import cupy
import numpy

from client import finish

results = []
for allocator in (cupy.get_default_memory_pool().malloc, None):
	cupy.cuda.set_allocator(allocator)
	for size in (10, 1000, 100000, 3000000):
		host = numpy.arange(size, dtype=numpy.float64) % 97
		streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(4)]
		for number, stream in enumerate(streams):
			with stream:
				one = cupy.asarray(host) + number
				two = one * 2
				del one
				assert float((two - cupy.asarray(host)).sum()) == float((host + 2 * number).sum())
		assert (cupy.asnumpy(cupy.sort(-cupy.asarray(host))) == numpy.sort(-host)).all()
		results.append(float(cupy.asarray(host).sum()))
	square = numpy.random.RandomState(1).rand(300, 300)
	assert numpy.allclose(cupy.asnumpy(cupy.asarray(square) @ cupy.asarray(square)), square @ square)
finish(cupy=cupy.__version__, results=results)
