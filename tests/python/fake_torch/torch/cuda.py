"""torch.cuda as far as the shim knows it. A test sets the names in capitals."""
INITIALIZED = True
CAPTURING = False
FAILS = None        # an exception that empty_cache raises
RESERVED = [512 << 20]
ALLOCATED = [64 << 20]
calls = []


def is_initialized():
	calls.append("is_initialized")
	return INITIALIZED


def is_current_stream_capturing():
	calls.append("is_current_stream_capturing")
	return CAPTURING


def device_count():
	return len(RESERVED)


def memory_reserved(device=None):
	calls.append("memory_reserved")
	return RESERVED[device]


def memory_allocated(device=None):
	return ALLOCATED[device]


def empty_cache():
	calls.append("empty_cache")
	if FAILS is not None:
		raise FAILS
	RESERVED[:] = ALLOCATED
