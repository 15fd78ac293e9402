"""Flower: `ClientApp(mods=[round_mod])` and `count_rounds(FedAvg(...)).start(...)`. Imports nothing of Flower."""
from typing import Any, Callable, TypeVar

import mtshim

Strategy = TypeVar("Strategy")


def round_mod(message: Any, context: Any, call_next: Callable[[Any, Any], Any]) -> Any:
	"""A mod of a ClientApp: ends a round when the app has replied to a `train` message, also where it raised."""
	try:
		return call_next(message, context)
	finally:
		if message.metadata.message_type.split(".")[0] == "train":
			mtshim.round()


def count_rounds(strategy: Strategy) -> Strategy:
	"""Makes this strategy end a round with each of its own rounds, once it has aggregated the evaluation, and returns it.
	Serves strategies of flwr.serverapp."""
	aggregate = strategy.aggregate_evaluate  # type: ignore[attr-defined]

	def aggregate_evaluate(*args: Any, **named: Any) -> Any:
		with mtshim.round_scope():
			return aggregate(*args, **named)

	strategy.aggregate_evaluate = aggregate_evaluate  # type: ignore[attr-defined]
	return strategy
