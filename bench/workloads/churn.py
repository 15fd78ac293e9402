#!/usr/bin/python3
"""A service that gets orders as JSON and answers with tables as JSON: parsed, pandas frames built, joined, grouped, sorted.

Batches are of 1,000 to 100,000 orders, most of them small; the last 8 results are kept. Some of the columns are numbers,
some are strings. --trim: the program collects and calls malloc_trim(0) after each batch.
Prints one JSON line of figures. MiB are 1048576 bytes.
"""
import argparse
import collections
import json
import time

import idling
import numpy
import pandas
import procself

RESULTS_KEPT = 8
CUSTOMERS = 20_000
COUNTRIES = ("Austria", "Brazil", "Canada", "Denmark", "Estonia", "France", "Ghana", "Hungary", "India", "Japan")
PRODUCTS = [f"{colour} {thing} no. {number}" for colour in ("red", "blue", "white") for thing in ("chair", "lamp", "desk")
	for number in range(40)]


def make_customers(chance):
	return pandas.DataFrame({
		"customer": [f"customer-{number:06d}" for number in range(CUSTOMERS)],
		"country": chance.choice(COUNTRIES, CUSTOMERS),
		"since": chance.integers(1990, 2024, CUSTOMERS),
		"discount": chance.random(CUSTOMERS) * 0.2,
	})


def receive(chance, count):
	"""A document as it comes over the wire."""
	customers = chance.integers(0, CUSTOMERS, count).tolist()
	products = chance.integers(0, len(PRODUCTS), count).tolist()
	pieces = chance.integers(1, 20, count).tolist()
	prices = (chance.random(count) * 100).round(2).tolist()
	days = chance.integers(0, 365, count).tolist()
	return json.dumps({"orders": [{"id": f"order-{number:08d}", "customer": f"customer-{customer:06d}",
		"product": PRODUCTS[product], "pieces": piece, "price": price, "day": day, "note": "gift" if day % 7 == 0 else None}
		for number, (customer, product, piece, price, day) in enumerate(zip(customers, products, pieces, prices, days))]})


def answer(document, customers):
	"""What each product and country brought, best first, and the best customers, as JSON."""
	orders = pandas.DataFrame(json.loads(document)["orders"])
	joined = orders.merge(customers, on="customer", how="left")
	joined["value"] = joined["pieces"] * joined["price"] * (1 - joined["discount"])
	joined["month"] = joined["day"] // 31
	joined["label"] = joined["country"] + "/" + joined["product"]
	by_label = joined.groupby(["label", "month"]).agg(value=("value", "sum"), pieces=("pieces", "sum"), orders=("id", "count"))
	best = joined.groupby("customer")["value"].sum().sort_values(ascending=False).head(100)
	gifts = joined[joined["note"] == "gift"].sort_values(["country", "value"], ascending=[True, False])
	return json.dumps({
		"labels": by_label.reset_index().sort_values("value", ascending=False).head(2000).to_dict("records"),
		"customers": best.round(2).to_dict(),
		"gifts": json.loads(gifts[["id", "country", "value"]].head(1000).to_json(orient="records")),
	}), joined


def run_batches(options, chance, customers):
	"""Returns the seconds of work, the orders, and how much was answered."""
	kept = collections.deque(maxlen=RESULTS_KEPT)
	orders = characters = 0
	begun = time.monotonic()
	for _ in range(options.batches):
		count = int(min(100_000, 1000 + 3000 * chance.pareto(0.9)))
		text, frame = answer(receive(chance, count), customers)
		kept.append((text, frame[["id", "value"]].tail(1000).copy()))
		del frame
		if options.trim:
			idling.trim_by_hand()
		orders += count
		characters += len(text)
	return time.monotonic() - begun, orders, characters


def main():
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--batches", type=int, default=40)
	parser.add_argument("--seed", type=int, default=1)
	parser.add_argument("--trim", action="store_true", help="gc.collect() and malloc_trim(0) after each batch")
	idling.add_option(parser)
	options = parser.parse_args()
	chance = numpy.random.default_rng(options.seed)
	customers = make_customers(chance)
	loaded = procself.rss_mib()
	work, orders, characters = run_batches(options, chance, customers)
	idling.go_idle(options.idle)
	print(json.dumps({
		"work_s": work,
		"orders_per_s": orders / work,
		"loaded_mib": loaded,
		"rss_mib": procself.rss_mib(),
		"peak_mib": procself.peak_mib(),
		"minor_faults": procself.minor_faults(),
		"answered_mib": characters / 2**20,
	}))


if __name__ == "__main__":
	main()
