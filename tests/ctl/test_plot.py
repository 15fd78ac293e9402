"""mtctl record, plot and compare: what is written down, and what is in the pictures (their content, not their pixels)."""
import json
import os
import re
import signal
import struct
import subprocess
import time
import xml.etree.ElementTree

import pytest

from json_schema import fits
from mtctl_helpers import MB, NO_PROCESS, NOT_SHIMMED, PYTHON, USAGE
from mtctl_helpers import ctl, fake, plain  # noqa: F401 (fixtures)

SVG = "{http://www.w3.org/2000/svg}"
SECOND = 10**9
START = 1795347000 * SECOND

# Holds 80 MB for a while, lets it go, says that a round has ended, and ends with 3.
HOARD = """
import ctypes, sys, time
shim = ctypes.CDLL(None)
for number in range(2):
	held = [bytes(5000) + bytes([i % 250]) for i in range(16000)]
	time.sleep(0.8)
	held = None
	if hasattr(shim, "mt_trim"):
		shim.mt_trim(1)
		shim.mt_round()
	time.sleep(0.3)
sys.exit(3)
"""


@pytest.fixture
def record(mtctl, plain, shim, run, tmp_path):
	"""record(words..., timeout): mtctl record with -o and a short interval; answers what it did, and the lines."""
	def call(*words, name="run.jsonl", **options):
		file = tmp_path / name
		environment = dict(plain, MTSHIM_LIBRARY=str(shim), MT_MIN_MB="0", **options.pop("environment", {}))
		done = run([mtctl, "record", "-o", file, "--interval=0.05", "--quiet", *words], environment, **options)
		return done, [json.loads(line) for line in file.read_text().splitlines()]
	return call


def of_kind(lines, kind):
	return [line for line in lines if line["kind"] == kind]


def written(tmp_path, lines, name="made.jsonl"):
	"""A recording with these lines, after a header."""
	header = {"kind": "header", "time_ns": START, "pid": 7, "format": "mtshim-recording", "version": 1, "comm": "made",
	          "command": "made up", "host": "here"}
	file = tmp_path / name
	file.write_text("".join(json.dumps(line) + "\n" for line in [header, *lines]))
	return file


def sample(second, rss_mb, pid=7, **more):
	return {"kind": "sample", "time_ns": START + int(second * SECOND), "pid": pid, "rss_bytes": int(rss_mb * MB), **more}


def cleanup(second, number, freed_mb, level="light", before_mb=1000, **more):
	return {"kind": "cleanup", "time_ns": START + int(second * SECOND), "pid": 7, "number": number, "level": level,
	        "reason": "idle", "rss_before_bytes": before_mb * MB, "rss_after_bytes": (before_mb - freed_mb) * MB, **more}


class Picture:
	def __init__(self, file):
		self.root = xml.etree.ElementTree.parse(file).getroot()
		assert self.root.tag == SVG + "svg"
		self.texts = [text.text for text in self.root.iter(SVG + "text")]

	def groups(self, *words):
		return [group for group in self.root.iter(SVG + "g") if set(words) <= set(group.get("class").split())]

	def places(self, *words):
		"""Of the first path of the first such group."""
		path = self.groups(*words)[0].find(SVG + "path").get("d")
		return [(float(x), float(y)) for x, y in re.findall(r"([-\d.]+) ([-\d.]+)", path)]


@pytest.fixture
def plot(ctl, tmp_path):
	def call(*words, **environment):
		file = tmp_path / "picture.svg"
		done = ctl("plot", *words, "-o", file, **environment)
		assert done.returncode == 0, done.stderr
		return Picture(file)
	return call


# ---- record ----

def test_a_run_is_recorded_and_its_exit_code_is_the_programs(record, plot, tmp_path):
	done, lines = record("--gc-rounds=1", "--", PYTHON, "-c", HOARD)

	assert done.returncode == 3 and done.stderr == ""
	assert lines[0]["kind"] == "header" and lines[0]["format"] == "mtshim-recording" and lines[0]["version"] == 1
	assert lines[0]["comm"] == "python3" and lines[0]["started"] and lines[0]["kernel"] == os.uname().release
	awake = [line for line in of_kind(lines, "process") if line["state"] == "awake"]
	assert awake and {"name": "gc_rounds", "value": "1", "origin": "environment"} in awake[-1]["settings"]
	samples = of_kind(lines, "sample")
	peak = max(samples, key=lambda one: one["rss_bytes"])
	assert peak["rss_bytes"] > 80 * MB
	# The drop is in the data: after the first cleanup that brought most of it RSS is low, and later it is high again.
	cleanups = [line for line in of_kind(lines, "cleanup") if not line["merged"]]
	assert sum(line["rss_before_bytes"] - line["rss_after_bytes"] for line in cleanups) > 60 * MB
	low = min(one["rss_bytes"] for one in samples if cleanups[0]["time_ns"] < one["time_ns"])
	assert low < peak["rss_bytes"] - 60 * MB
	assert any(one.get("heap_live_bytes", 0) > 75 * MB for one in samples)
	# On a busy machine the program may end before the shim itself has seen the second.
	assert [line["number"] for line in of_kind(lines, "round")] in ([1], [1, 2], [2])
	assert lines[-1]["kind"] == "end" and lines[-1]["exit_code"] == 3
	assert lines[-1]["rss_peak_bytes"] > peak["rss_bytes"] - 2 * MB

	picture = plot(tmp_path / "run.jsonl")
	assert len(picture.groups("mark", "cleanup")) == len(cleanups)
	assert len(picture.groups("mark", "round")) == len(of_kind(lines, "round"))
	assert any(re.fullmatch(r"-\d+\.\d MB", text) for text in picture.texts)
	assert any("exit code 3" in text for text in picture.texts)


