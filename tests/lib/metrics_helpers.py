"""Metrics as Prometheus reads them: its own parsers, and promtool."""
import subprocess

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_old


def families(text, parse=parse_open):
	"""Returns families by name. The parser refuses text that is not exactly OpenMetrics."""
	listed = list(parse(text))
	found = {family.name: family for family in listed}
	assert len(found) == len(listed), "a family is there twice"
	return found


def samples(text, pid=None, parse=parse_open):
	"""Returns values by name and labels (a frozen set); with a pid only those of that process."""
	return {(sample.name, frozenset(sample.labels.items())): sample.value for family in parse(text) for sample in family.samples
	        if pid is None or sample.labels.get("pid") == str(pid)}


def value(text, name, /, **labels):
	"""Returns the one sample of this name that has at least these labels."""
	wanted = {(label, str(word)) for label, word in labels.items()}
	found = [number for (sample, those), number in samples(text).items() if sample == name and wanted <= those]
	assert len(found) == 1, f"{name}{labels}: {found}"
	return found[0]


def lint(text):
	"""Returns what promtool prints about the older format."""
	done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=30)
	return done.returncode, done.stdout + done.stderr
