"""Celery: `mtshim.integrations.celery.connect()` in the module of the app."""
from typing import Any

from celery.signals import task_postrun

from . import Every


def connect(every: int = 1) -> None:
	"""Ends a round after each `every`-th task of a worker process, also where the task failed. The processes of a prefork
	pool count their own. A second call changes `every`."""
	count = Every(every)

	def task_ended(**unused: Any) -> None:
		count()

	task_postrun.disconnect(dispatch_uid="mtshim")
	task_postrun.connect(task_ended, weak=False, dispatch_uid="mtshim")
