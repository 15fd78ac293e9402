"""torch._C, the bindings, of a build with CUDA from 2.5 on. A test imports it."""
from .cuda import calls


def _host_emptyCache(): # noqa: N802
	calls.append("_host_emptyCache")
