"""ASGI: `app = RoundMiddleware(app, every=1000)`, or in FastAPI and Starlette `app.add_middleware(RoundMiddleware, every=1000)`.
For servers whose workers call no hook after a request: uvicorn, hypercorn, gunicorn with UvicornWorker. Imports nothing of them."""
from typing import Any, Awaitable, Callable

from . import Every


class RoundMiddleware:
	"""Ends a round after each `every`-th request, a WebSocket's session being one, also where it failed."""

	def __init__(self, app: Callable[..., Awaitable[None]], every: int = 1) -> None:
		self._app = app
		self._count = Every(every)

	async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
		try:
			await self._app(scope, receive, send)
		finally:
			if scope["type"] != "lifespan":
				self._count()
