"""Rounds and figures for frameworks: one module each, which imports the framework. Nothing else of mtshim imports these
modules. Without the library each of them does nothing. docs/integrations.md has the lines that a program needs.
PYTEST_DONT_REWRITE"""
import threading

import mtshim

mtshim.stats()  # loads what it needs, before a server gives up its rights or is uninstalled
_lock = threading.Lock()  # of the module: frameworks pickle and copy what holds an Every


class Every:
	"""Ends a round at each `every`-th call. Any thread may call. Can be pickled and copied. Raises ValueError where `every` is
	below 1."""

	def __init__(self, every: int = 1) -> None:
		if every < 1:
			raise ValueError(f"every is {every}; it must be 1 or more")
		self._every = every
		self._calls = 0

	def __call__(self) -> None:
		with _lock:
			self._calls += 1
			is_due = self._calls % self._every == 0
		if is_due:
			mtshim.round()
