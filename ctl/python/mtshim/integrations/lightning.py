"""Lightning: `Trainer(..., callbacks=[RoundCallback()])`. Serves the package lightning, else pytorch_lightning."""
from typing import Any

import mtshim

from . import Every

try:
	from lightning.pytorch import Callback
except ModuleNotFoundError:
	from pytorch_lightning import Callback


class RoundCallback(Callback):  # type: ignore[misc]
	"""Ends a round with each training epoch; with every_batches=N with each N-th training batch instead. Each process of a
	distributed training counts its own."""

	def __init__(self, every_batches: int = 0) -> None:
		super().__init__()
		self._batch = Every(every_batches) if every_batches else None

	def on_train_batch_end(self, *unused: Any, **named: Any) -> None:
		if self._batch:
			self._batch()

	def on_train_epoch_end(self, *unused: Any, **named: Any) -> None:
		if not self._batch:
			mtshim.round()
