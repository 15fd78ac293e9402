"""The functions of mtshim.h, by ctypes, in the library that the loader has put into this process. Never loads it. Here and
not in __init__.py, since importing ctypes takes milliseconds."""
from __future__ import annotations

import ctypes
import dataclasses
from typing import Optional

from ._stats import Stats

_FIGURES = [field.name for field in dataclasses.fields(Stats) if field.name != "active"]


class _Stats(ctypes.Structure):
	_fields_ = [(name, ctypes.c_uint64) for name in ("size_bytes", *_FIGURES)]


_process = ctypes.CDLL(None)
_loaded = all(hasattr(_process, name) for name in ("mt_round", "mt_trim", "mt_stats", "mt_allocator_type"))
if _loaded:
	_process.mt_round.restype = ctypes.c_uint64
	_process.mt_trim.restype = ctypes.c_int64
	_process.mt_allocator_type.restype = ctypes.c_char_p


def round() -> int:
	return int(_process.mt_round()) if _loaded else 0


def trim(level: int) -> int:
	return int(_process.mt_trim(level)) if _loaded else 0


def read_stats() -> Optional[Stats]:
	"""Returns None where the library is not loaded, or off."""
	figures = _Stats(size_bytes=ctypes.sizeof(_Stats))
	if not _loaded or _process.mt_stats(ctypes.byref(figures)) != 0:
		return None
	return Stats(active=True, **{name: getattr(figures, name) for name in _FIGURES})


def allocator() -> str:
	return _process.mt_allocator_type().decode() if _loaded else "unknown"
