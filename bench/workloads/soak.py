#!/usr/bin/python3
"""A federated-learning server over many rounds, all in one process, on the CPU: 100 clients, 100 rounds.

Every round the server serialises a small CNN, a fifth of the clients train on data of their own (from 24 to 800
images; each client always has the same), eight at a time in threads that live for the round, and answer with serialised
states and with metrics; the server averages by numbers of images, evaluates on more images the more came together,
and keeps what servers keep, all of it bounded: the last 3 models, the last 5 metrics of each client, the last
state that each client sent. --method fedprox adds the proximal term, scaffold the control variates, which live as long
as their client.

RSS is read at each round's end, after a pause (--wait) that stands for waiting for the others: 2 hours of rounds are
pressed into a few minutes by leaving the rest of it out. Prints one JSON line of figures; slope_mb_a_round is the least
squares slope of RSS over the last half of the rounds, in MB (1000000 bytes).
"""
import argparse
import collections
import concurrent.futures
import ctypes
import dataclasses
import io
import json
import random
import statistics
import time

import procself
from fl_rounds import START, emit, model_bytes, serialise

CLIENTS = 100
CLIENTS_A_ROUND = 20
THREADS = 8
BATCH = 32
EVALUATION_STEP = 64
LEARNING_RATE = 0.02
PROXIMAL = 0.01
MODELS_KEPT = 3
METRICS_KEPT = 5
METHODS = ("fedavg", "fedprox", "scaffold")


@dataclasses.dataclass
class Client:
	"""What outlives a round of a client, on whichever side of the wire."""
	number: int
	images: int                      # in its data set
	control: dict | None = None      # SCAFFOLD's c_i
	sent: bytes = b""                # the last state that it sent
	metrics: collections.deque = dataclasses.field(default_factory=lambda: collections.deque(maxlen=METRICS_KEPT))


def make_clients(seed):
	"""Few clients have much, many have little."""
	chance = random.Random(seed)
	return [Client(number, int(min(800, 24 * chance.paretovariate(0.7)))) for number in range(CLIENTS)]


