"""Rounds and figures for frameworks: one module each, which imports the framework. Nothing else of mtshim imports these
modules. Without the library each of them does nothing. docs/integrations.md has the lines that a program needs."""
import itertools

import mtshim


class Every:
	"""Ends a round at each `every`-th call. Any thread may call. Raises ValueError where `every` is below 1."""

	def __init__(self, every: int = 1) -> None:
		if every < 1:
			raise ValueError(f"every is {every}; it must be 1 or more")
		self._every = every
		self._calls = itertools.count(1)

	def __call__(self) -> None:
		if next(self._calls) % self._every == 0:
			mtshim.round()
