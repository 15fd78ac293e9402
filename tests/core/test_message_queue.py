"""The worker's start ends nothing that the program has asked the kernel for."""
import pytest


def test_a_notification_of_a_message_queue_comes_after_the_worker_has_started(run, env, bare, compile_c, backend):
	program = compile_c("message_queue.c", "-lrt")
	expected = run([program], bare).stdout
	if "no message queues" in expected:
		pytest.skip("this kernel has no message queues")

	for settings in (env(), env(MT_MIN_MB=0)):
		got = run([program], settings)
		assert (got.returncode, got.stdout, got.stderr) == (0, expected, "") == (0, "the notification came\n", "")
