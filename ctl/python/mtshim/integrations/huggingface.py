"""transformers: `Trainer(..., callbacks=[RoundCallback()])`."""
from typing import Any

import transformers

import mtshim

from . import Every


class RoundCallback(transformers.TrainerCallback):  # type: ignore[misc]
	"""Ends a round with each epoch; with every_steps=N with each N-th optimizer step instead. Each process of a distributed
	training counts its own."""

	def __init__(self, every_steps: int = 0) -> None:
		self._step = Every(every_steps) if every_steps else None

	def on_step_end(self, *unused: Any, **named: Any) -> None:
		if self._step:
			self._step()

	def on_epoch_end(self, *unused: Any, **named: Any) -> None:
		if not self._step:
			mtshim.round()