def test_what_a_program_does_last_is_recorded_before_it_is_gone(record, tmp_path):
	"""The files of a program go as it ends, here before the next look at them."""
	script = """
import ctypes, sys, time
shim = ctypes.CDLL(None)
shim.mt_trim(0)
end = time.monotonic() + 20
while '"cleanup"' not in open(sys.argv[1]).read() and time.monotonic() < end:
	time.sleep(0.02)
held = [bytes(5000) + bytes([i % 250]) for i in range(4000)]
held = None
shim.mt_trim(1)
"""
	_, lines = record("--interval=30", "--", PYTHON, "-c", script, tmp_path / "run.jsonl")

	levels = [line["level"] for line in of_kind(lines, "cleanup") if line["reason"] == "api"]
	assert levels == ["purge", "light"]
	assert lines[-1]["kind"] == "end"


def test_a_recorded_process_that_ends_between_two_samples_ends_the_recording(mtctl, plain, spawn, tmp_path):
	sleeper = spawn(["sleep", "0.6"], plain)
	recorder = spawn([mtctl, "record", "--no-shim", "--interval=600", "-o", tmp_path / "f", sleeper.pid], plain)

	assert recorder.wait(20) == 0


def test_a_program_that_is_killed_kills_the_recorder_the_same_way(record):
	done, lines = record("--", "sh", "-c", "kill -TERM $$")

	assert done.returncode == -signal.SIGTERM
	assert lines[-1] | {"time_ns": 0, "rss_peak_bytes": 0, "cpu_ns": 0} == {
		"kind": "end", "time_ns": 0, "pid": lines[0]["pid"], "alive": False, "exit_code": None, "signal": 15, "rss_peak_bytes": 0,
		"cpu_ns": 0}


def test_codes_of_programs_that_cannot_run_are_those_of_run(record, ctl, tmp_path):
	assert record("--", "/no/such/program")[0].returncode == 127
	assert record("--", "/etc")[0].returncode == 126
	assert ctl("record", "--", "true").returncode == USAGE
	assert ctl("record", "-o", tmp_path / "x").returncode == USAGE
	assert ctl("record", "-o", tmp_path / "no" / "x", "--", "true").returncode == USAGE
	for wrong in ("--interval=0", "--interval=9999", "--interval=x", "--tick-ms=1"):
		assert ctl("record", "-o", tmp_path / "x", wrong, "--", "true").returncode == USAGE


def test_stdin_and_stdout_are_the_programs(record):
	done, _ = record("--", "sh", "-c", "cat; echo err >&2", input="through\n")

	assert (done.stdout, done.stderr) == ("through\n", "err\n")


def test_no_descriptor_and_no_mask_of_the_recorder_reaches_the_program(record):
	look = ["sh", "-c", "ls /proc/self/fd; grep -E 'Sig(Blk|Ign)' /proc/self/status"]
	done, _ = record("--no-shim", "--", *look)
	bare = subprocess.run(look, stdin=subprocess.DEVNULL, capture_output=True, text=True)

	assert done.stdout == bare.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGUSR2", "SIGRTMIN"])
def test_signals_reach_the_program(spawn, mtctl, plain, tmp_path, name):
	number = getattr(signal, name)
	# No $(...) in it: bash loses the trap of a signal that comes while it reads one, 8 of 3,000 times without a recorder.
	script = f"trap 'echo got; exit 5' {number}; echo ready; for ((i = 0; i < 200; i++)); do sleep 0.05; done; echo none"
	recorder = spawn([mtctl, "record", "--no-shim", "-o", tmp_path / "f", "--", "bash", "-c", script], plain)
	assert recorder.stdout.readline() == "ready\n"

	recorder.send_signal(number)

	assert recorder.stdout.readline() == "got\n"
	assert recorder.wait(10) == 5


def test_without_the_shim_there_are_only_the_kernels_figures(record, ctl, tmp_path):
	"""The report of such a recording said that the shim was asleep."""
	done, lines = record("--no-shim", "--", PYTHON, "-c", HOARD)
	page = ctl("report", tmp_path / "run.jsonl", "-o", "-").stdout

	assert done.returncode == 3
	assert "it did not carry the shim" in page and "malloc has allocated little" not in page
	assert {line["state"] for line in of_kind(lines, "process")} == {"plain"}
	assert max(line["rss_bytes"] for line in of_kind(lines, "sample")) > 80 * MB
	assert not any("heap_live_bytes" in line for line in lines) and not of_kind(lines, "cleanup")


def test_an_exec_is_followed(record):
	_, lines = record("--", "sh", "-c", "sleep 0.2; exec sleep 0.3")

	assert [line["comm"] for line in of_kind(lines, "process")][-1] == "sleep"
	assert len({line["pid"] for line in lines}) == 1 and lines[-1]["exit_code"] == 0


def test_a_tree_is_recorded_with_the_pid_in_each_line(mtctl, plain, shim, spawn, wait_for, tmp_path):
	file = tmp_path / "f.jsonl"
	recorder = spawn([mtctl, "record", "--tree", "--interval=0.05", "-o", file, "--", "sh", "-c", "sleep 60 & sleep 60; true"],
	                 dict(plain, MTSHIM_LIBRARY=str(shim)))
	def lines():
		return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
	def comms():
		return {line["pid"]: line["comm"] for line in of_kind(lines(), "process")}
	wait_for(lambda: sorted(comms().values()) == ["sh", "sleep", "sleep"])
	ended = next(pid for pid, comm in comms().items() if comm == "sleep")
	os.kill(ended, signal.SIGKILL)
	wait_for(lambda: ended in {line["pid"] for line in of_kind(lines(), "end")})

	recorder.terminate()

	assert recorder.wait(10) == -signal.SIGTERM and comms()[lines()[0]["pid"]] == "sh"
	for kind in ("sample", "end"):
		assert {line["pid"] for line in of_kind(lines(), kind)} == set(comms())


