"""mtctl report and mtctl trace: a process or a recording as one page for a ticket, and as a trace for Perfetto."""
import html.parser
import json
import os
import re
import subprocess

import pytest

from mtctl_helpers import MB, NO_PROCESS, NOT_SHIMMED, PYTHON, USAGE
from mtctl_helpers import ctl, fake, plain  # noqa: F401 (fixtures)

SECOND = 10**9
START = 1795347000 * SECOND
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
# The Trace Event Format, as far as events of these phases have it: "Trace Event Format" of Chromium, sections M, C, X and i.
EVENT = {"type": "object", "required": ["ph", "name", "ts", "pid", "tid"], "additionalProperties": False,
         "properties": {"ph": {"enum": ["M", "C", "X", "i"]}, "name": {"type": "string", "minLength": 1}, "cat": {"type": "string"},
                        "ts": {"type": "number", "minimum": 0}, "dur": {"type": "number", "minimum": 0}, "pid": {"type": "integer"},
                        "tid": {"type": "integer"}, "s": {"enum": ["g", "p", "t"]}, "args": {"type": "object"}},
         "allOf": [
	{"if": {"properties": {"ph": {"const": "X"}}}, "then": {"required": ["dur", "cat", "args"]}, "else": {"not": {"required": ["dur"]}}},
	{"if": {"properties": {"ph": {"const": "i"}}}, "then": {"required": ["s"]}, "else": {"not": {"required": ["s"]}}},
	{"if": {"properties": {"ph": {"const": "C"}}},
	 "then": {"required": ["args"], "properties": {"args": {"minProperties": 1, "additionalProperties": {"type": "number"}}}}},
	{"if": {"properties": {"ph": {"const": "M"}}},
	 "then": {"required": ["args"], "properties": {"name": {"enum": ["process_name", "process_labels", "thread_name"]},
	                                               "args": {"minProperties": 1, "additionalProperties": {"type": "string"}}}}}]}
TRACE = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": ["traceEvents"],
         "properties": {"traceEvents": {"type": "array", "items": EVENT}, "displayTimeUnit": {"enum": ["ms", "ns"]},
                        "otherData": {"type": "object"}}}

ENDS = """import time
print('ready', flush=True)
for number in range(3):
	samples = [{'x': i, 'y': str(i)} for i in range(300000)]
	samples = None
	time.sleep(1.2)
"""


class Page(html.parser.HTMLParser):
	"""A page: its elements, the text of its sections, and whatever could load or run something."""

	def __init__(self, text):
		super().__init__()
		self.sections, self.tags, self.active, self.now = {}, [], [], "head"
		self.feed(text)
		self.close()
		self.active += re.findall(r"@import|url\(|expression\(", text)

	def handle_starttag(self, tag, attributes):
		self.tags.append(tag)
		self.now = dict(attributes).get("id") if tag == "section" else "foot" if tag == "footer" else self.now
		if tag in ("script", "iframe", "object", "embed", "img", "link", "base", "form", "a", "use", "image", "foreignobject"):
			self.active.append(tag)
		self.active += [name for name, value in attributes if name.startswith("on") or name in ("src", "href", "srcset", "xlink:href")]

	def handle_data(self, data):
		self.sections[self.now] = self.sections.get(self.now, "") + data


def written(tmp_path, lines, **header):
	file = tmp_path / "made.jsonl"
	first = {"kind": "header", "time_ns": START, "pid": 7, "format": "mtshim-recording", "version": 1, "comm": "python3",
	         "command": "python3 train.py", "host": "here", "kernel": "6.1.0", "machine": "x86_64", "cpus_count": 4,
	         "memory_bytes": 8 << 30, "mtctl_version": "0.1.0", **header}
	file.write_text("".join(json.dumps(line) + "\n" for line in [first, *lines]))
	return file


def sample(second, live_mb, **more):
	return {"kind": "sample", "time_ns": START + int(second * SECOND), "pid": 7, "rss_bytes": int((live_mb + 60) * MB),
	        "rss_anon_bytes": int((live_mb + 30) * MB), "heap_live_bytes": int(live_mb * MB), "heap_dirty_bytes": 10 * MB, **more}


def cleanup(second, number, freed_mb, **more):
	return {"kind": "cleanup", "time_ns": START + int(second * SECOND), "pid": 7, "number": number, "level": "light", "reason": "idle",
	        "rss_before_bytes": 200 * MB, "rss_after_bytes": (200 - freed_mb) * MB, "duration_ns": 2_012_000_000, "gc_wait_ns": 2 * SECOND, **more}


