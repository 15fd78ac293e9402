"""As much of PyTorch as its caching allocator is: segments from the driver, cut into pieces, given back only when whole."""
from . import cuda  # noqa: F401
