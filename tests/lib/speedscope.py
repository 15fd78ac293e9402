"""Files for speedscope, held against the rules of its file format: src/lib/file-format-spec.ts of github.com/jlfwong/speedscope."""
import json

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
UNITS = ("none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes")


def is_number(value):
	return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_frame(frame):
	assert set(frame) <= {"name", "file", "line", "col"} and isinstance(frame["name"], str), frame
	assert isinstance(frame.get("file", ""), str) and is_number(frame.get("line", 0)) and is_number(frame.get("col", 0)), frame


def check_profile(profile, frames_count):
	assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}, sorted(profile)
	assert profile["type"] == "sampled" and isinstance(profile["name"], str) and profile["unit"] in UNITS
	assert len(profile["samples"]) == len(profile["weights"]) and all(map(is_number, profile["weights"]))
	for sample in profile["samples"]:
		assert all(type(frame) is int and 0 <= frame < frames_count for frame in sample), sample
	assert profile["endValue"] - profile["startValue"] == sum(profile["weights"])


def speedscope_stacks(text, unit):
	"""The stacks of the profile with this unit, innermost frame first, with their weights, once the whole file fits."""
	root = json.loads(text)
	assert root["$schema"] == SCHEMA
	assert set(root) <= {"$schema", "shared", "profiles", "name", "exporter", "activeProfileIndex", "version"}, sorted(root)
	frames = root["shared"]["frames"]
	for frame in frames:
		check_frame(frame)
	for profile in root["profiles"]:
		check_profile(profile, len(frames))
	assert 0 <= root.get("activeProfileIndex", 0) < len(root["profiles"])
	profile = next(profile for profile in root["profiles"] if profile["unit"] == unit)
	return [([frames[at]["name"] for at in reversed(sample)], weight) for sample, weight in zip(profile["samples"], profile["weights"])]
