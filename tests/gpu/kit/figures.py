"""`run figures`: bench/gpu/run in the time that there is; its tables are what is said of it."""
import json
import os
import subprocess
import sys

from gpu_machine import ROOT

PARTS = ("pairs", "giveback", "rescue", "resnet", "transformer", "mixes")
DEFAULT = PARTS[:-1]
END_S = 20  # for what is under way when the time of the bench is over


def run(machine, result, wanted):
	parts = [part for part in PARTS if wanted(part) and (part in DEFAULT or not wanted(""))]
	file = result.path + ".bench.json"
	command = [sys.executable, ROOT / "bench" / "gpu" / "run", "--build", machine.build, "--only", ",".join(parts), "--json", file,
	           "--seconds", f"{max(1.0, machine.left() - END_S):.0f}", "--python", machine.python]
	command += ["--fake", machine.fake] if machine.fake else []
	process = machine.start(command, machine.bare(), stdin=subprocess.DEVNULL)
	try:
		text, _ = process.communicate(timeout=max(1.0, machine.left()))
	except subprocess.TimeoutExpired:
		process.terminate()  # it ends what it has started
		text = ""
		try:
			text, _ = process.communicate(timeout=5)
		except subprocess.TimeoutExpired:
			pass
	finally:
		machine.kill(process)
	record = json.loads(open(file, encoding="utf-8").read()) if os.path.exists(file) else {"failed": {}, "runs": {}, "skipped": {}, "cut": []}
	add_rows(result, record, process.returncode)
	return text


def add_rows(result, record, status):
	"""What the file has, in the words of the other commands."""
	for label in record["runs"]:
		result.add({"name": label, "way": "bench", "outcome": "passed", "seconds": 0.0, "text": "", "figures": record["runs"][label]})
	for outcome, found in (("skipped", record["skipped"]), ("FAILED", record["failed"])):
		for name, reason in found.items():
			result.add({"name": name, "way": "bench", "outcome": outcome, "seconds": 0.0, "text": str(reason)})
	for name in record["cut"]:
		result.add({"name": name, "way": "bench", "outcome": "cut", "seconds": 0.0, "text": "no time left"})
	for bound in record.get("bounds", []):
		word = {True: "passed", False: "FAILED", None: "skipped"}[bound["holds"]]
		result.add({"name": "bound", "way": "bench", "outcome": word, "seconds": 0.0, "text": f"{bound['text']}: {bound['value']} (at most {bound['bound']})"})
	if not record["runs"] and not record["failed"]:
		result.add({"name": "bench/gpu/run", "way": "bench", "outcome": "FAILED", "seconds": 0.0, "text": f"exit status {status}, no figures"})
