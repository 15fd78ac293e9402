"""`mtctl export --otlp`: the metrics for a collector of OpenTelemetry, and the variables that all its exporters read."""
import ctypes.util
import signal
import socket

import pytest

from metrics_helpers import samples
from mtctl_helpers import MB, NO_ANSWER, NOTHING, USAGE
from mtctl_helpers import ctl, fake, plain  # noqa: F401 (fixtures)
from otlp_collector import attributes, check, collector, value
from test_export import RANKED

pytestmark = pytest.mark.skipif(not ctypes.util.find_library("curl"), reason="libcurl is not installed")


@pytest.fixture
def there():
	with collector() as here:
		yield here


@pytest.fixture
def push(ctl, there):
	def call(*words, code=0, **environment):
		done = ctl("export", "--otlp", *words, **{"OTEL_EXPORTER_OTLP_ENDPOINT": there.url, **environment})
		assert (done.returncode, done.stdout) == (code, ""), done.stderr
		return done.stderr
	return call


def only(metric):
	(kind,) = {"gauge", "sum"} & set(metric)
	(point,) = metric[kind]["dataPoints"]
	return value(point)


def test_a_collector_gets_every_figure_in_messages_of_the_protocol(push, there, fake, ctl):
	pid = fake(**RANKED)

	assert push() == ""

	(path, headers, body), = there.requests
	assert (path, headers["Content-Type"]) == ("/v1/metrics", "application/json")
	check("request", body)
	metrics = there.metrics(pid)
	page = samples(ctl("export").stdout, pid)
	assert sum(len(metric.get("sum", metric.get("gauge"))["dataPoints"]) for metric in metrics.values()) == len(page)
	assert (only(metrics["mtshim.heap_live_bytes"]), metrics["mtshim.heap_live_bytes"]["unit"]) == (200 * MB, "By")
	assert only(metrics["mtshim.ticks_cost_seconds"]) == 1.500000001 and metrics["mtshim.ticks_cost_seconds"]["unit"] == "s"
	assert metrics["mtshim.purge"]["sum"] == {"aggregationTemporality": 2, "isMonotonic": True,
	                                          "dataPoints": metrics["mtshim.purge"]["sum"]["dataPoints"]}
	reasons = {attributes(point)["reason"]: value(point) for point in metrics["mtshim.cleanups"]["sum"]["dataPoints"]}
	assert sum(reasons.values()) == 3 and len(reasons) > 5
	assert "mtshim.build_info" in there.metrics(None) and "gauge" in there.metrics(None)["mtshim.processes"]


def test_figures_of_the_semantic_conventions_have_their_names(push, there, fake):
	pid = fake(**RANKED)

	push()

	metrics = there.metrics(pid)
	assert metrics["process.memory.usage"]["unit"] == "By" and metrics["process.memory.usage"]["sum"]["isMonotonic"] is False
	assert metrics["process.cpu.time"]["unit"] == "s" and metrics["process.cpu.time"]["sum"]["isMonotonic"] is True
	faults = metrics["process.paging.faults"]
	assert faults["unit"] == "{fault}" and attributes(faults["sum"]["dataPoints"][0]) == {"system.paging.fault.type": "minor"}
	assert not {"mtshim.rss_bytes", "mtshim.cpu_seconds", "mtshim.minor_faults"} & set(metrics)
	resource = there.resource(pid)
	assert resource["process.pid"] == str(pid) and resource["process.executable.name"] and resource["mtshim.rank"] == "3"
	assert resource["host.name"] == socket.gethostname() and resource["service.instance.id"] == f"{socket.gethostname()}:{pid}"


def test_the_variables_of_opentelemetry_are_honoured(push, there, fake):
	pid = fake()

	push(OTEL_EXPORTER_OTLP_ENDPOINT=there.url + "/base/", OTEL_SERVICE_NAME="trainer",
	     OTEL_RESOURCE_ATTRIBUTES="service.name=other, deployment.environment.name=test%20room,host.name=%C3%A4",
	     OTEL_EXPORTER_OTLP_HEADERS="api-key=a%3Db, x-tenant = 7 ")
	path, headers, _ = there.requests[-1]
	assert (path, headers["api-key"], headers["x-tenant"]) == ("/base/v1/metrics", "a=b", "7")
	resource = there.resource(pid)
	assert (resource["service.name"], resource["host.name"]) == ("trainer", "\u00e4")
	assert resource["deployment.environment.name"] == "test room"

	push(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1", OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=there.url + "/just/this",
	     OTEL_EXPORTER_OTLP_HEADERS="x=all", OTEL_EXPORTER_OTLP_METRICS_HEADERS="x=metrics")
	path, headers, _ = there.requests[-1]
	assert (path, headers["x"]) == ("/just/this", "metrics")
	assert there.resource(pid)["service.name"] == "unknown_service:mtctl"


@pytest.mark.parametrize("name, text", [("OTEL_EXPORTER_OTLP_HEADERS", "no pair"), ("OTEL_EXPORTER_OTLP_HEADERS", "a=b%0d%0ac: d"),
                                        ("OTEL_RESOURCE_ATTRIBUTES", "a=b,=c"), ("OTEL_RESOURCE_ATTRIBUTES", "a=%ff"),
                                        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")])
def test_a_variable_that_is_not_valid_is_named_and_nothing_is_sent(push, there, name, text):
	assert name in push(code=USAGE, **{name: text})
	assert there.requests == []


def test_a_collector_that_refuses_or_is_not_there_is_an_error_with_its_words(push, there):
	there.reply = (400, b"no such tenant")
	assert "HTTP status 400: no such tenant" in push(code=USAGE)
	there.reply = (503, b"")
	assert "HTTP status 503" in push(code=NO_ANSWER)
	there.reply = (200, b'{"partialSuccess": {"rejectedDataPoints": "2", "errorMessage": "two \\u001b[31mtoo old"}}')
	assert "the collector says: two ?[31mtoo old" in push()
	assert "127.0.0.1:1/v1/metrics" in push(code=NO_ANSWER, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1")
	assert push(code=NO_ANSWER, OTEL_EXPORTER_OTLP_ENDPOINT="file:///etc")


def test_without_libcurl_its_package_is_named(ctl, compile_c, tmp_path):
	source = tmp_path / "none.c"
	source.write_text('#include <dlfcn.h>\n#include <string.h>\nvoid *dlopen(const char *name, int flags)\n{\n'
	                  '\tvoid *(*real)(const char *, int) = (void *(*)(const char *, int))dlsym(RTLD_NEXT, "dlopen");\n'
	                  '\treturn name && strstr(name, "libcurl") ? 0 : real(name, flags);\n}\n')

	done = ctl("export", "--otlp", LD_PRELOAD=str(compile_c(source, "-shared", "-fPIC")))

	assert done.returncode == NOTHING and "libcurl4" in done.stderr, done.stderr


def test_with_an_interval_it_goes_on_after_a_failure_until_it_is_told_to_end(mtctl, plain, there, spawn, wait_for):
	there.reply = (503, b"")
	process = spawn([mtctl, "export", "--otlp", "--interval=0.1"], dict(plain, OTEL_EXPORTER_OTLP_ENDPOINT=there.url))
	wait_for(lambda: len(there.requests) >= 2)
	there.reply = (200, b"{}")
	seen = len(there.requests)
	wait_for(lambda: len(there.requests) >= seen + 2)

	process.send_signal(signal.SIGTERM)

	assert process.wait(20) == 0


def test_wrong_use(ctl):
	for words in (["--textfile=/tmp"], ["--once", "--interval=1"]):
		assert ctl("export", "--otlp", *words).returncode == USAGE
