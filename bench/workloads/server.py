#!/usr/bin/python3
"""A model of some 50 MB served over HTTP (ThreadingHTTPServer, JSON in, JSON out) under bursts of requests.

A request asks for the classes of 1 to 64 texts of 8 to 256 tokens, most of them small; the answer has the best classes
and a vector for each text. The last 256 answers are kept, and a fifth of the requests are such as were asked before. The load
comes from a process of its own, which is started without the allocator that is measured: 8 connections, opened again for
each burst, a fixed number of requests a burst, two seconds of silence between bursts. So a slower server has a longer work_s.

--trim: the server collects and calls malloc_trim(0) after each burst.
Prints one JSON line of figures: latencies are in ms, as the client sees them. MiB are 1048576 bytes.
"""
import argparse
import collections
import hashlib
import http.client
import http.server
import json
import os
import queue
import random
import subprocess
import sys
import threading
import time

import idling
import procself

CONNECTIONS = 8
REQUESTS = 400           # in a burst
ANSWERS_KEPT = 256
VOCABULARY, WIDTH, HIDDEN, CLASSES = 80_000, 128, 256, 200
LENGTH_STEP = 32         # of texts, in tokens
BEST = 5
# What would change how the client allocates; the names are those that bench/lib/execute.py sweeps as well.
SWEPT = ("LD_PRELOAD", "MALLOC_", "MT_", "PYTHONMALLOC", "GLIBC_TUNABLES", "MIMALLOC_", "TCMALLOC_")


# ---- the client, a process of its own ----