def test_a_recording_ends_with_its_figures_and_the_next_command(mtctl, plain, shim, run, ctl, tmp_path):
	program, file = [PYTHON, "-c", "import time; held = bytes(50 << 20); time.sleep(0.5)\n# it's held"], tmp_path / "bare.jsonl"

	done = run([mtctl, "record", "--no-shim", "-o", file, "--", *program], plain)
	figures, following = done.stderr.splitlines()
	table = re.split(r"  +", ctl("compare", file).stdout.splitlines()[1])

	assert done.returncode == 0 and re.search(r"peak RSS (\S+ MB), mean RSS (\S+ MB), RSS before the end (\S+ MB), time (\S+ s), CPU time (\S+ s), "
	                                          r"0 cleanups$", figures).groups() == tuple(table[1:6])
	command = following.removeprefix("mtctl: next: ").partition(" && ")[0]
	words = run(["bash", "-c", f"printf '%s\\0' {command}"]).stdout.split("\0")
	assert words == [str(mtctl), "record", "-o", "shim.jsonl", "--", *program, ""]
	assert following.endswith(f" && {mtctl} compare {file} shim.jsonl")
	intervals = [int(line["time_ns"]) for line in of_kind([json.loads(line) for line in file.read_text().splitlines()], "sample")]
	assert len(intervals) >= 3 and json.loads(file.read_text().splitlines()[0])["interval_ms"] == 100
	watched = run(["timeout", "-s", "TERM", "0.5", mtctl, "record", "--no-shim", "-o", tmp_path / "w", "--pid", str(os.getpid())], plain)
	assert "next: " in watched.stderr and f"plot {tmp_path / 'w'}" in watched.stderr
	assert run([mtctl, "record", "-q", "--no-shim", "-o", file, "--", "true"], plain).stderr == ""


def test_a_picture_that_cannot_be_written_whole_is_removed(mtctl, plain, run, tmp_path):
	"""As on a full disk: a file may have no byte."""
	recording, picture = tmp_path / "r.jsonl", tmp_path / "x.svg"
	assert run([mtctl, "record", "-q", "--no-shim", "-o", recording, "--", "sleep", "1"], plain).returncode == 0

	done = run(["bash", "-c", 'trap "" XFSZ; ulimit -f 0; exec "$@"', "bash", mtctl, "plot", recording, "-o", picture], plain)

	assert done.returncode != 0 and "File too large" in done.stderr and not picture.exists()


def test_a_full_disk_is_reported_once_and_the_program_continues(mtctl, plain, run):
	done = run([mtctl, "record", "--no-shim", "--interval=0.05", "-o", "/dev/full", "--", "sh", "-c", "sleep 0.3; exit 4"], plain)

	assert done.returncode == 4
	assert done.stderr.count("No space left on device") == 1 and "lines could not be written" in done.stderr


def test_what_a_full_disk_swallowed_is_counted_once_there_is_room(mtctl, plain, spawn, wait_for, tmp_path):
	"""A limit on the size of files stands for the disk: it is raised while the program runs."""
	file = tmp_path / "f"
	limited = f"trap '' XFSZ; ulimit -S -f 1; exec {mtctl} record --no-shim --interval=0.02 -o {file} -- sleep 30"
	recorder = spawn(["bash", "-c", limited], plain)
	line = recorder.stderr.readline()
	assert "File too large" in line
	assert file.read_bytes().endswith(b"}\n")  # no half of a line

	subprocess.run(["prlimit", f"--pid={recorder.pid}", "--fsize=unlimited"], check=True)
	wait_for(lambda: '"lost"' in file.read_text())
	recorder.terminate()
	recorder.wait(10)

	lines = [json.loads(text) for text in file.read_text().splitlines()]
	assert of_kind(lines, "lost")[0]["lines_count"] > 0 and lines[-1]["kind"] == "end"


def test_a_recorder_that_is_killed_leaves_whole_lines_and_the_program(spawn, mtctl, plain, wait_for, plot, tmp_path):
	file = tmp_path / "f.jsonl"
	recorder = spawn([mtctl, "record", "--no-shim", "--interval=0.02", "-o", file, "--", "sleep", "30"], plain)
	wait_for(lambda: file.exists() and file.read_text().count("sample") > 5)
	pid = json.loads(file.read_text().splitlines()[0])["pid"]

	recorder.kill()
	recorder.wait()

	assert file.read_bytes().endswith(b"}\n")
	os.kill(pid, 0)
	assert any("made" not in text for text in plot(file).texts)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_running_process_is_recorded_until_it_ends_or_a_signal_ends_the_recording(mtctl, plain, spawn, fake, wait_for, tmp_path, number):
	file = tmp_path / "f.jsonl"
	pid = fake()
	recorder = spawn([mtctl, "record", "--interval=0.05", "-o", file, pid], plain)
	wait_for(lambda: file.exists() and file.read_text().count('"sample"') > 3)

	recorder.send_signal(number)

	assert recorder.wait(10) == 0
	lines = [json.loads(line) for line in file.read_text().splitlines()]
	assert lines[0]["pid"] == pid and not lines[0]["started"]
	assert lines[-1] == {"kind": "end", "time_ns": lines[-1]["time_ns"], "pid": pid, "alive": True}
	known = [line for line in of_kind(lines, "sample") if "heap_live_bytes" in line]
	assert known and known[-1]["heap_live_bytes"] == 200 * MB


def test_a_process_without_the_shim_is_not_recorded(ctl, bare, spawn, tmp_path):
	sleeper = spawn(["/bin/sleep", "60"], bare)

	assert ctl("record", "-o", tmp_path / "f", sleeper.pid).returncode == NOT_SHIMMED
	assert not (tmp_path / "f").exists()


