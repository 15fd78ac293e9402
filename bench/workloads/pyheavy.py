#!/usr/bin/python3
"""Python's own objects, in the kinds that Python's benchmarks come in: what decides whether PYTHONMALLOC=malloc pays.

Each kind is a function that does a fixed piece of work; none of them keeps anything. s_NAME is the time of
one in s, work_s that of all. What is made is mostly small: dicts, lists, tuples, strings, floats, instances, frames.
--only NAME,NAME runs some of them, --scale S does S times the work.
Prints one JSON line of figures. MiB are 1048576 bytes.
"""
import argparse
import gc
import io
import json
import math
import pickle
import random
import re
import time

import idling
import procself


def dicts(chance, scale):
	"""Counting, grouping, and a large table that grows and shrinks."""
	counts, groups = {}, {}
	for number in range(int(300_000 * scale)):
		key = f"key-{chance.randrange(200_000)}"
		counts[key] = counts.get(key, 0) + 1
		groups.setdefault(number % 997, {})[key] = number
	for key in list(counts)[::2]:
		del counts[key]
	return len(counts) + sum(len(group) for group in groups.values())


def sorting(chance, scale):
	"""Lists of tuples, by key functions and by themselves."""
	rows = [(chance.random(), chance.randrange(1000), str(chance.randrange(10**9))) for _ in range(int(110_000 * scale))]
	by_number = sorted(rows, key=lambda row: (row[1], row[2]))
	rows.sort()
	return by_number[0][1] + len([a for a, b in zip(rows, by_number) if a is b])


class Point:
	def __init__(self, x, y):
		self.x = x
		self.y = y

	def moved(self, dx, dy):
		return Point(self.x + dx, self.y + dy)

	def length(self):
		return math.hypot(self.x, self.y)


class Weighed(Point):
	__slots__ = ("weight",)

	def __init__(self, x, y, weight):
		super().__init__(x, y)
		self.weight = weight

	def length(self):
		return super().length() * self.weight


def objects(_chance, scale):
	"""Instances that come and go, attributes, methods, inheritance."""
	total, field = 0.0, [Weighed(number, number + 1, 0.5) for number in range(20_000)]
	for step in range(max(1, int(8 * scale))):
		moved = [point.moved(step, -step) for point in field]
		total += sum(point.length() for point in moved) + sum(point.length() for point in field)
	return total


def strings(chance, scale):
	"""Splitting, joining, formatting, replacing, a file in memory."""
	words = ["".join(chance.choice("abcdefghijklmnop") for _ in range(chance.randint(2, 12))) for _ in range(2000)]
	out = io.StringIO()
	for number in range(int(9_000 * scale)):
		line = " ".join(words[(number * 7 + at) % 2000] for at in range(20))
		parts = [part.title() for part in line.replace("a", "ae").split() if not part.startswith("b")]
		out.write(f"{number:06d} {','.join(parts)} {len(line):>5}\n")
	return len(out.getvalue().encode())


def documents(chance, scale):
	"""JSON, both ways: nested, small and large."""
	document = {"rows": [{"id": number, "name": f"row {number}", "values": [chance.random() for _ in range(5)],
		"tags": {"odd": bool(number % 2), "none": None}} for number in range(22_000)]}
	total = 0
	for _ in range(max(1, int(2 * scale))):
		text = json.dumps(document)
		total += len(json.loads(text)["rows"]) + len(text)
	return total


def planets(_chance, scale):
	"""Floats by the million, none of which lives long: bodies that attract each other."""
	bodies = [[math.cos(n) * (n + 1), math.sin(n) * (n + 1), n / 10, 0.0, 0.1 * n, 0.0, 1.0 / (n + 1)] for n in range(5)]
	pairs = [(first, second) for at, first in enumerate(bodies) for second in bodies[at + 1:]]
	for _ in range(int(42_000 * scale)):
		for first, second in pairs:
			dx, dy, dz = first[0] - second[0], first[1] - second[1], first[2] - second[2]
			pull = 0.001 / ((dx * dx + dy * dy + dz * dz + 0.01) ** 1.5)
			first[3] -= dx * second[6] * pull
			first[4] -= dy * second[6] * pull
			first[5] -= dz * second[6] * pull
			second[3] += dx * first[6] * pull
			second[4] += dy * first[6] * pull
			second[5] += dz * first[6] * pull
		for body in bodies:
			body[0] += 0.001 * body[3]
			body[1] += 0.001 * body[4]
			body[2] += 0.001 * body[5]
	return sum(body[0] for body in bodies)


