"""The suite's memory. Each run is one line of state.jsonl the moment it has ended, so that a suite that was stopped goes on
where it stopped; at the end all runs become one result file."""
import fcntl
import json
import os


class State:
	"""The first line says what is run, where and of which commit; each other line is the record of a run."""
	def __init__(self, folder):
		self.folder, self.path, self.lock = folder, os.path.join(folder, "state.jsonl"), None

	def claim(self):
		"""Two suites at once would disturb each other, and mix their records. Ends with the process."""
		if self.lock:
			return
		os.makedirs(self.folder, exist_ok=True)
		self.lock = open(os.path.join(self.folder, "lock"), "w", encoding="ascii")  # pylint: disable=consider-using-with
		try:
			fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
		except BlockingIOError:
			raise SystemExit(f"another suite is running ({self.folder})") from None

	def begin(self, header):
		"""A new one. What an earlier suite left is kept as .old."""
		if os.path.exists(self.path):
			os.replace(self.path, self.path + ".old")
		self.append(header)

	def append(self, record):
		with open(self.path, "a", encoding="utf-8") as out:
			out.write(json.dumps(record, separators=(",", ":")) + "\n")

	def load(self):
		"""(header, records). A last line that was cut off is dropped, from the file too."""
		try:
			with open(self.path, encoding="utf-8") as file:
				lines = file.readlines()
		except FileNotFoundError:
			raise SystemExit(f"nothing to resume: {self.path} does not exist") from None
		if lines and not lines[-1].endswith("\n"):
			lines.pop()
			with open(self.path, "w", encoding="utf-8") as out:
				out.writelines(lines)
		if not lines:
			raise SystemExit(f"nothing to resume: {self.path} is empty")
		header, *records = map(json.loads, lines)
		return header, records


def key_of(record):
	return record["workload"], record["candidate"], record["number"]


def by_outcome(records):
	"""(runs that gave figures, runs that failed). Of a run that was made again the later record counts."""
	last = {key_of(record): record for record in records}
	made = [record for record in last.values() if "figures" in record]
	return made, [record for record in last.values() if "figures" not in record]
