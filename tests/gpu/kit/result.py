"""What one command of the kit has found so far: a file of JSON that is whole after each row, and the table at the end."""
import json
import os
import threading
import time

from gpu_machine import SKIPPED, Cut

WORDS = ("passed", "FAILED", "skipped", "cut")


class Skip(Exception):
	"""It cannot be tried here, and that says nothing of the shim."""


class Failure(Exception):
	pass


class Result:
	def __init__(self, folder, mode, about):
		self.path, self.about, self.rows, self.lock = os.path.join(folder, mode), about, [], threading.RLock()
		self.mode, self.begin = mode, time.monotonic()

	def take(self, name, way, function):
		"""One row: function returns a text, or a text and figures; it raises Skip, Failure or Cut."""
		begin, figures = time.monotonic(), {}
		try:
			said = function()
			word, (text, figures) = "passed", said if isinstance(said, tuple) else (said or "", {})
		except Skip as reason:
			word, text = "skipped", str(reason)
		except Cut as reason:
			word, text = "cut", str(reason)
		except Exception as error:  # pylint: disable=broad-except
			word, text = "FAILED", str(error) if isinstance(error, Failure) else f"{type(error).__name__}: {error}"
		row = {"name": name, "way": way, "outcome": word, "seconds": round(time.monotonic() - begin, 2), "text": text[-3000:]}
		self.add(row | ({"figures": figures} if figures else {}))

	def add(self, row):
		with self.lock:
			self.rows.append(row)
			self.save()
		print(f"{row['outcome']:8}{row['name']:30} {row['way']:11} {row['seconds']:6.1f} s  {row['text']}".rstrip(), flush=True)

	def save(self):
		with open(self.path + ".json.new", "w", encoding="utf-8") as file:
			json.dump({"mode": self.mode, **self.about, "seconds": round(time.monotonic() - self.begin, 1), "rows": self.rows}, file, indent=1)
			file.write("\n")
		os.replace(self.path + ".json.new", self.path + ".json")

	def count(self, word):
		return sum(row["outcome"] == word for row in self.rows)

	def finish(self, said=""):
		"""said: what the mode itself has to say. Prints it and the table, on stdout and into a file. Returns the exit status."""
		with self.lock:
			self.save()
			text = "\n".join([head_of(self.about), "", *([said, ""] if said else []), table(self.rows), "", self.closing()])
		print("\n" + text, flush=True)
		with open(self.path + ".txt", "w", encoding="utf-8") as file:
			file.write(text + "\n")
		if self.count("FAILED") or self.count("cut"):
			return 1
		return 0 if self.count("passed") else SKIPPED

	def closing(self):
		cut = self.count("cut")
		return f"{self.count('passed')} passed, {self.count('FAILED')} failed, {self.count('skipped')} skipped" + (f", {cut} cut" if cut else "")


def head_of(about):
	return f"{about['date']}  commit {about['commit']}  {about['device']}  driver {about['driver']}"


def table(rows):
	"""Names down, ways across; below it each reason why something has not passed."""
	ways, names = list(dict.fromkeys(row["way"] for row in rows)), list(dict.fromkeys(row["name"] for row in rows))
	cells = {(row["name"], row["way"]): row["outcome"] for row in rows}
	width = max(map(len, names), default=0)
	lines = [" ".join(["".ljust(width), *(way.ljust(11) for way in ways)]).rstrip()]
	lines += [" ".join([name.ljust(width), *(cells.get((name, way), "").ljust(11) for way in ways)]).rstrip() for name in names]
	reasons = {}
	for row in rows:
		if row["outcome"] != "passed":
			said = " / ".join(row["text"].splitlines()[:2])[:200]
			reasons.setdefault((row["outcome"], said), []).append(f"{row['name']} {row['way']}")
	return "\n".join([*lines, "", *(f"{word}: {said} ({', '.join(whose[:4])}{f' and {len(whose) - 4} more' if len(whose) > 4 else ''})"
	                                for (word, said), whose in reasons.items())])
