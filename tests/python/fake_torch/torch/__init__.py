"""What the shim asks of PyTorch, and nothing else: a cache of device memory that only exists as numbers.

Every call is counted, so that a test can tell what was called and how often."""
from . import cuda  # noqa: F401
