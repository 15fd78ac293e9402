#!/usr/bin/python3
"""Federated learning in one process, on the CPU: a server and four client threads train a small CNN for some rounds.

Every round the server serialises the model, four clients load it, train, build many small records and answer with
their state; the server averages, keeps 50 records of one client and drops everything else, then waits
for stragglers (--wait). What is resident at the end of that wait is what the process really costs.

Prints one JSON line of figures. MiB are 1048576 bytes.
"""
import argparse
import io
import json
import random
import threading
import time

import idling
import procself

START = time.monotonic()
CLIENTS = 4
LOCAL_STEPS = 2
RECORDS = 20_000
RECORDS_KEPT = 50


def build_model(torch):
	nn = torch.nn
	return nn.Sequential(
		nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(),
		nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
		nn.Flatten(), nn.Linear(64 * 28 * 28, 64), nn.ReLU(), nn.Linear(64, 10))


def model_bytes(model):
	return sum(p.numel() * p.element_size() for p in model.state_dict().values())


def serialise(torch, state):
	buffer = io.BytesIO()
	torch.save(state, buffer)
	return buffer.getvalue()


def train_client(torch, payload, seed, results, index):
	"""One client's round: load what the server sent, two steps, records, answer."""
	torch.set_num_threads(1)  # counted per thread by OpenMP
	chance = random.Random(seed)
	generator = torch.Generator().manual_seed(seed)
	model = build_model(torch)
	model.load_state_dict(torch.load(io.BytesIO(payload)))
	optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
	for _ in range(LOCAL_STEPS):
		batch = chance.randint(8, 32)
		images = torch.randn(batch, 3, 28, 28, generator=generator)
		labels = torch.randint(0, 10, (batch,), generator=generator)
		optimiser.zero_grad()
		loss = torch.nn.functional.cross_entropy(model(images), labels)
		loss.backward()
		optimiser.step()
	records = [{"client": index, "sample": i, "loss": chance.random(), "tag": f"sample-{seed}-{i}"}
		for i in range(RECORDS)]
	results[index] = (model.state_dict(), records, loss.item())


def average(torch, states):
	with torch.no_grad():
		return {name: sum(state[name] for state in states) / len(states) for name in states[0]}


def run_round(torch, model, number, seed, kept):
	"""A whole round; when it returns, all that it made but the model and 50 records is garbage."""
	results = [None] * CLIENTS
	threads = []
	payload = serialise(torch, model.state_dict())
	for index in range(CLIENTS):
		client_seed = seed + number * 1000 + index
		threads.append(threading.Thread(target=train_client, args=(torch, payload, client_seed, results, index)))
	for thread in threads:
		thread.start()
	for thread in threads:
		thread.join()
	model.load_state_dict(average(torch, [state for state, _, _ in results]))
	kept.extend(results[number % CLIENTS][1][:RECORDS_KEPT])
	return sum(loss for _, _, loss in results) / CLIENTS


def emit(options, event, **figures):
	if options.events:
		print(json.dumps({"event": event, "time": time.monotonic(), **figures}), flush=True)


def run_rounds(torch, options, model):
	end_rss, kept, active, loss = [], [], 0.0, 0.0
	for number in range(options.rounds):
		emit(options, "round", number=number + 1)
		begun = time.monotonic()
		loss = run_round(torch, model, number, options.seed, kept)
		if options.trim:
			idling.trim_by_hand()
		active += time.monotonic() - begun
		emit(options, "wait", number=number + 1)
		time.sleep(options.wait)
		end_rss.append(procself.rss_mib())
	return end_rss, active, loss, len(kept)


def parse_options():
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--rounds", type=int, default=12)
	parser.add_argument("--wait", type=float, default=2.0, help="seconds of waiting after each round")
	parser.add_argument("--seed", type=int, default=1)
	parser.add_argument("--trim", action="store_true", help="gc.collect() and malloc_trim(0) at the end of each round")
	parser.add_argument("--events", action="store_true", help="print a JSON line as each round begins and ends")
	idling.add_option(parser)
	return parser.parse_args()


def main():
	options = parse_options()
	import torch  # pylint: disable=import-outside-toplevel  # its cost is the floor that is measured
	import_rss, import_file = procself.rss_mib(), procself.status_mib("RssFile")
	torch.set_num_threads(1)
	torch.manual_seed(options.seed)
	model = build_model(torch)
	size_mib = model_bytes(model) / 2**20
	emit(options, "floor", rss_mib=import_rss + size_mib)
	end_rss, active, loss, kept = run_rounds(torch, options, model)
	last = end_rss[-4:]
	total = time.monotonic() - START
	idling.go_idle(options.idle)
	print(json.dumps({
		"import_rss_mib": import_rss,
		"model_mib": size_mib,
		"floor_mib": import_rss + size_mib,
		"end_rss_mib": end_rss,
		"end_rss_last4_max_mib": max(last),
		"end_over_floor": max(last) / (import_rss + size_mib),
		"peak_mib": procself.peak_mib(),
		"import_file_mib": import_file,
		"end_file_mib": procself.status_mib("RssFile"),
		"active_s": active,
		"total_s": total,
		"own_cpu_s": procself.cpu_s(),
		"work_s": active,
		"minor_faults": procself.minor_faults(),
		"loss": loss,
		"kept_records": kept,
	}))


if __name__ == "__main__":
	main()
