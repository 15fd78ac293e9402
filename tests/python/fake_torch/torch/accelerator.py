"""torch.accelerator, from 2.6 on, as far as the shim knows it. A test imports it, and sets the names in capitals.

TYPE is that of the accelerator, None for none. What hold() keeps is page-locked memory that no tensor uses."""
import ctypes
import os
from types import SimpleNamespace

from .cuda import calls

TYPE = "cuda"
held = []


def hold(mb):
	at = ctypes.c_void_p()
	assert ctypes.CDLL("libcuda.so.1").cuMemHostAlloc(ctypes.byref(at), ctypes.c_size_t(mb << 20), 0) == 0
	held.append(at)


def current_accelerator(check_available=False):
	return SimpleNamespace(type=TYPE) if TYPE else None


def empty_host_cache():
	calls.append("empty_host_cache")
	if TYPE != "cuda":
		os.abort() # as MPS did
	while held:
		assert ctypes.CDLL("libcuda.so.1").cuMemFreeHost(held.pop()) == 0