def build_model(torch):
	nn = torch.nn
	return nn.Sequential(
		nn.Conv2d(1, 8, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
		nn.Conv2d(8, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
		nn.Flatten(), nn.Linear(16 * 7 * 7, 96), nn.ReLU(), nn.Linear(96, 10))


def zeros_like(torch, state):
	return {name: torch.zeros_like(value) for name, value in state.items()}


def step_client(torch, model, batch, method, start, correction):
	"""One step of SGD with what the method adds to the gradient."""
	images, labels = batch
	model.zero_grad()
	loss = torch.nn.functional.cross_entropy(model(images), labels)
	loss.backward()
	with torch.no_grad():
		for name, parameter in model.named_parameters():
			gradient = parameter.grad
			if method == "fedprox":
				gradient = gradient + PROXIMAL * (parameter - start[name])
			elif method == "scaffold":
				gradient = gradient + correction[name]
			parameter -= LEARNING_RATE * gradient
	return loss.item()


def train(torch, client, payload, method, seed):
	"""A client's round, from bytes to bytes; its data set is loaded for it and dropped with it."""
	torch.set_num_threads(1)  # counted per thread by OpenMP
	generator = torch.Generator().manual_seed(seed)
	order = torch.load(io.BytesIO(payload))
	model = build_model(torch)
	model.load_state_dict(order["model"])
	images = torch.randn(client.images, 1, 28, 28, generator=generator)
	labels = torch.randint(0, 10, (client.images,), generator=generator)
	correction = None
	if method == "scaffold":
		own = client.control or zeros_like(torch, order["model"])
		correction = {name: order["control"][name] - value for name, value in own.items()}
	steps = []
	for begin in range(0, client.images, BATCH):
		batch = images[begin:begin + BATCH], labels[begin:begin + BATCH]
		loss = step_client(torch, model, batch, method, order["model"], correction)
		steps.append({"client": client.number, "step": len(steps), "loss": loss, "tag": f"{seed}-{begin}"})
	answer = {"model": model.state_dict()}
	if method == "scaffold":
		scale = 1 / (len(steps) * LEARNING_RATE)
		renewed = {name: (order["model"][name] - value) * scale - correction[name]
			for name, value in answer["model"].items()}
		answer["control"] = {name: value - own[name] for name, value in renewed.items()}
		client.control = renewed
	return serialise(torch, answer), steps


def average(states, weights):
	whole = sum(weights)
	return {name: sum(state[name] * (weight / whole) for state, weight in zip(states, weights)) for name in states[0]}


class Server:
	def __init__(self, torch, method, seed):
		self.torch, self.method = torch, method
		self.chance = random.Random(seed)
		self.clients = make_clients(seed)
		self.model = build_model(torch)
		self.control = zeros_like(torch, self.model.state_dict()) if method == "scaffold" else None
		self.models = collections.deque(maxlen=MODELS_KEPT)
		self.losses = collections.deque(maxlen=METRICS_KEPT)

	def payload(self):
		order = {"model": self.model.state_dict()}
		if self.control:
			order["control"] = self.control
		return serialise(self.torch, order)

	def train_clients(self, chosen, number):
		payload = self.payload()
		with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
			tasks = [pool.submit(train, self.torch, client, payload, self.method, number * CLIENTS + client.number)
				for client in chosen]
			for client, task in zip(chosen, tasks):
				client.sent, steps = task.result()
				client.metrics.append({"round": number, "steps": steps[-1:], "loss": steps[-1]["loss"]})
		self.models.append(payload)

	def aggregate(self, chosen):
		with self.torch.no_grad():
			answers = [self.torch.load(io.BytesIO(client.sent)) for client in chosen]
			weights = [client.images for client in chosen]
			self.model.load_state_dict(average([answer["model"] for answer in answers], weights))
			if self.control:
				moved = average([answer["control"] for answer in answers], [1] * len(answers))
				share = len(chosen) / CLIENTS
				self.control = {name: value + share * moved[name] for name, value in self.control.items()}

	def evaluate(self, images):
		"""All at once, in steps of 64: oneDNN keeps what it has compiled for each shape that it was given."""
		torch, images = self.torch, images // EVALUATION_STEP * EVALUATION_STEP
		with torch.no_grad():
			loss = torch.nn.functional.cross_entropy(self.model(torch.randn(images, 1, 28, 28)),
				torch.randint(0, 10, (images,)))
		self.losses.append(loss.item())

	def run_round(self, number):
		chosen = self.chance.sample(self.clients, CLIENTS_A_ROUND)
		self.train_clients(chosen, number)
		self.aggregate(chosen)
		self.evaluate(EVALUATION_STEP + sum(client.images for client in chosen) // 4)


def slope(values):
	"""Theil and Sen, per step: the median over all pairs. RSS at a round's end is one of two values, with that round's purge or
	just before it; a few of the second kind say nothing of a trend, and a least-squares line follows them."""
	return statistics.median((values[j] - values[i]) / (j - i) for j in range(len(values)) for i in range(j))


def least_squares(values):
	middle, mean = (len(values) - 1) / 2, sum(values) / len(values)
	return sum((x - middle) * (y - mean) for x, y in enumerate(values)) / sum((x - middle) ** 2 for x in range(len(values)))


def find_mark():
	"""mt_round() of the shim, where there is one."""
	return getattr(ctypes.CDLL(None), "mt_round", lambda: None)


def run_rounds(server, options):
	mark = find_mark() if options.mark else lambda: None
	rss = []
	for number in range(options.rounds):
		emit(options, "round", number=number + 1)
		server.run_round(number)
		mark()
		emit(options, "wait", number=number + 1)
		time.sleep(options.wait)
		rss.append(procself.rss_mib())
	return rss


def parse_options():
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--method", choices=METHODS, default="fedavg")
	parser.add_argument("--rounds", type=int, default=100)
	parser.add_argument("--wait", type=float, default=1.0, help="seconds of waiting after each round")
	parser.add_argument("--mark", action="store_true", help="call mt_round() at the end of each round")
	parser.add_argument("--quick", action="store_true", help="a minute of it: 24 rounds, 0.8 s between them")
	parser.add_argument("--seed", type=int, default=1)
	parser.add_argument("--events", action="store_true", help="print a JSON line as each round begins and ends")
	options = parser.parse_args()
	if options.quick:
		options.rounds, options.wait = 24, 0.8
	return options


def main():
	options = parse_options()
	import torch  # pylint: disable=import-outside-toplevel  # its cost is the floor
	floor, import_file = procself.rss_mib(), procself.status_mib("RssFile")
	torch.set_num_threads(1)
	torch.manual_seed(options.seed)
	server = Server(torch, options.method, options.seed)
	rss = run_rounds(server, options)
	half = rss[len(rss) // 2:]
	print(json.dumps({
		"method": options.method,
		"model_mib": model_bytes(server.model) / 2**20,
		"floor_mib": floor,
		"end_rss_mib": rss,
		"last_rss_mib": rss[-1],
		"half_rss_mib": half[0],
		"half_rss_max_mib": max(half),
		"slope_mb_a_round": slope(half) * 2**20 / 1e6,
		"least_squares_mb_a_round": least_squares(half) * 2**20 / 1e6,
		"peak_mib": procself.peak_mib(),
		"import_file_mib": import_file,
		"end_file_mib": procself.status_mib("RssFile"),
		"total_s": time.monotonic() - START,
		"loss": server.losses[-1],
	}))


if __name__ == "__main__":
	main()
