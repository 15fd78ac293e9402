"""What the shim asks of Numba's driver module, and nothing else: two contexts, each with the two queues of what waits to be freed. A
test sets the names in capitals."""
FAILS = None   # an exception that clear raises
calls = []


class Pending:
	def __init__(self, name):
		self.name = name

	def clear(self):
		calls.append(self.name)
		if FAILS is not None:
			raise FAILS


class Manager:
	def __init__(self, name):
		self.deallocations = Pending(name)


class Context:
	def __init__(self, device):
		self.memory_manager = Manager(f"memory {device}")
		self.deallocations = Pending(f"context {device}")


class Device:
	def __init__(self, device):
		self.primary_context = Context(device)


class Driver:
	devices = {}


driver = Driver()
driver.devices = {device: Device(device) for device in range(2)}
