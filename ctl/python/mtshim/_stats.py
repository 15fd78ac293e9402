"""The class of mtshim.stats(). Here and not in _library.py, which a subinterpreter may be unable to import."""
from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Stats:
	"""Figures of this process, as struct mt_stats of mtshim.h has them. 0 where there is none."""
	live_bytes: int = 0  #: usable bytes of the blocks that the program holds
	allocated_bytes: int = 0  #: in total
	freed_bytes: int = 0  #: in total
	rss_bytes: int = 0  #: resident memory
	rss_anon_bytes: int = 0  #: the anonymous part of it
	rounds_count: int = 0
	light_count: int = 0  #: cleanups of this level
	heavy_count: int = 0
	purge_count: int = 0
	purged_bytes: int = 0  #: by which resident memory fell, across all purges
	active: bool = False  #: whether the library is in this process and works