def test_figures_of_a_process_that_is_silent_are_left_out(mtctl, plain, spawn, fake, wait_for, tmp_path):
	file = tmp_path / "f.jsonl"
	pid = fake(deaf=True)
	recorder = spawn([mtctl, "record", "--interval=0.1", "-o", file, pid], plain)
	def last():
		lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
		return lines and lines[-1]["kind"] == "sample" and lines[-1]
	wait_for(lambda: last() and "heap_live_bytes" not in last())

	recorder.terminate()
	assert recorder.wait(10) == 0


# ---- plot ----

def test_lines_are_where_the_figures_are(plot, tmp_path):
	lines = [sample(second, 100 if second < 50 else 400, heap_live_bytes=50 * MB, heap_idle_bytes=20 * MB)
	         for second in range(101)]
	picture = plot(written(tmp_path, lines))

	places = picture.places("curve", "rss")
	assert [x for x, _ in places] == sorted(x for x, _ in places)
	left, right = places[0], places[-1]
	ticks = {text.text: float(text.get("y")) - 4 for text in picture.groups("axis", "bytes")[0].iter(SVG + "text")}
	assert abs(left[1] - ticks["100 MB"]) < 0.6 and abs(right[1] - ticks["400 MB"]) < 0.6
	times = {text.text: float(text.get("x")) for text in picture.groups("axis", "time")[0].iter(SVG + "text")}
	assert abs(left[0] - times["0"]) < 0.6 and abs(right[0] - times["100 s"]) < 0.6
	assert all(abs(y - (ticks["0"] * 0.5 + ticks["100 MB"] * 0.5)) < 0.6 for _, y in picture.places("curve", "live"))


def test_one_sample_of_many_that_is_a_peak_is_not_lost(plot, tmp_path):
	lines = [sample(second / 100, 900 if second == 31234 else 100) for second in range(60000)]
	picture = plot(written(tmp_path, lines))

	places = picture.places("curve", "rss")
	assert len(places) < 6000
	assert len([y for _, y in places if y < min(y for _, y in places) + 1]) == 1
	assert "RSS: peak 900.0 MB" in " ".join(picture.texts)


