"""The functions of mtshim.h, by ctypes, in the library that the loader has put into this process. Never loads it. Here and
not in __init__.py, since importing ctypes takes a millisecond. Imports nothing else: see the end of __init__.py."""
from __future__ import annotations

import ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:
	from typing import Any, Dict, Optional

_FIGURES = ("live_bytes", "allocated_bytes", "freed_bytes", "rss_bytes", "rss_anon_bytes", "rounds_count", "light_count", "heavy_count",
            "purge_count", "purged_bytes")  # struct mt_stats


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


def read_figures() -> Optional[Dict[str, Any]]:
	"""Returns the arguments of Stats; None where the library is not loaded, or off."""
	figures = _Stats(size_bytes=ctypes.sizeof(_Stats))
	if not _loaded or _process.mt_stats(ctypes.byref(figures)) != 0:
		return None
	return {"active": True, **{name: getattr(figures, name) for name in _FIGURES}}


def allocator() -> str:
	return _process.mt_allocator_type().decode() if _loaded else "unknown"
