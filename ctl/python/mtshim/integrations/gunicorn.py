"""gunicorn: hooks for gunicorn.conf.py, `from mtshim.integrations.gunicorn import when_ready, post_fork, worker_exit`, and
`post_request = rounds(every=100)`. Imports nothing of gunicorn."""
from typing import Any, Callable

import mtshim

from . import Every


def when_ready(server: Any) -> None:
	"""Runs a light cleanup before the first worker is forked: with preload_app no worker inherits the garbage of the start."""
	mtshim.trim("light")


def post_fork(server: Any, worker: Any) -> None:
	"""Logs at info level whether the library works in the worker."""
	state = f"active, on {mtshim.allocator()}" if mtshim.is_active() else "not active"
	worker.log.info("mtshim: %s in worker %d", state, worker.pid)


def worker_exit(server: Any, worker: Any) -> None:
	"""Logs at info level what the library did in the worker."""
	now = mtshim.stats()
	if now.active:
		worker.log.info("mtshim: worker %d: %d rounds, %d cleanups, %.1f MB returned; %.1f MB resident, %.1f MB in use", worker.pid,
		                now.rounds_count, now.light_count + now.heavy_count + now.purge_count, now.purged_bytes / 2**20,
		                now.rss_bytes / 2**20, now.live_bytes / 2**20)


def rounds(every: int = 1) -> Callable[..., None]:
	"""Returns a post_request hook that ends a round after each `every`-th request of a worker."""
	count = Every(every)

	def post_request(worker: Any, request: Any, environ: Any, response: Any) -> None:
		count()

	return post_request
