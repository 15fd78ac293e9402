"""What a command prints with --json, held against docs/json.schema.json where python3-jsonschema is installed."""
import functools
import json

from places import ROOT

try:
	import jsonschema
except ImportError:
	jsonschema = None

SCHEMA = json.loads((ROOT / "docs" / "json.schema.json").read_text())


@functools.cache
def _validator(command):
	return jsonschema.Draft7Validator({**SCHEMA, "$ref": f"#/definitions/{command}"})


def fits(command, text):
	"""Returns the object that `text` is. It has to be as the definition of the schema with this name says."""
	seen = json.loads(text)
	if jsonschema:
		_validator(command).validate(seen)
	return seen