def about(**more):
	settings = [{"name": "gc_rounds", "value": "5", "origin": "environment"}, {"name": "tick_ms", "value": "50", "origin": "default"}]
	return {"kind": "process", "time_ns": START, "pid": 7, "comm": "python3", "command": "python3 train.py", "state": "awake",
	        "shim_version": "0.1.0", "allocator": "jemalloc", "mode": "jemalloc", "settings": settings, "limit_bytes": 1 << 30,
	        "limit_source": "/sys/fs/cgroup/memory.max", "libc_version": "glibc 2.36 (Debian)", "python_version": "3.11", **more}


def leak(seconds=300):
	return [sample(second, 100 + second / 2) for second in range(seconds)]


def whole(done):
	"""The page that a command has printed: nothing in it loads or runs."""
	assert (done.returncode, done.stderr) == (0, "")
	page = Page(done.stdout)
	assert page.active == [] and page.tags.count("svg") == 2 and "default-src 'none'" in done.stdout
	return page


def test_a_recording_becomes_a_page_with_its_verdict_and_all_that_explains_it(ctl, tmp_path):
	lines = [about(), *leak(), cleanup(100.5, 1, 40), cleanup(200.5, 2, 3), {"kind": "round", "time_ns": START + 50 * SECOND, "pid": 7, "number": 3}]

	page = whole(ctl("report", written(tmp_path, lines), "-o", "-"))

	assert list(page.sections) == ["head", "verdict", "memory", "time", "cleanups", "settings", "environment", "foot"]
	assert re.search(r"leak: live memory grows by 0\.5 MB/s", page.sections["verdict"])
	assert "mtctl diagnose 7" not in page.sections["verdict"] and "from the recording alone" in page.sections["verdict"]
	assert "RSS 309.5 MB" in page.sections["memory"] and "249.5 MB" in page.sections["memory"]
	assert "2 cleanups returned 43.0 MB in all and cost 24.0 ms without the page faults after them, the longest 12.0 ms. " \
		"They waited 4000.0 ms" in page.sections["cleanups"]
	assert re.search(r"MT_GC_ROUNDS\s*5\s*environment.*At their defaults\s*MT_TICK_MS=50", page.sections["settings"], re.DOTALL)
	for text in ("glibc 2.36 (Debian)", "3.11", "6.1.0 x86_64", "4 CPUs, 8192.0 MB", "1024.0 MB: /sys/fs/cgroup/memory.max", "jemalloc"):
		assert text in page.sections["environment"]


def test_a_flat_recording_is_healthy_and_a_short_one_is_unknown(ctl, tmp_path):
	flat = whole(ctl("report", written(tmp_path, [about(), *[sample(second, 100) for second in range(300)]]), "-o", "-"))
	short = whole(ctl("report", written(tmp_path, [about(), *leak(3)]), "-o", "-"))

	assert flat.sections["verdict"].strip().startswith("healthy")
	assert "Confidence" in flat.sections["verdict"] and "Confidence" not in short.sections["verdict"]
	assert re.search(r"^\s*unknown: only 2\.0 s were seen", short.sections["verdict"]) and "--for" not in short.sections["verdict"]


def test_what_a_recording_calls_itself_stays_text(ctl, tmp_path):
	evil = about(comm=EVIL[:30], command=EVIL, allocator=EVIL, libc_version=EVIL, limit_source=EVIL, rank=EVIL,
	             settings=[{"name": EVIL, "value": EVIL, "origin": EVIL}, {"name": EVIL, "value": EVIL, "origin": "default"}],
	             devices=[{"ordinal": 0, "name": EVIL, "total_bytes": MB}])
	lines = [evil, *leak(30), sample(31, 100, devices=[{"ordinal": 0, "allocated_bytes": 1, "reserved_bytes": 2}]), cleanup(5, 1, 9, reason=EVIL[:15])]

	page = whole(ctl("report", written(tmp_path, lines, command=EVIL, comm=EVIL, host=EVIL, kernel=EVIL), "-o", "-"))

	for name in ("head", "devices", "settings", "environment"):
		assert "<script>alert(1)" in page.sections[name], "shown as it is"


