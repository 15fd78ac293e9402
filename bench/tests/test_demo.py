"""The demo of `make demo`."""
import argparse
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import demo  # pylint: disable=wrong-import-position


def test_the_signal_comes_at_the_start_of_the_wait_when_something_is_left_to_return(monkeypatch):
	sent = []

	def watch(_command, _candidate, on_event):
		for number in (1, 2, 3):
			begun = time.monotonic()
			on_event({"event": "wait", "number": number}, lambda number=number, begun=begun: sent.append((number, time.monotonic() - begun)))

	monkeypatch.setattr(demo.watch, "watch", watch)
	demo.run_one(argparse.Namespace(build="build", rounds=3, wait=1.0), demo.candidates.parse("glibc"), 2)

	assert [number for number, _ in sent] == [2] and sent[0][1] < 0.14
