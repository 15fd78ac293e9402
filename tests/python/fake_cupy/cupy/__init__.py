"""What the shim asks of CuPy, and nothing else. A test sets the names in capitals."""
FAILS = None   # an exception that free_all_blocks raises
ASK = None     # called with each, and its answer kept
calls = []     # the pool's name, or with ASK the pool's name and the answer


class Pool:
	def __init__(self, name):
		self.name = name

	def free_all_blocks(self):
		calls.append((self.name, ASK()) if ASK else self.name)
		if FAILS is not None:
			raise FAILS


_pools = {name: Pool(name) for name in ("device", "pinned")}


def get_default_memory_pool():
	return _pools["device"]


def get_default_pinned_memory_pool():
	return _pools["pinned"]
