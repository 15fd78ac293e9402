"""NVFLARE: a component of the job, the same for the server and the clients. In config_fed_server.json and
config_fed_client.json: `"components": [{"id": "mtshim", "path": "mtshim.integrations.nvflare.RoundHandler"}]`."""
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType

import mtshim


class RoundHandler(FLComponent):  # type: ignore[misc]
	"""Ends a round of the library with each round of the federation.

	Where a workflow runs, which is the server, or a client of a swarm: when the workflow says that the round is done; where
	it only says that one has started, as FedAvg does, at the start of the next and at the end of the workflow.
	On a client: when the result of a round's first task has been sent. Tasks without a round's number count as none.
	A process that runs several clients counts the rounds of each."""

	def __init__(self) -> None:
		super().__init__()
		self._is_open = False
		self._task_round = self._sent_round = None

	def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
		if event_type in (AppEventType.ROUND_STARTED, AppEventType.ROUND_DONE, EventType.END_WORKFLOW, EventType.END_RUN):
			if self._is_open:
				mtshim.round()
			self._is_open = event_type == AppEventType.ROUND_STARTED
		elif event_type == EventType.BEFORE_TASK_EXECUTION:
			task = fl_ctx.get_prop(FLContextKey.TASK_DATA)  # gone once the task has run
			self._task_round = task.get_header(AppConstants.CURRENT_ROUND) if task is not None else None
		elif event_type == EventType.AFTER_SEND_TASK_RESULT and self._task_round not in (None, self._sent_round):
			self._sent_round = self._task_round
			mtshim.round()