def test_each_event_has_a_mark_that_names_it(plot, tmp_path):
	lines = [sample(second, 500, heap_live_bytes=400 * MB, heap_idle_bytes=0) for second in range(100)]
	lines += [cleanup(10, 1, 311, "heavy"), cleanup(30, 2, 0, "purge"), cleanup(60, 3, 50), cleanup(61, 4, 45)]
	lines += [{"kind": "round", "time_ns": START + second * SECOND, "pid": 7, "number": second // 20} for second in (20, 40, 60)]
	lines += [{"kind": "pressure", "time_ns": START + second * SECOND, "pid": 7, "level": level}
	          for second, level in ((70, "warn"), (80, "critical"), (85, "none"))]
	picture = plot(written(tmp_path, lines))

	marks = picture.groups("mark")
	assert len(picture.groups("mark", "cleanup")) == 4 and len(picture.groups("mark", "round")) == 3
	assert [len(picture.groups("cleanup", level)) for level in ("purge", "light", "heavy")] == [1, 2, 1]
	assert "heavy cleanup 1 (idle): -311.0 MB" in [mark.find(SVG + "title").text for mark in marks]
	freed = [text.text for text in picture.groups("freed")[0].iter(SVG + "text")]
	assert freed[0] == "-311.0 MB" and "-45.0 MB" not in freed  # no room beside that of 50
	assert len(picture.groups("pressure", "warn")) == len(picture.groups("pressure", "critical")) == 1
	legend = [text.text for text in picture.groups("legend")[0].iter(SVG + "text")]
	assert legend == ["RSS", "live", "reusable", "files", "other", "round", "purge", "light cleanup", "heavy cleanup",
	                  "pressure: warn", "pressure: critical"]


def ticks(picture, axis):
	"""Where its labels stand: pixels from above for bytes, from the left for time."""
	return {text.text: float(text.get("y")) - 4 if axis == "bytes" else float(text.get("x"))
	        for text in picture.groups("axis", axis)[0].iter(SVG + "text")}


def test_what_a_cleanup_found_and_left_is_on_the_line_between_two_samples(plot, tmp_path):
	held = {"heap_live_bytes": 40 * MB, "heap_idle_bytes": 0}
	lines = [sample(second, 50, **held) for second in range(0, 101, 10)]
	found = cleanup(25, 1, 380, before_mb=400, duration_ns=SECOND, live_before_bytes=30 * MB, live_after_bytes=20 * MB)
	picture = plot(written(tmp_path, [*lines, found]))

	height, across = ticks(picture, "bytes"), ticks(picture, "time")
	peak, valley = sorted(picture.places("curve", "rss"), key=lambda place: place[1])[:: len(lines) + 1]
	assert abs(peak[1] - height["400 MB"]) < 0.6 and abs(valley[1] - (height["0"] * 0.8 + height["100 MB"] * 0.2)) < 0.6
	second = (across["100 s"] - across["0"]) / 100
	assert abs(peak[0] - across["0"] - 25 * second) < 0.6 and abs(valley[0] - across["0"] - 26 * second) < 0.6
	assert "RSS: peak 400.0 MB" in " ".join(picture.texts)
	# Of the live heap as well: its area never stands above the line.
	live = dict(picture.places("curve", "live"))
	assert all(live[x] >= y for x, y in picture.places("curve", "rss")), (live, picture.places("curve", "rss"))


def test_the_bytes_freed_by_the_first_cleanup_are_above_its_line_and_below_the_title(plot, tmp_path):
	lines = [sample(second, 100) for second in range(101)]
	picture = plot(written(tmp_path, [*lines, cleanup(1, 1, 60), cleanup(50, 2, 50), cleanup(97, 3, 40)]))

	guides = [float(re.search(r"M([\d.]+)", path.get("d"))[1]) for path in picture.groups("guides")[0].iter(SVG + "path")]
	labels = {text.text: text for text in picture.groups("freed")[0].iter(SVG + "text")}
	for name, at in zip(("-60.0 MB", "-50.0 MB", "-40.0 MB"), guides, strict=True):
		assert abs(float(labels[name].get("x")) - at) < 1, name
	title = next(text for text in picture.root.iter(SVG + "text") if text.text == "Memory")
	assert float(labels["-60.0 MB"].get("y")) - float(title.get("y")) >= 12


def test_unknown_times_are_a_gap(plot, tmp_path):
	lines = [sample(second, 100, **({} if 40 <= second < 60 else {"heap_live_bytes": 50 * MB, "heap_idle_bytes": 0}))
	         for second in range(100)]
	picture = plot(written(tmp_path, lines))

	assert len([path for path in picture.groups("curve", "live")[0] if path.get("stroke")]) == 2
	assert len([path for path in picture.groups("curve", "rss")[0] if path.get("stroke")]) == 1


def test_each_device_has_its_own_panel(plot, tmp_path):
	lines = [sample(second, 100, gpu_allocated_bytes=300 * MB, gpu_reserved_bytes=700 * MB, devices=[
		{"ordinal": 0, "allocated_bytes": 100 * MB, "reserved_bytes": 200 * MB},
		{"ordinal": 3, "allocated_bytes": 200 * MB, "reserved_bytes": 500 * MB}]) for second in range(20)]
	file = written(tmp_path, lines)

	assert {"GPU 0", "GPU 3", "GPU: allocated"} <= set(plot(file, "--gpu").texts)
	assert not any("GPU" in text for text in plot(file).texts)


def test_a_tree_is_the_sum_of_its_processes_or_one_of_them(plot, ctl, tmp_path):
	lines = [sample(second, rss, pid) for second in range(10) for pid, rss in ((7, 100), (8, 200))]
	file = written(tmp_path, [{"kind": "process", "time_ns": START, "pid": 8, "comm": "child", "command": "the child"}, *lines])

	assert any("peak 300.0 MB" in text and "and 1 more" in text for text in plot(file).texts)
	alone = plot(file, "--pid=8")
	assert "the child" in alone.texts and any("peak 200.0 MB" in text for text in alone.texts)
	assert "no process 9" in ctl("plot", file, "--pid=9", "-o", tmp_path / "x.svg").stderr


def test_a_part_of_the_time(plot, ctl, tmp_path):
	file = written(tmp_path, [sample(second, 10 + second) for second in range(0, 3600, 10)])

	assert any("peak 3600.0 MB, mean 3300.0 MB" in text for text in plot(file, "--last=10m").texts)
	assert "40 min" in plot(file, "--since=30m").texts and "20 min" not in plot(file, "--since=30m").texts
	late = ctl("plot", file, "--since=2h", "-o", tmp_path / "x.svg")
	assert late.returncode == USAGE and "it ends after" in late.stderr
	for wrong in ("--last=0", "--last=5y", "--last=m", "--since=-1", "--size=5x5", "--size=800", "--size=99999x800", "--pid=x"):
		assert ctl("plot", file, wrong, "-o", tmp_path / "x.svg").returncode == USAGE, wrong


def test_times_of_day(plot, tmp_path):
	file = written(tmp_path, [sample(second, 10) for second in range(0, 3600, 10)])

	assert {"11:40", "12:00", "12:20"} <= set(plot(file, "--clock", TZ="UTC").texts)
	assert {"17:10", "17:30", "17:50"} <= set(plot(file, "--clock", TZ="XXX-5:30").texts)


def test_a_living_process_is_drawn_from_its_ring(plot, fake):
	now = time.time_ns()
	ring = [{"time_ns": now - (60 - second) * SECOND, "rss_bytes": (100 + second) * MB, "live_bytes": 40 * MB,
	         "idle_bytes": 9 * MB, "rounds_count": second // 20, "pressure_level": int(30 <= second < 40)} for second in range(60)]
	pid = fake(samples=ring, rank="5")

	picture = plot(pid, "--no-clock")
	assert len(picture.groups("mark", "round")) == 2 and len(picture.groups("pressure", "warn")) == 1
	assert any(text.startswith(f"pid {pid}, rank 5, from ") for text in picture.texts)
	assert "60 s" in picture.texts
	assert any(re.fullmatch(r"\d\d:\d\d:\d\d", text) for text in plot(pid).texts)


def test_what_stat_prints_can_be_drawn_later(plot, ctl, fake, tmp_path):
	pid = fake(samples=[{"time_ns": time.time_ns() - (30 - second) * SECOND, "rss_bytes": 77 * MB} for second in range(30)])
	file = tmp_path / "stat.json"
	file.write_text(ctl("stat", pid, "--json").stdout)

	assert any(f"pid {pid}" in text and "peak 300.0 MB" in text for text in plot(file).texts)


def test_png_and_pdf_are_what_their_names_say(ctl, tmp_path):
	file = written(tmp_path, [sample(second, 100) for second in range(20)] + [cleanup(5, 1, 60, before_mb=100)])
	assert ctl("plot", file, "-o", tmp_path / "x.png", "--size=900x400").returncode == 0
	assert ctl("plot", file, "-o", tmp_path / "x.pdf").returncode == 0

	png = (tmp_path / "x.png").read_bytes()
	assert png.startswith(b"\x89PNG\r\n") and struct.unpack(">II", png[16:24]) == (900, 400)
	text = subprocess.run(["pdftotext", tmp_path / "x.pdf", "-"], capture_output=True, text=True, check=True).stdout
	assert "made up" in text and "-60.0 MB" in text and "light cleanup" in text and "100 MB" in text
	subprocess.run(["rsvg-convert", "--version"], check=True, capture_output=True)


def test_hostile_text_is_harmless_and_the_svg_stays_xml(plot, tmp_path):
	hostile = "</svg><script>alert(1)</script>\x1b[2J\n\u202e&amp;\"'" + "x" * 4000
	file = written(tmp_path, [{"kind": "process", "time_ns": START, "pid": 7, "comm": hostile, "command": hostile,
	                           "rank": hostile}, sample(0, 10), sample(9, 10), {**cleanup(5, 1, 90), "reason": "<b>\x1b"}])

	picture = plot(file)
	assert not list(picture.root.iter(SVG + "script"))
	assert any(text.startswith("</svg><script>alert(1)</script>?[2J?") for text in picture.texts)
	titled = plot(file, "--title", "Größe <µ> \x07\x9b")
	assert any("Gr" in text and "\x07" not in text and "\x9b" not in text for text in titled.texts)
	assert "Größe <µ> ?" in plot(file, "--title", "Größe <µ> \x07").texts


@pytest.mark.parametrize("bytes_of_file", [b"", b"\n", b"\0" * 100, b"hello", b"{}", b"[]", b"{", b'{"kind":', b"\xff\xfe{}\n",
                                           b'{"kind":"sample","time_ns":1,"rss_bytes":1}\n', b"[" * 100000])
def test_what_is_no_recording_is_refused(ctl, tmp_path, bytes_of_file):
	file = tmp_path / "x.jsonl"
	file.write_bytes(bytes_of_file)

	done = ctl("plot", file, "-o", tmp_path / "x.svg")
	assert done.returncode == USAGE and done.stderr.startswith(f"mtctl: {file}"), done
	assert not (tmp_path / "x.svg").exists()


def test_the_sound_part_of_a_broken_file_is_drawn_and_the_line_is_named(ctl, tmp_path):
	file = written(tmp_path, [sample(second, 50) for second in range(10)])
	with file.open("a") as more:
		more.write(json.dumps(sample(11, 2**41)) + "\n" + json.dumps(sample(12, 50))[:40])

	done = ctl("plot", file, "-o", tmp_path / "x.svg")
	assert done.returncode == 0 and f"{file}:12: a sample makes no sense; read up to there" in done.stderr


def test_strange_times_and_sizes_still_make_a_picture(plot, tmp_path):
	for lines in ([sample(0, 0)], [sample(0, 2**40 - 1), sample(1, 0)], [sample(5, 1), sample(3, 1), sample(4, 1)],
	              [sample(0, 1), sample(10**9, 1)], [sample(1, 1), sample(1, 1), sample(1, 1)]):
		assert plot(written(tmp_path, lines)).groups("curve", "rss")


def test_a_quarter_of_a_million_lines_are_drawn(plot, tmp_path):
	file, levels = written(tmp_path, []), ("none", "warn")
	with file.open("a") as more:
		for second in range(62500):
			more.write(f'{{"kind":"sample","time_ns":{START + second * SECOND},"pid":7,"rss_bytes":{second % 977 * MB}}}\n'
			           f'{{"kind":"round","time_ns":{START + second * SECOND},"pid":7,"number":{second}}}\n'
			           f'{{"kind":"cleanup","time_ns":{START + second * SECOND},"pid":7,"number":{second},"level":"light"}}\n'
			           f'{{"kind":"pressure","time_ns":{START + second * SECOND},"pid":{second % 3000},"level":"{levels[second % 2]}"}}\n')

	picture = plot(file)
	assert 500 < len(picture.groups("mark", "round")) < 2500 and "16 h" in picture.texts


def test_a_picture_that_cannot_be_written_is_a_failure(ctl, tmp_path):
	file = written(tmp_path, [sample(0, 1), sample(1, 1)])

	assert "pictures end with .svg, .png or .pdf" in ctl("plot", file, "-o", tmp_path / "x.gif").stderr
	for wrong in (tmp_path / "no" / "x.svg", tmp_path / "x.gif"):
		assert ctl("plot", file, "-o", wrong).returncode == USAGE
	assert ctl("plot").returncode == USAGE and ctl("plot", "-o", tmp_path / "x.svg").returncode == USAGE
	assert ctl("plot", 2**22 + 5, "-o", tmp_path / "x.svg").returncode == NO_PROCESS


# ---- in the terminal ----

def rows_of(text):
	"""The rows above the time axis: what stands before the line of the scale, and behind it."""
	found = [re.match(r"([ \dMGB]{8})[|+\u2502\u2524](.*)", line) for line in text.splitlines()]
	return [(one[1].strip(), one[2]) for one in found if one and one[1].strip() != "0"]


def test_without_a_picture_it_draws_in_the_terminal(ctl, tmp_path):
	figures = {"rss_anon_bytes": 90 * MB, "heap_live_bytes": 50 * MB, "heap_dirty_bytes": 30 * MB}
	file = written(tmp_path, [*[sample(second, 100, **figures) for second in range(61)], cleanup(30, 1, 0, "heavy", 100)])

	fine, coarse = ctl("plot", file, LC_ALL="C.UTF-8"), ctl("plot", file, LC_ALL="C", COLUMNS="60", LINES="20")

	assert fine.returncode == coarse.returncode == 0 and "\u2502" in fine.stdout and "\x1b" not in fine.stdout
	assert coarse.stdout.isascii() and max(map(len, coarse.stdout.splitlines())) <= 60 and len(coarse.stdout.splitlines()) < 20
	for text in (fine.stdout, coarse.stdout):
		column = "".join(row.ljust(30)[20] for _, row in rows_of(text)).strip()
		assert re.fullmatch(r"\.+=+~+#+", column), "other above files, reusable and live"
		assert abs(column.count("#") - len(column) / 2) <= 1 and "100 MB" in [label for label, _ in rows_of(text)]
		assert "made up (pid 7)" in text and "RSS: peak 100.0 MB, mean 100.0 MB, end 100.0 MB" in text and "30 s" in text
		axis = next(line for line in text.splitlines() if re.match(r" +0[+\u2514]", line))
		assert abs(axis.index("h") - 9 - (len(axis) - 9) / 2) <= 1


def test_a_chart_shows_only_its_span(ctl, tmp_path):
	file = written(tmp_path, [sample(second, 10 if second < 50 else 90) for second in range(101)])

	whole, last = (rows_of(ctl("plot", file, *words, LC_ALL="C").stdout) for words in ([], ["--last=20s"]))

	assert {row[:30].strip(".") for _, row in last} == {""} and len({row.count(".") for _, row in last if row}) == 1
	assert any(row[:30].strip() == "" and row.count(".") > 30 for _, row in whole), "10 MB at first"
	assert ctl("plot", file, "--since=2h").returncode == USAGE and ctl("plot", written(tmp_path, [], "none.jsonl")).returncode == USAGE


def test_a_process_is_drawn_by_its_name_and_no_graphics_library_is_needed(mtctl, plain, fake, run, tmp_path):
	pid = fake(samples=[{"time_ns": START + second * SECOND, "rss_bytes": 100 * MB} for second in range(9)])
	alone = tmp_path / "mtctl"
	alone.write_bytes(mtctl.read_bytes())
	alone.chmod(0o755)

	drawn, picture = run([alone, "plot", "fake_shim.py"], dict(plain, LC_ALL="C")), run([alone, "plot", str(pid), "-o", tmp_path / "x.svg"], plain)

	assert drawn.returncode == 0 and f"(pid {pid})" in drawn.stdout and "=====" in drawn.stdout
	assert picture.returncode == 127 and "mtctl-plot, and is not installed here" in picture.stderr


# ---- compare ----

def test_without_a_picture_the_table_is_printed(ctl, tmp_path):
	def end(second, cpu_s):
		return {"kind": "end", "time_ns": START + second * SECOND, "pid": 7, "alive": False, "exit_code": 0, "signal": None,
		        "cpu_ns": int(cpu_s * SECOND)}
	bare = written(tmp_path, [*[sample(second, 400) for second in range(81)], end(80, 40)], "bare.jsonl")
	shim = written(tmp_path, [*[sample(second, 100) for second in range(61)], end(60, 44)], "shim.jsonl")

	head, first, second = ctl("compare", bare, shim).stdout.splitlines()

	assert re.split(r"  +", head) == ["RUN", "peak RSS", "mean RSS", "RSS before the end", "time", "CPU time", "exit code"]
	assert re.split(r"  +", first) == ["bare", "400.0 MB", "400.0 MB", "400.0 MB", "80.0 s", "40.0 s", "0"]
	assert re.split(r"  +", second) == ["shim", *["100.0 MB (-75 %)"] * 3, "60.0 s (-25 %)", "44.0 s (+10 %)", "0"]
	drawn = ctl("compare", bare, shim, "-o", tmp_path / "x.svg")
	assert drawn.stdout.splitlines() == [head, first, second] and "44.0 s (+10 %)" in Picture(tmp_path / "x.svg").texts
	for words in ([], ["-o", tmp_path / "y.svg"]):
		runs = fits("compare", ctl("compare", bare, shim, "--json", *words).stdout)["runs"]
		assert [(run["name"], run["rss_peak_bytes"], run["duration_ns"], run["cpu_ns"]) for run in runs] == [
			("bare", 400 * MB, 80 * SECOND, 40 * SECOND), ("shim", 100 * MB, 60 * SECOND, 44 * SECOND)]
		assert runs[0]["change"] is None and (runs[1]["change"]["rss_mean_pct"], runs[1]["change"]["duration_pct"]) == (-75, -25)


def test_the_times_of_short_runs_give_their_difference(ctl, tmp_path):
	def ran(name, seconds, cpu_s):
		end = {"kind": "end", "time_ns": START + int(seconds * SECOND), "pid": 7, "alive": False, "exit_code": 0, "signal": None,
		       "cpu_ns": int(cpu_s * SECOND)}
		return written(tmp_path, [sample(0, 100), end], name)

	row = ctl("compare", ran("bare.jsonl", 8.04, 0.524), ran("shim.jsonl", 8.16, 0.644)).stdout.splitlines()[2]

	assert "8.16 s (+1 %)" in row and "0.644 s (+23 %)" in row, row


def test_runs_are_compared_from_their_own_starts_with_a_table(ctl, tmp_path):
	before = written(tmp_path, [sample(second, 400) for second in range(101)], "before.jsonl")
	after = written(tmp_path, [sample(1000 + second, 100) for second in range(51)] + [cleanup(1010, 1, 0, before_mb=100)], "after.jsonl")

	assert ctl("compare", before, after, "--label=glibc", "--label=<shim>", "-o", tmp_path / "x.svg").returncode == 0
	picture = Picture(tmp_path / "x.svg")
	assert "glibc, <shim>" in picture.texts
	rows = [[text.text for text in row.iter(SVG + "text")] for row in picture.groups("row")]
	assert rows == [["glibc", "400.0 MB", "400.0 MB", "400.0 MB", "100.0 s", "0"],
	                ["<shim>", "100.0 MB (-75 %)", "100.0 MB (-75 %)", "100.0 MB (-75 %)", "50.0 s (-50 %)", "1"]]
	lines = [[(float(x), float(y)) for x, y in re.findall(r"([-\d.]+) ([-\d.]+)", run.find(SVG + "path").get("d"))]
	         for run in picture.groups("curve", "run")[:2]]
	(first, second) = ([x for x, _ in line] for line in lines)
	assert first[0] == second[0] and abs((second[-1] - second[0]) * 2 - (first[-1] - first[0])) < 1
	looks = [run.find(SVG + "path").attrib for run in picture.groups("curve", "run")[:2]]
	assert looks[0]["stroke"] != looks[1]["stroke"] and looks[0].get("stroke-dasharray") != looks[1].get("stroke-dasharray")


def test_a_run_lasts_to_its_end_and_its_peak_is_the_kernels(ctl, plot, tmp_path):
	"""The last sample may be a second older than the end, and the peak between two samples. What the end line has may be of a child."""
	end = {"kind": "end", "time_ns": START + int(8.46 * SECOND), "pid": 7, "alive": False, "exit_code": 0, "signal": None,
	       "rss_peak_bytes": 900 * MB}
	file = written(tmp_path, [*[sample(second, 100, rss_peak_bytes=300 * MB) for second in range(9)], end])

	assert ctl("compare", file, "-o", tmp_path / "x.svg").returncode == 0
	(row,) = ([text.text for text in row.iter(SVG + "text")] for row in Picture(tmp_path / "x.svg").groups("row"))
	assert row == ["made", "300.0 MB", "100.0 MB", "100.0 MB", "8.46 s", "0"]
	assert "RSS: peak 300.0 MB, mean 100.0 MB" in " ".join(plot(file).texts)
	assert "RSS: peak 100.0 MB" in " ".join(plot(file, "--last=2s").texts)  # of that part nobody else knows


def test_the_end_of_a_run_is_what_it_held_at_rest_and_no_peak_of_its_last_step(ctl, tmp_path):
	"""400 MB at rest, a step that takes 600 for a moment, and a tear-down in three looks."""
	held = [400] * 60 + [600, 500, 300, 100]
	end = {"kind": "end", "time_ns": START + int(6.4 * SECOND), "pid": 7, "alive": False, "exit_code": 0, "signal": None}
	file = written(tmp_path, [*[sample(look / 10, mb) for look, mb in enumerate(held)], end])

	run, = json.loads(ctl("compare", file, "--json").stdout)["runs"]

	assert run["rss_end_bytes"] == 400 * MB and run["rss_peak_bytes"] == 600 * MB


def test_a_run_with_the_shim_beside_one_without(record, ctl, tmp_path):
	script = HOARD.replace("range(2)", "range(1)").replace("0.8", "0.4")
	record("--no-shim", "--", PYTHON, "-c", script, name="without.jsonl")
	record("--", PYTHON, "-c", script, name="with.jsonl")

	assert ctl("compare", tmp_path / "without.jsonl", tmp_path / "with.jsonl", "-o", tmp_path / "x.pdf").returncode == 0
	text = subprocess.run(["pdftotext", "-layout", tmp_path / "x.pdf", "-"], capture_output=True, text=True, check=True).stdout
	assert re.search(r"without +\d+\.\d MB +\d+\.\d MB +\d+\.\d MB +\d\.\d+ s +\d\.\d+ s +0 +3\n", text), text
	assert re.search(r"with +\d+\.\d MB \([-+]\d+ %\)", text), text


def test_device_memory_of_runs_has_its_own_panel(ctl, tmp_path):
	one = written(tmp_path, [sample(second, 10, gpu_reserved_bytes=64 * MB) for second in range(9)], "one.jsonl")

	assert ctl("compare", one, "-o", tmp_path / "x.svg").returncode == 0
	assert {"GPU memory, reserved", "peak GPU, reserved"} <= set(Picture(tmp_path / "x.svg").texts)


def test_names_of_runs_are_never_cut_within_a_letter(ctl, tmp_path):
	one = written(tmp_path, [sample(0, 10), sample(1, 10)])
	label = "ü" * 39

	for end in ("svg", "png", "pdf"):
		done = ctl("compare", *[one] * 5, *[f"--label={label}"] * 5, "-o", tmp_path / f"x.{end}")
		assert done.returncode == 0, done.stderr
	assert label in Picture(tmp_path / "x.svg").texts


def test_compare_refuses_what_it_cannot_read_and_too_much(ctl, tmp_path):
	one = written(tmp_path, [sample(0, 10), sample(1, 10)])

	assert ctl("compare", one, tmp_path / "none", "-o", tmp_path / "x.svg").returncode == USAGE
	assert ctl("compare", "-o", tmp_path / "x.svg").returncode == USAGE
	assert ctl("compare", *[one] * 13, "-o", tmp_path / "x.svg").returncode == USAGE
	assert ctl("compare", one, "--label=a", "--label=b", "-o", tmp_path / "x.svg").returncode == USAGE
	assert ctl("compare", *[one] * 12, "-o", tmp_path / "x.svg").returncode == 0


@pytest.mark.parametrize("command", ["record", "plot", "compare"])
def test_each_has_help(ctl, command):
	assert ctl(command, "--help").stdout.startswith(f"usage: mtctl {command} ")
	assert ctl(command, "--no-such").returncode == USAGE


def test_a_short_program_is_not_said_to_be_without_the_shim_and_an_awake_one_not_to_fall_asleep_at_its_end(record):
	"""Most of those that end at once were plain; a third of the awake ones, whose files go first, ended asleep."""
	def states(*words):
		return [line.get("state") for line in record(*words)[1] if line["kind"] == "process"]

	for _ in range(8):
		assert "plain" not in states("--", "/bin/true")
		said = states("--interval=10ms", "--", "/bin/sh", "-c", f"exec {PYTHON} -c 'import time; time.sleep(0.2)'")
		assert "awake" not in said or said[-1] == "awake", said
