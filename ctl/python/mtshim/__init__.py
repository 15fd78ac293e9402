"""Python face of libmtshim.so, which returns freed memory of a process to the kernel.

Start a program with ``mtshim run -- python train.py``. Inside it all of this module is optional. Without the library in
the process every function does nothing, and returns what its docstring says for that case.

Any thread may call. No function may be called in a C signal handler; Python's own handlers are fine.

For pytest, which else warns where this package was imported before it: PYTEST_DONT_REWRITE
"""
from __future__ import annotations

import os
import sys

import mtshim as _mtshim  # for annotations: typing.get_type_hints() looks there for Stats, which is loaded at its first use

TYPE_CHECKING = False  # in place of typing's: importing this module takes a millisecond or two
if TYPE_CHECKING:
	from types import ModuleType
	from typing import Any, Callable, Optional, TypeVar

	from ._stats import Stats
	Function = TypeVar("Function", bound=Callable[..., Any])
	__version__: str

__all__ = ["Stats", "allocator", "is_active", "library_path", "round", "round_scope", "stats", "trim"]

_LEVELS = {"purge": 0, "light": 1, "heavy": 2}


_loaded: Optional[ModuleType] = None


def _find_library() -> Optional[ModuleType]:
	"""None where ctypes cannot be imported: in a subinterpreter of CPython 3.12, and while an interpreter ends. Where the files
	cannot be opened, with all descriptors in use, the next call tries again."""
	global _loaded
	if _loaded is None:
		try:
			from . import _library
			_loaded = _library
		except Exception:
			return None
	return _loaded


def is_active() -> bool:
	"""Returns whether the library is in this process and works: False without it, and with MT_ENABLE=0."""
	library = _find_library()
	return library is not None and library.read_figures() is not None


def trim(level: str = "heavy") -> int:
	"""Runs a cleanup now, in the calling thread, and returns the bytes by which resident anonymous memory fell.

	level: "purge" returns free pages of the heap; "light" runs Python's garbage collection first; "heavy" also empties
	the caches of GPU frameworks. Other threads may run meanwhile: the GIL is released, except during the collection.
	Returns 0 where nothing fell, where the allocator cannot return memory, and without the library.
	Raises ValueError for another level, also without the library.
	"""
	if not isinstance(level, str) or level not in _LEVELS:
		raise ValueError(f"level is {level!r}; it must be one of {', '.join(_LEVELS)}")
	library = _find_library()
	return max(0, library.trim(_LEVELS[level])) if library else 0


def round() -> int:
	"""Ends one round of the program's work, for example an epoch. Every MT_GC_ROUNDS-th round requests a light cleanup,
	every MT_HEAVY_ROUNDS-th a heavy one; the library's own thread runs it. Returns the number of the round, from 1;
	0 without the library, and with MT_ENABLE=0."""
	library = _find_library()
	return library.round() if library else 0


class round_scope:
	"""Ends a round at the end of a block, or of each call of a function, also where an exception ends it::

		with mtshim.round_scope():
			train_one_epoch()

		@mtshim.round_scope()
		def train_one_epoch(): ...

	An `async def` may be decorated too: its round ends with the coroutine. A generator's round ends at its call."""

	def __enter__(self) -> None:
		pass

	def __exit__(self, *unused: object) -> None:
		round()

	def __call__(self, function: Function) -> Function:
		import functools
		import inspect

		@functools.wraps(function)
		def call(*args: Any, **named: Any) -> Any:
			with self:
				return function(*args, **named)

		@functools.wraps(function)
		async def call_async(*args: Any, **named: Any) -> Any:
			with self:
				return await function(*args, **named)

		is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))
		return call_async if is_async else call  # type: ignore[return-value]


class _PlainStats:
	"""In the place of Stats where its module cannot be imported: the same figures, and no methods."""

	def __init__(self, **figures: Any) -> None:
		self.__dict__.update(figures)

	def __getattr__(self, name: str) -> int:
		if name.startswith("__"):
			raise AttributeError(name)
		return False if name == "active" else 0


def stats() -> _mtshim.Stats:
	"""Returns figures of this process; see Stats. Without the library all are 0, and `active` is False."""
	library = _find_library()
	figures = library and library.read_figures() or {}
	try:
		from ._stats import Stats
	except Exception:
		return _PlainStats(**figures)  # type: ignore[return-value]
	return Stats(**figures)


def allocator() -> str:
	"""Returns the allocator that serves malloc: "jemalloc", "glibc", "tcmalloc", "mimalloc" or "unknown". A small process
	has "glibc" until it has grown. "unknown" without the library."""
	library = _find_library()
	return library.allocator() if library else "unknown"


def library_path() -> str:
	"""Returns the absolute path of libmtshim.so, for LD_PRELOAD: the file that MTSHIM_LIBRARY names, else the one of this
	package. Raises FileNotFoundError where there is none."""
	path = os.environ.get("MTSHIM_LIBRARY") or os.path.join(os.path.dirname(__file__), "bin", "libmtshim.so")
	if not os.path.isfile(path):
		raise FileNotFoundError(f"{path} is not there")
	return os.path.realpath(path)


def load_ipython_extension(shell: Any) -> None:
	"""IPython calls it for `%load_ext mtshim`."""
	from .integrations import ipython
	ipython.load(shell)


def _load_module_attribute(name: str) -> Any:
	if name == "Stats":
		from ._stats import Stats
		return Stats
	if name == "__version__":
		from importlib.metadata import PackageNotFoundError, version
		try:
			return version("mtshim")
		except PackageNotFoundError:  # the package lies on the path without having been installed
			return "unknown"
	raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


if not TYPE_CHECKING:  # a type checker takes each name for one of the module where it sees this function
	__getattr__ = _load_module_attribute

# Later the files may be out of reach: after a setuid, a chroot, an uninstallation. What costs little is loaded now: ctypes where the
# library is in the process, Stats where the program has loaded dataclasses already, which takes 5 ms.
if os.environ.get("LD_PRELOAD") or os.path.exists("/etc/ld.so.preload"):
	_find_library()
if "dataclasses" in sys.modules:
	stats()
