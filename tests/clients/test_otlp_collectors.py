"""`mtctl export --otlp` and what others have written for OTLP: the collector Rotel, and the messages of opentelemetry-proto."""
import json
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest

from mtctl_helpers import PYTHON
from otlp_collector import collector

pytestmark = pytest.mark.xdist_group("pypi")  # one worker, as test_python_profilers.py

PARSE = """
import sys
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
request = json_format.Parse(sys.stdin.read(), ExportMetricsServiceRequest())
print(sum(len(scope.metrics) for resource in request.resource_metrics for scope in resource.scope_metrics))
"""


@pytest.fixture
def program(spawn, env):
	process = spawn([PYTHON, "-c", "x = [str(i) for i in range(99999)]\nprint('ready', flush=True)\ninput()"], env(MIN_MB=0),
	                stdin=subprocess.PIPE)
	assert process.stdout.readline() == "ready\n"
	return process


def export(mtctl, bare, mt_dir, url):
	return subprocess.run([mtctl, "export", "--otlp"], env=dict(bare, MT_DIR=str(mt_dir), OTEL_EXPORTER_OTLP_ENDPOINT=url),
	                      capture_output=True, text=True, timeout=60)


def test_the_messages_are_those_of_opentelemetry_proto(program, pypi_python, mtctl, bare, mt_dir):
	with collector() as here:
		done = export(mtctl, bare, mt_dir, here.url)
	assert done.returncode == 0, done.stderr
	body = here.requests[0][2]

	parsed = subprocess.run([pypi_python, "-c", PARSE], input=json.dumps(body), capture_output=True, text=True)

	assert parsed.returncode == 0, parsed.stderr
	assert int(parsed.stdout) == sum(len(one["scopeMetrics"][0]["metrics"]) for one in body["resourceMetrics"]) > 50


def free_port():
	with socket.socket() as one:
		one.bind(("127.0.0.1", 0))
		return one.getsockname()[1]


def test_a_real_collector_understands_them(program, pypi_python, mtctl, bare, mt_dir, tmp_path):
	found = sorted(pathlib.Path(pypi_python).parent.parent.glob("lib/python3*/site-packages/rotel/rotel-agent"))
	if not found:
		pytest.skip("rotel has no wheel for this Python")
	port = free_port()
	with open(tmp_path / "log", "w") as log:
		agent = subprocess.Popen([found[0], "start", f"--otlp-http-endpoint=127.0.0.1:{port}",
		                          f"--otlp-grpc-endpoint=127.0.0.1:{free_port()}", "--exporter=blackhole", "--debug-log=metrics",
		                          "--debug-log-verbosity=detailed"], stdout=log, stderr=log, env=dict(bare, HOME=str(tmp_path)))
	try:
		for _ in range(100):
			done = export(mtctl, bare, mt_dir, f"http://127.0.0.1:{port}")
			if done.returncode == 0:
				break
			time.sleep(0.2)
		assert done.returncode == 0, done.stderr
		time.sleep(1)
	finally:
		agent.send_signal(signal.SIGTERM)
		agent.wait(20)
	said = re.sub(r"\x1b\[[0-9;]*m", "", (tmp_path / "log").read_text())
	assert f"process.pid: Int({program.pid})" in said
	assert re.search(r"Name: process\.memory\.usage\n.*\n +-> Unit: By\n +-> DataType: Sum\n +-> IsMonotonic: false", said)
	assert re.search(r"Name: mtshim\.heap_live_bytes\n.*\n +-> Unit: By\n +-> DataType: Gauge", said)
