"""The shim's thread runs where and as the process was started, not as whichever thread of the program starts it. The program is
worker_schedule.c."""
import os

import pytest


@pytest.fixture
def schedules(run, compile_c, env):
	"""schedules(way, *before): how main and the shim's thread are scheduled, started by a thread that is so otherwise."""
	def ask(way, *before):
		got = run([*before, compile_c("worker_schedule.c"), way], env(), timeout=20)
		assert (got.returncode, got.stderr) == (0, ""), got.stdout
		main, worker = got.stdout.splitlines()
		return main.removeprefix("main "), worker.removeprefix("worker ")
	return ask


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one CPU, where nothing can be pinned")
def test_a_thread_that_is_pinned_to_a_cpu_does_not_pin_the_shims(schedules, backend):
	main, worker = schedules("pinned")
	assert worker == main


def test_a_process_that_is_pinned_keeps_the_shims_thread_on_its_cpus(schedules):
	main, worker = schedules("pinned", "taskset", "-c", str(max(os.sched_getaffinity(0))))
	assert worker == main and worker.startswith("1 CPUs")


@pytest.mark.skipif(os.geteuid() != 0, reason="the kernel lets only root leave SCHED_IDLE")
@pytest.mark.parametrize("way", ["idle", "nice"])
def test_a_thread_of_another_priority_does_not_hand_it_on(schedules, way):
	main, worker = schedules(way)
	assert worker == main


def test_a_process_that_runs_only_when_nobody_else_wants_to_keeps_that(schedules):
	main, worker = schedules("pinned", "chrt", "-i", "0")
	assert worker == main and "policy 5" in worker