def flows(_chance, scale):
	"""Generators, comprehensions, sets, unpacking."""
	def numbers(limit):
		for number in range(limit):
			yield number, number * number % 1013

	total = 0
	for _ in range(max(1, int(2 * scale))):
		pairs = [(b, a) for a, b in numbers(250_000) if a % 3]
		seen = {b for b, _ in pairs}
		table = {a: (b, a) for b, a in pairs}
		total += len(seen) + len(table) + sum(first for first, *_ in table.values())
	return total


def patterns(chance, scale):
	"""Regular expressions over the lines of a log."""
	line = re.compile(r"(?P<host>[\d.]+) - (?P<user>\w+) \[(?P<when>[^]]+)\] \"(?P<what>\w+) (?P<path>[^ ]+)\" (?P<code>\d{3})")
	word = re.compile(r"[a-z]+|\d+")
	lines = [f'10.0.{chance.randrange(256)}.{chance.randrange(256)} - user{number % 50} [21/Nov/2026:{number % 24:02d}:00:00] '
		f'"GET /path/{number % 999}/index.html" {chance.choice((200, 304, 404))}' for number in range(5_000)]
	total = 0
	for _ in range(int(8 * scale)):
		for text in lines:
			found = line.match(text).groupdict()
			total += len(found["path"]) + len(word.findall(text))
	return total


class Tree:
	__slots__ = ("left", "right")

	def __init__(self, depth):
		self.left = Tree(depth - 1) if depth else None
		self.right = Tree(depth - 1) if depth else None

	def count(self):
		return 1 + (self.left.count() + self.right.count() if self.left else 0)


def trees(_chance, scale):
	"""Binary trees: one that stays, many that go; recursion."""
	stays = Tree(17)
	gone = sum(Tree(depth).count() for depth in (4, 8, 12, 14) for _ in range(int(2 ** (16 - depth) * scale * 0.6)))
	return stays.count() + gone


def pickles(chance, scale):
	"""Objects to bytes and back."""
	rows = [{"id": number, "at": (chance.random(), chance.random()), "names": [f"n{number}", f"m{number % 10}"],
		"point": Point(number, -number)} for number in range(50_000)]
	total = 0
	for _ in range(max(1, int(1 * scale))):
		data = pickle.dumps(rows)
		total += len(pickle.loads(data)) + len(data)
	return total


KINDS = (dicts, sorting, objects, strings, documents, planets, flows, patterns, trees, pickles)


def main():
	names = [kind.__name__ for kind in KINDS]
	parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
	parser.add_argument("--only", type=lambda text: text.split(","), default=names)
	parser.add_argument("--scale", type=float, default=1.0)
	parser.add_argument("--seed", type=int, default=1)
	idling.add_option(parser)
	options = parser.parse_args()
	figures, results = {"work_s": 0.0}, []
	for kind in (kind for kind in KINDS if kind.__name__ in options.only):
		chance = random.Random(options.seed)
		gc.collect()
		begun = time.perf_counter()
		results.append(kind(chance, options.scale))
		figures[f"s_{kind.__name__}"] = time.perf_counter() - begun
		figures["work_s"] += figures[f"s_{kind.__name__}"]
	idling.go_idle(options.idle)
	figures.update(rss_mib=procself.rss_mib(), peak_mib=procself.peak_mib(), minor_faults=procself.minor_faults(),
		checksum=float(sum(results)))
	print(json.dumps(figures))


if __name__ == "__main__":
	main()