def test_a_hostile_process_stays_text_and_its_secrets_stay_with_it(fake, plain, ctl):
	environment = dict(plain, MT_API_TOKEN="s3cr3t", DATABASE_PASSWORD="s3cr3t", MALLOC_TOKEN="s3cr3t", PYTHON_TOKEN="s3cr3t",
	                   PYTORCH_CUDA_ALLOC_CONF="<b>max", MT_GC_ROUNDS="4")
	pid = fake(environment, text=EVIL, cuda=EVIL, devices=[{"ordinal": 0, "name": EVIL, "allocated_bytes": MB, "reserved_bytes": MB}],
	           values={"gpu_reserved_bytes": MB, "gpu_allocated_bytes": MB})

	done = ctl("report", pid, "--for=0.3", "-o", "-")

	page = whole(done)
	assert "s3cr3t" not in done.stdout and "TOKEN" not in done.stdout
	assert "<script>alert(1)" in page.sections["environment"] and "<script>alert(1)" in page.sections["settings"]
	assert "PYTORCH_CUDA_ALLOC_CONF<b>max" in page.sections["environment"].replace("\n", "") and "MT_GC_ROUNDS" in page.sections["environment"]
	assert page.sections["environment"].count("\nMT_DIR/") == 1
	assert os.confstr("CS_GNU_LIBC_VERSION") in page.sections["environment"] and "request" in page.sections["cleanups"]


def test_without_o_the_page_has_the_name_of_what_it_shows(mtctl, plain, tmp_path):
	file = written(tmp_path, [about(), *leak(30)])

	done = subprocess.run([mtctl, "report", file], cwd=tmp_path, env=plain, capture_output=True, text=True)

	assert (done.returncode, done.stdout, done.stderr) == (0, "", "mtctl: wrote made.html\n")
	assert (tmp_path / "made.html").stat().st_mode & 0o777 == 0o600


def test_a_script_in_the_present_directory_names_the_process_that_runs_it(mtctl, plain, tmp_path):
	(tmp_path / "gone.py").write_text("import this\n")
	(tmp_path / "empty").touch()

	def code(word):
		return subprocess.run([mtctl, "report", word], cwd=tmp_path, env=plain, capture_output=True).returncode

	assert (code("gone.py"), code("./gone.py"), code("empty")) == (NO_PROCESS, USAGE, USAGE)


def test_a_process_that_is_asleep_has_the_kernels_figures_and_a_hostile_command_line_stays_text(env, spawn, control):
	"""It has no files, and no ring."""
	settings = env(MIN_MB=4096)
	process = spawn([PYTHON, "-c", "print('ready', flush=True); input()", EVIL], settings)
	assert process.stdout.readline() == "ready\n"

	page = whole(control(settings, "report", process.pid, "--for=0.3", "-o", "-"))

	assert "<script>alert(1)</script>" in page.sections["head"] and "<script>alert(1)</script>" in page.sections["environment"]
	assert "Of its parts nothing is known" in page.sections["memory"] and "settings" not in page.sections


def test_a_process_that_ends_meanwhile_has_a_page_of_what_was_seen(env, spawn, control, tmp_path):
	"""The page has what the process itself said: its cleanups, its settings, its memory. It called an awake process asleep, and its
	cleanups none."""
	settings = env(PROFILE=1)
	process = spawn([PYTHON, "-c", ENDS], settings)
	assert process.stdout.readline() == "ready\n"

	page = whole(control(settings, "report", process.pid, "--for", "20s", "-o", "-"))

	returned = [(int(before) - int(after)) / MB for before, after in
	            re.findall(r"cleanup reason=live_drop .* rss_before_bytes=(\d+) rss_after_bytes=(\d+)", process.communicate()[1])]
	assert len(returned) > 1
	count, shown = re.search(r"(\d+) cleanups returned (\S+) MB in all", page.sections["cleanups"]).groups()
	assert int(count) == len(returned) and float(shown) == pytest.approx(sum(returned), abs=0.1 * len(returned))
	times, seconds = re.search(r"Sampled (\d+) times in (\S+) s\. Then the process ended", page.sections["verdict"]).groups()
	assert f"samples{times} in {seconds} s" in page.sections["verdict"] and "asked for nothing" not in page.sections["verdict"]
	assert "the process ended during the diagnosis" in page.sections["verdict"] and "ended before" in page.sections["head"]
	assert re.search(r"Memory at the last look: RSS \S+ MB\s+live", page.sections["memory"]) and "asleep" not in page.sections["memory"]
	assert re.search(r"MT_PROFILE\s*on\s*environment", page.sections["settings"])
	assert re.search(r"libmtshim\.so \d", page.sections["environment"]) and "environment is not known" in page.sections["environment"]


