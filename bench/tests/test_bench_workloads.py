"""Each Python workload of the bench suite, at its smallest, keeps the suite's protocol (bench/lib/entries.py): work, the
idle event, silence, figures with work_s. What it measures is no matter here."""
import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from lib import entries  # pylint: disable=wrong-import-position

PYTHON = "/usr/bin/python3"
NEEDS = {"fl_rounds": ["torch"], "dataloader": ["torch", "numpy"], "server": ["torch"], "churn": ["pandas"]}
IDLE_S = 0.3
# Label, its smallest arguments.
ROWS = [
	("fl_rounds", ["--rounds", "1", "--wait", "0"]),
	("dataloader", ["--epochs", "1", "--images", "12", "--wait", "0"]),
	("server", ["--bursts", "1", "--requests", "4"]),
	("churn", ["--batches", "2"]),
	("throughput", ["--repeat", "1"]),
	("fragmentation", []),
	("pyheavy", ["--scale", "0.02"]),
]


def works(run, bare, label, arguments):
	"""The lines of JSON that it printed; on stderr it says nothing."""
	name = entries.by_label(label).name
	if any(importlib.util.find_spec(module) is None for module in NEEDS.get(name, [])):
		pytest.skip(f"{' or '.join(NEEDS[name])} is not there")
	done = run([PYTHON, ROOT / "bench" / "workloads" / f"{name}.py", *arguments], bare, timeout=120)
	assert (done.returncode, done.stderr) == (0, "")
	return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("label, arguments", ROWS, ids=[row[0] for row in ROWS])
def test_says_when_it_lies_idle_and_then_what_it_took(run, bare, label, arguments):
	by_hand = entries.by_label(label).by_hand or []  # trims by itself on the way, where it can
	begun = time.monotonic()
	event, figures = works(run, bare, label, [*arguments, *by_hand, "--idle", str(IDLE_S)])
	ended = time.monotonic()
	assert event == {"event": "idle", "time": event["time"]}
	assert begun < event["time"] < ended - IDLE_S
	assert 0 < figures["work_s"] < event["time"] - begun


def test_prints_figures_alone_where_nobody_asks_for_idle_time(run, bare):
	figures, = works(run, bare, "pyheavy", ["--only", "dicts", "--scale", "0.01"])
	assert figures["work_s"] > 0


def test_the_load_of_the_server_does_not_run_on_the_allocator_that_is_measured(monkeypatch):
	monkeypatch.syspath_prepend(ROOT / "bench" / "workloads")
	monkeypatch.setenv("LD_PRELOAD", "libmtshim.so")
	monkeypatch.setenv("PYTHONMALLOC", "malloc")
	monkeypatch.setenv("MALLOC_CONF", "background_thread:true")
	import server  # pylint: disable=import-outside-toplevel,import-error
	left = server.client_environment()
	assert not {"LD_PRELOAD", "PYTHONMALLOC", "MALLOC_CONF"} & set(left)
	assert left["PATH"] == os.environ["PATH"]


def test_a_server_whose_requests_get_lost_has_no_figures(monkeypatch):
	monkeypatch.syspath_prepend(ROOT / "bench" / "workloads")
	import server  # pylint: disable=import-outside-toplevel,import-error
	said = json.dumps({"seconds": 0.1, "latencies": [1.0] * 23})
	monkeypatch.setattr(server, "start_client", lambda *_: subprocess.Popen(["echo", said], stdout=subprocess.PIPE, text=True))
	with pytest.raises(SystemExit, match="23 of 100 requests were answered"):
		server.serve_bursts(argparse.Namespace(bursts=1, requests=100, trim=False), 0)
