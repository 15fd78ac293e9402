"""Metrics as Prometheus reads them: the text by its own parsers, and what promtool says of it."""
import subprocess

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_old


def families(text, parse=parse_open):
	"""Families by name; the parser refuses what is not OpenMetrics to the letter."""
	listed = list(parse(text))
	found = {family.name: family for family in listed}
	assert len(found) == len(listed), "a family is there twice"
	return found


def samples(text, pid=None, parse=parse_open):
	"""Values by name and labels, as a frozen set; those of one process alone where a pid is given."""
	return {(sample.name, frozenset(sample.labels.items())): sample.value for family in parse(text) for sample in family.samples
	        if pid is None or sample.labels.get("pid") == str(pid)}


def value(text, name, /, **labels):
	"""The one sample of this name that has these labels, and maybe others."""
	wanted = {(label, str(word)) for label, word in labels.items()}
	found = [number for (sample, those), number in samples(text).items() if sample == name and wanted <= those]
	assert len(found) == 1, f"{name}{labels}: {found}"
	return found[0]


def lint(text):
	"""What promtool has to say of the older format."""
	done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=30)
	return done.returncode, done.stdout + done.stderr