def test_a_process_that_ends_asleep_has_no_cleanups_and_one_with_a_refused_file_may_have_had_some(env, spawn, control, fake, ctl):
	settings = env(MIN_MB=4096)
	process = spawn([PYTHON, "-c", "import time; print('ready', flush=True); time.sleep(3)"], settings)
	assert process.stdout.readline() == "ready\n"

	asleep = whole(control(settings, "report", process.pid, "--for", "20s", "-o", "-"))
	refused = Page(ctl("report", fake(version=1), "--for", "0.3", "-o", "-").stdout)

	assert "nothing is known: asleep" in asleep.sections["memory"] and "none" in asleep.sections["cleanups"]
	assert "nothing is known: " in refused.sections["cleanups"] and "none" not in refused.sections["cleanups"]


def test_wrong_words_are_a_wrong_use(ctl, tmp_path):
	for words in ([], ["1", "2"], ["--for=0", "1"], [tmp_path / "none.jsonl"], ["--of", "1"]):
		assert ctl("report", *words).returncode == USAGE, words
	assert ctl("report", os.getpid(), "-o", "-").returncode == NOT_SHIMMED
	assert ctl("report", "4194304", "-o", "-").returncode == NO_PROCESS
	assert ctl("report", written(tmp_path, leak(30)), "-o", tmp_path / "no" / "x.html").returncode == USAGE
	assert ctl("trace").returncode == USAGE and ctl("trace", tmp_path / "none.jsonl").returncode == USAGE
	assert ctl("trace", written(tmp_path, leak(30)), "-o", "/dev/full").returncode == USAGE


# ---- trace ----

def test_a_recording_is_a_trace_as_the_format_has_it(ctl, tmp_path):
	jsonschema = pytest.importorskip("jsonschema")
	plain_rss = {"kind": "sample", "time_ns": START + 1, "pid": 8, "rss_bytes": 5 * MB}
	lines = [about(rank="3"), plain_rss, sample(1, 100, devices=[{"ordinal": 1, "allocated_bytes": 3 * MB, "reserved_bytes": 5 * MB}]),
	         cleanup(2, 1, 40), {"kind": "round", "time_ns": START + 3 * SECOND, "pid": 7, "number": 3},
	         {"kind": "pressure", "time_ns": START + 4 * SECOND, "pid": 7, "level": "critical"}]
	file = tmp_path / "x.json"

	assert ctl("trace", written(tmp_path, lines, comm=EVIL), "-o", file).returncode == 0

	trace = json.loads(file.read_text())
	jsonschema.Draft7Validator(TRACE).validate(trace)
	by = {phase: [event for event in trace["traceEvents"] if event["ph"] == phase] for phase in "MCXi"}
	counters = {(event["name"], event["ts"]): event["args"] for event in by["C"]}
	assert counters == {("RSS", 0): {"rss_bytes": 5 * MB}, ("GPU 1", 999999.999): {"allocated_bytes": 3 * MB, "kept_bytes": 2 * MB},
	                    ("memory", 999999.999): {"live_bytes": 100 * MB, "reusable_bytes": 10 * MB, "files_bytes": 30 * MB, "other_bytes": 20 * MB}}
	(done,) = by["X"]
	assert (done["ts"], done["dur"], done["name"]) == (1999999.999, 2_012_000, "light cleanup")
	assert done["args"] == {"number": 1, "reason": "idle", "freed_bytes": 40 * MB, "rss_before_bytes": 200 * MB, "rss_after_bytes": 160 * MB,
	                        "cost_ns": 12_000_000, "gc_wait_ns": 2 * SECOND}
	assert [event["name"] for event in by["i"]] == ["round 3", "pressure: critical"]
	names = {(event["name"], event["pid"], event["tid"]): event["args"] for event in by["M"]}
	assert names["thread_name", 7, done["tid"]] == {"name": "cleanups"} and names["process_name", 7, 0] == {"name": "python3"}
	assert names["process_labels", 7, 0] == {"labels": "python3 train.py, rank 3"}
	assert trace["otherData"]["start_time_ns"] == START + 1


def test_the_ring_of_a_process_is_a_trace_on_stdout(fake, ctl):
	jsonschema = pytest.importorskip("jsonschema")
	pid = fake(text=EVIL)
	ctl("trim", pid)

	trace = json.loads(ctl("trace", pid).stdout)

	jsonschema.Draft7Validator(TRACE).validate(trace)
	assert {event["ph"] for event in trace["traceEvents"]} == {"M", "C", "X"}