def make_bodies(chance, count, earlier):
	"""Requests as bytes, ready to be sent: making them must not be what is measured."""
	bodies = []
	for _ in range(count):
		if earlier and chance.random() < 0.2:
			bodies.append(chance.choice(earlier[-ANSWERS_KEPT // 2:]))
			continue
		texts = min(64, int(chance.paretovariate(0.8)))
		tokens = chance.randint(8, 256)
		body = json.dumps({"texts": [[chance.randrange(VOCABULARY) for _ in range(tokens)] for _ in range(texts)]}).encode()
		bodies.append(body)
		earlier.append(body)
	return bodies


def send_all(port, bodies, latencies):
	"""One connection: takes bodies until there are none."""
	connection = http.client.HTTPConnection("127.0.0.1", port)
	while True:
		try:
			body = bodies.get_nowait()
		except queue.Empty:
			break
		begun = time.perf_counter()
		connection.request("POST", "/classify", body, {"Content-Type": "application/json"})
		answer = connection.getresponse()
		answer.read()
		if answer.status != 200:
			raise RuntimeError(f"the server answered {answer.status}")
		latencies.append((time.perf_counter() - begun) * 1000)
	connection.close()


def send_burst(port, bodies):
	"""Returns the seconds that it took, and all latencies in ms."""
	waiting = queue.SimpleQueue()
	for body in bodies:
		waiting.put(body)
	latencies = []
	threads = [threading.Thread(target=send_all, args=(port, waiting, latencies)) for _ in range(CONNECTIONS)]
	begun = time.perf_counter()
	for thread in threads:
		thread.start()
	for thread in threads:
		thread.join()
	return time.perf_counter() - begun, latencies


def run_client(options):
	"""Prints one line of JSON after each burst."""
	chance = random.Random(options.seed)
	earlier = []
	bursts = [make_bodies(chance, options.requests, earlier) for _ in range(options.bursts)]
	for number, bodies in enumerate(bursts):
		if number:
			time.sleep(options.wait)
		seconds, latencies = send_burst(options.client, bodies)
		print(json.dumps({"seconds": seconds, "latencies": latencies}), flush=True)


def client_environment():
	return {name: value for name, value in os.environ.items() if not name.startswith(SWEPT)}


def start_client(options, port):
	return subprocess.Popen([sys.executable, os.path.abspath(__file__), "--client", str(port), "--bursts", str(options.bursts),
		"--requests", str(options.requests), "--wait", str(options.wait), "--seed", str(options.seed)],
		env=client_environment(), stdout=subprocess.PIPE, text=True)


# ---- the server ----

def build_model(torch):
	"""A text CNN with 42 MB of parameters: an embedding, a convolution over the tokens, a head over the largest of each text."""
	nn = torch.nn

	class Classifier(nn.Module):
		def __init__(self):
			super().__init__()
			self.embedding = nn.Embedding(VOCABULARY, WIDTH)
			self.convolution = nn.Conv1d(WIDTH, HIDDEN, 3, padding=1)
			self.head = nn.Linear(HIDDEN, CLASSES)

		def forward(self, tokens):
			vectors = self.convolution(self.embedding(tokens).transpose(1, 2)).relu().amax(2)
			return vectors, self.head(vectors).softmax(1)

	return Classifier().eval()


def padded(texts):
	"""As servers do, to few shapes: a kernel is compiled for each."""
	length = -(-max(map(len, texts)) // LENGTH_STEP) * LENGTH_STEP
	rows = 1 << (len(texts) - 1).bit_length()
	return [text + [0] * (length - len(text)) for text in texts] + [[0] * length] * (rows - len(texts))


class Answers:
	"""The last answers, by what was asked."""

	def __init__(self):
		self.lock = threading.Lock()
		self.kept = collections.OrderedDict()
		self.hits = 0

	def find(self, key):
		with self.lock:
			answer = self.kept.get(key)
			self.hits += answer is not None
			return answer

	def keep(self, key, answer):
		with self.lock:
			self.kept[key] = answer
			while len(self.kept) > ANSWERS_KEPT:
				self.kept.popitem(last=False)


def classify(torch, model, body):
	texts = json.loads(body)["texts"]
	with torch.no_grad():
		vectors, shares = model(torch.tensor(padded(texts)))
		best = shares.topk(BEST, 1)
	rows = zip(best.indices.tolist(), best.values.tolist(), vectors[:len(texts)].tolist())
	return json.dumps([{"classes": [{"class": f"class-{number}", "share": share} for number, share in zip(numbers, values)],
		"vector": vector} for numbers, values, vector in rows]).encode()


def make_handler(torch, model, answers):
	class Handler(http.server.BaseHTTPRequestHandler):
		protocol_version = "HTTP/1.1"  # a connection, and its thread, serves many requests
		disable_nagle_algorithm = True
		wbufsize = -1                  # headers and body in one write

		def setup(self):
			super().setup()
			torch.set_num_threads(1)   # counted per thread by OpenMP

		def do_POST(self):  # pylint: disable=invalid-name  # http.server's
			body = self.rfile.read(int(self.headers["Content-Length"]))
			key = hashlib.sha256(body).digest()
			answer = answers.find(key)
			if answer is None:
				answer = classify(torch, model, body)
				answers.keep(key, answer)
			self.send_response(200)
			self.send_header("Content-Type", "application/json")
			self.send_header("Content-Length", str(len(answer)))
			self.end_headers()
			self.wfile.write(answer)

		def log_message(self, format, *args):  # pylint: disable=redefined-builtin  # http.server's
			pass

	return Handler


def percentile(ordered, share):
	return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def serve_bursts(options, port):
	"""Returns the seconds of each burst, and all latencies in order."""
	client = start_client(options, port)
	seconds, latencies = [], []
	for line in client.stdout:
		burst = json.loads(line)
		begun = time.perf_counter()
		if options.trim:
			idling.trim_by_hand()
		seconds.append(burst["seconds"] + time.perf_counter() - begun)
		latencies.extend(burst["latencies"])
	# A thread of the client that fails has sent less, and would look fast.
	if client.wait() != 0 or len(seconds) != options.bursts or len(latencies) != options.bursts * options.requests:
		raise SystemExit(f"server: {len(latencies)} of {options.bursts * options.requests} requests were answered")
	return seconds, sorted(latencies)


def parse_options():
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--bursts", type=int, default=3)
	parser.add_argument("--requests", type=int, default=REQUESTS, help="in a burst")
	parser.add_argument("--wait", type=float, default=2.0, help="seconds of silence between bursts")
	parser.add_argument("--seed", type=int, default=1)
	parser.add_argument("--trim", action="store_true", help="gc.collect() and malloc_trim(0) after each burst")
	parser.add_argument("--client", type=int, help=argparse.SUPPRESS)
	idling.add_option(parser)
	return parser.parse_args()


def run_server(options):
	import torch  # pylint: disable=import-outside-toplevel  # the client does without
	torch.set_num_threads(1)
	torch.manual_seed(options.seed)
	model, answers = build_model(torch), Answers()
	loaded = procself.rss_mib()
	server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), make_handler(torch, model, answers))
	threading.Thread(target=server.serve_forever, daemon=True).start()
	seconds, latencies = serve_bursts(options, server.server_port)
	idling.go_idle(options.idle)
	print(json.dumps({
		"work_s": sum(seconds),
		"requests_per_s": len(latencies) / sum(seconds),
		"p50_ms": percentile(latencies, 0.5),
		"p99_ms": percentile(latencies, 0.99),
		"p999_ms": percentile(latencies, 0.999),
		"loaded_mib": loaded,
		"rss_mib": procself.rss_mib(),
		"peak_mib": procself.peak_mib(),
		"minor_faults": procself.minor_faults(),
		"answers_reused": answers.hits,
	}))
	server.shutdown()


def main():
	options = parse_options()
	if options.client:
		run_client(options)
	else:
		run_server(options)


if __name__ == "__main__":
	main()
