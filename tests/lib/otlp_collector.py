"""A collector of OpenTelemetry for tests: takes metrics by OTLP/HTTP with JSON, and holds each body against the messages of
opentelemetry/proto/metrics/v1/metrics.proto, as far as mtctl uses them."""
import contextlib
import http.server
import json
import threading

# message: {field: what it is}; a list of one: repeated. "u64" is a text of digits, as protobuf's JSON has numbers of 64 bits.
MESSAGES = {
	"request": {"resourceMetrics": ["resource_metrics"]},
	"resource_metrics": {"resource": "resource", "scopeMetrics": ["scope_metrics"]},
	"resource": {"attributes": ["attribute"]},
	"scope_metrics": {"scope": "scope", "metrics": ["metric"]},
	"scope": {"name": str, "version": str},
	"metric": {"name": str, "description": str, "unit": str, "gauge": "gauge", "sum": "sum"},
	"gauge": {"dataPoints": ["point"]},
	"sum": {"dataPoints": ["point"], "aggregationTemporality": int, "isMonotonic": bool},
	"point": {"attributes": ["attribute"], "timeUnixNano": "u64", "asInt": "u64", "asDouble": float},
	"attribute": {"key": str, "value": "value"},
	"value": {"stringValue": str, "intValue": "u64"},
}
ONE_OF = {"metric": ("gauge", "sum"), "point": ("asInt", "asDouble"), "value": ("stringValue", "intValue")}


def check(kind, value):
	if isinstance(kind, list):
		assert isinstance(value, list)
		for one in value:
			check(kind[0], one)
	elif kind == "u64":
		assert isinstance(value, str) and value.isdigit() and int(value) < 1 << 64, value
	elif isinstance(kind, type):
		assert type(value) is kind, (kind, value)
	else:
		for name, field in value.items():
			check(MESSAGES[kind][name], field)
		assert kind not in ONE_OF or sum(name in value for name in ONE_OF[kind]) == 1, value


def attributes(holder):
	return {one["key"]: next(iter(one["value"].values())) for one in holder["attributes"]}


def value(point):
	return int(point["asInt"]) if "asInt" in point else point["asDouble"]


class Collector:
	def __init__(self, port):
		self.url = f"http://127.0.0.1:{port}"
		self.requests = []  # (path, headers, body)
		self.reply = (200, b"{}")

	def metrics(self, pid=None):
		"""The metrics of the last request: of a process, or of none."""
		for one in self.requests[-1][2]["resourceMetrics"]:
			if attributes(one["resource"]).get("process.pid") == (pid and str(pid)):
				return {metric["name"]: metric for metric in one["scopeMetrics"][0]["metrics"]}
		raise KeyError(pid)

	def resource(self, pid=None):
		return next(found for found in (attributes(one["resource"]) for one in self.requests[-1][2]["resourceMetrics"])
		            if found.get("process.pid") == (pid and str(pid)))


@contextlib.contextmanager
def collector():
	class Handler(http.server.BaseHTTPRequestHandler):
		def do_POST(self):
			body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
			here.requests.append((self.path, dict(self.headers), body))
			status, text = here.reply
			self.send_response(status)
			self.send_header("Content-Type", "application/json")
			self.end_headers()
			self.wfile.write(text)

		def log_message(self, *words):
			pass

	server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
	here = Collector(server.server_address[1])
	threading.Thread(target=server.serve_forever, daemon=True).start()
	try:
		yield here
	finally:
		server.shutdown()
		server.server_close()
