#!/usr/bin/python3
"""A Celery worker with 4 processes, in bursts of tasks with pauses; then it waits for more.

A task makes JSON of rows that it makes up, and reads it again: mostly 50, every 20th time 20,000. The broker is a Redis server, outside of
the candidate as the client is, which is the driver. cpu_s and minor_faults are those of all processes of the worker.
"""
import importlib.util
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import realprog
from real_web import free_port, wait_ready

BURSTS = 4
TASKS = 1200  # of a burst
PAUSE_S = 1.5
TASK = """
import json
import redis
from celery import Celery

app = Celery("tasks", broker="redis://127.0.0.1:{port}/0")
totals = redis.Redis(port={port}, db=1)

@app.task(ignore_result=True)
def work(rows):
	text = json.dumps([{{"id": i, "name": f"row {{i}}", "note": "a note of it " * (1 + i % 7)}} for i in range(rows)])
	with totals.pipeline() as both:
		both.incrby("rows", len(json.loads(text)))
		both.incrby("tasks", 1)
		both.execute()
"""


def run_burst(tasks, count):
	tasks.totals.flushdb()
	for number in range(count):
		tasks.work.delay(20_000 if number % 20 == 0 else 50)
	while int(tasks.totals.get("tasks") or 0) < count:
		time.sleep(0.02)
	expected = sum(20_000 if number % 20 == 0 else 50 for number in range(count))
	if int(tasks.totals.get("rows")) != expected:
		raise SystemExit(f"{tasks.totals.get('rows')} rows of {expected}")


def main():
	options = realprog.parse_options(__doc__, bursts=BURSTS)
	realprog.require("redis-server")
	if not (importlib.util.find_spec("celery") and importlib.util.find_spec("redis")):
		raise SystemExit("python3-celery or python3-redis is not installed: scripts/bootstrap")
	with tempfile.TemporaryDirectory(prefix="mtshim-bench-") as name:
		port = free_port()
		(pathlib.Path(name) / "tasks.py").write_text(TASK.format(port=port))
		sys.path.insert(0, name)
		import tasks # pylint: disable=import-error,import-outside-toplevel

		broker = subprocess.Popen(["redis-server", "--port", str(port), "--save", "", "--bind", "127.0.0.1"], cwd=name,
			stdout=subprocess.DEVNULL)
		try:
			wait_ready(port)
			program = realprog.Program([sys.executable, "-m", "celery", "-A", "tasks", "worker", "--concurrency=4", "--loglevel=error"], cwd=name,
				stderr=subprocess.DEVNULL)
			run_burst(tasks, 4)  # it is ready
			begun = time.monotonic()
			for burst in range(options.bursts):
				time.sleep(PAUSE_S if burst else 0)
				run_burst(tasks, max(4, int(TASKS * options.scale)))
			work_s = time.monotonic() - begun - PAUSE_S * (options.bursts - 1)
			realprog.lie_idle(options.idle)
			used = program.finish(signal.SIGTERM)
		finally:
			broker.kill()
			broker.wait()
	realprog.print_figures(work_s=work_s, **used)


if __name__ == "__main__":
	main()
