"""mtctl snapshot: the blocks of a CUDA program's pool, as the real shim tells of them on the fake driver."""
import concurrent.futures
import importlib.util
import json
import os
import pathlib
import pickle
import pickletools
import re
import signal
import struct
import subprocess
import time

import pytest

import fake_shim
from cuda_helpers import MB, cuda, fill # noqa: F401
from json_schema import fits
from mtctl_helpers import NO_ANSWER, NO_PROCESS, NOT_SHIMMED, NOTHING, PYTHON, USAGE, ctl, fake, plain # noqa: F401
from serve_helpers import serve # noqa: F401 (fixture)

STATES = ("live", "exported", "pending", "idle")
GB = 1 << 30
PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "ctl/python"


@pytest.fixture
def snapshot(control):
	"""snapshot(program, words...): its JSON, checked against itself."""
	def take(one, *words):
		got = control(one.env, "snapshot", one.pid, "--json", *words)
		assert got.returncode == 0, got.stdout + got.stderr
		seen = fits("snapshot", got.stdout)
		check_sums(seen)
		return seen
	return take


def check_sums(seen):
	"""Devices, sizes and blocks come to the same."""
	total = sum(seen["summary"][state]["count"] for state in STATES)
	assert total == seen["blocks_count"] == sum(device["blocks_count"] for device in seen["devices"])
	for state in STATES:
		held = seen["summary"][state]["held_bytes"]
		assert held == sum(device[state]["held_bytes"] for device in seen["devices"])
		assert held == sum(size[state]["held_bytes"] for size in seen["summary"]["sizes"])
		if seen["listed_count"] == total:
			assert held == sum(block["held_bytes"] for block in seen["blocks"] if block["state"] == state)
	assert sum(age["count"] for age in seen["summary"]["idle_ages"]) == seen["summary"]["idle"]["count"]
	assert len(seen["blocks"]) == seen["listed_count"]


def states(seen):
	return {state: (seen["summary"][state]["count"], seen["summary"][state]["held_bytes"]) for state in STATES}


@pytest.fixture
def settled(snapshot, wait_for):
	"""The snapshot once nothing is pending: the pool has seen that the device is done with what was freed."""
	def take(one):
		def look():
			seen = snapshot(one)
			return seen if not seen["summary"]["pending"]["count"] else None
		return wait_for(look, what="nothing pending")
	return take


def leftovers(mt_dir):
	return sorted(file.suffix for file in mt_dir.iterdir() if file.suffix in (".blocks", ".fresh"))


def test_shows_every_block_with_its_size_and_state(cuda, settled, mt_dir):
	one = cuda()
	fill(one, 40, 24)
	assert one.number(f"alloc 100 {5 * MB - 100}") == 0
	assert one.number("ipc 0") == 0

	seen = settled(one)

	assert states(seen) == {"live": (10, 41 * MB), "exported": (1, 4 * MB), "pending": (0, 0), "idle": (6, 24 * MB)}
	assert (seen["pid"], seen["cuda"], seen["rank"], seen["left_out_count"]) == (one.pid, "pool", None, 0)
	(device,) = seen["devices"]
	assert (device["device"], device["mode"], device["total_bytes"]) == (0, "pool", 1000 * MB)
	(odd,) = [block for block in seen["blocks"] if block["bytes"] % MB]
	assert (odd["bytes"], odd["held_bytes"], odd["state"]) == (5 * MB - 100, 5 * MB, "live")
	addresses = [int(block["id"], 16) for block in seen["blocks"]]
	assert addresses == sorted(set(addresses))
	assert leftovers(mt_dir) == []


def test_a_block_freed_before_a_capture_is_in_it_and_the_driver_is_not_asked(cuda, snapshot):
	one = cuda(CUDA_FREE="async")
	fill(one, 8, 0)
	assert one.number("free 0") == 0
	assert one.number("capture 0") == 0
	queries = one.number("calls cuEventQuery")

	seen = snapshot(one)

	assert (1, 4 * MB) in (states(seen)["pending"], states(seen)["idle"])
	assert one.number("calls cuEventQuery") == queries
	assert one.number("uncapture") == 0


def test_ages_count_from_the_hand_out_and_from_the_free(cuda, snapshot):
	one = cuda(CUDA_FREE="async")
	assert one.number(f"alloc 0 {MB}") == 0
	assert one.number(f"alloc 1 {2 * MB}") == 0
	time.sleep(0.6)
	assert one.number("free 1") == 0
	assert one.number(f"alloc 2 {3 * MB}") == 0
	assert one.number("sync") == 0

	ages = {block["bytes"]: block["age_ms"] for block in snapshot(one)["blocks"]}

	assert ages[MB] >= 590
	assert ages[2 * MB] <= ages[MB] - 590 and ages[3 * MB] <= ages[MB] - 590


def test_a_block_that_is_handed_out_again_starts_anew(cuda, snapshot):
	one = cuda()
	fill(one, 0, 4)
	time.sleep(0.6)
	began = time.monotonic()
	assert one.number(f"alloc 0 {4 * MB}") == 0

	(block,) = snapshot(one)["blocks"]

	assert block["state"] == "live" and block["age_ms"] <= (time.monotonic() - began) * 1000


def test_says_what_decay_will_give_back_and_when(cuda, settled):
	one = cuda(CUDA_DECAY_MS=30000)
	fill(one, 4, 16)

	seen = settled(one)

	assert seen["decay_ms"] == 30000
	within = {row["within_ms"]: row["held_bytes"] for row in seen["summary"]["decay"]}
	assert within == {1000: 0, 10000: 0, 60000: 16 * MB, 600000: 16 * MB, 3600000: 16 * MB, None: 16 * MB}


def test_in_account_mode_the_drivers_blocks_are_there_and_other_kinds_are_sums(cuda, snapshot):
	one = cuda(CUDA="account")
	fill(one, 40, 24)
	assert one.number(f"managed 200 {8 * MB}") == 0

	seen = snapshot(one)

	assert states(seen) == {"live": (10, 40 * MB), "exported": (0, 0), "pending": (0, 0), "idle": (0, 0)}
	assert seen["cuda"].startswith("account")
	assert seen["devices"][0]["unlisted"]["managed_live_bytes"] == 8 * MB


def test_the_table_reads_as_it_should(cuda, control, settled):
	one = cuda(CUDA_DECAY_MS=30000)
	fill(one, 40, 24)
	settled(one)

	text = control(one.env, "snapshot", one.pid).stdout

	assert re.search(rf"^\S*cuda_puppet\S* \({one.pid}\) at [0-9:.]+: 16 blocks, seen in ", text)
	assert re.search(r"^GPU 0: .+, mode pool, .* free of 1000\.0 MB$", text, re.MULTILINE)
	assert re.search(r"^ *live +10 +40\.0 MB +40\.0 MB +4\.0 MB +", text, re.MULTILINE)
	assert re.search(r"^ *idle +6 +24\.0 MB +24\.0 MB +4\.0 MB +", text, re.MULTILINE)
	assert "by itself after 30 s (MT_CUDA_DECAY_MS), unless it is taken before: 24.0 MB within 1 min\n" in text
	assert "largest idle block: 4.0 MB of 24.0 MB idle" in text
	assert len(re.findall(r"^ *0  0x[0-9a-f]+ ", text, re.MULTILINE)) == 10, "the ten largest"
	assert all(ord(letter) < 127 for letter in text)


def test_device_and_top_choose_what_is_listed(cuda, snapshot):
	one = cuda()
	fill(one, 12, 0)
	assert one.number(f"alloc 100 {9 * MB}") == 0

	seen = snapshot(one, "--top=1")
	assert [block["bytes"] for block in seen["blocks"]] == [9 * MB]
	assert (seen["blocks_count"], states(seen)["live"]) == (4, (4, 21 * MB))
	assert snapshot(one, "--device=1")["blocks"] == []
	assert snapshot(one, "--device=0")["blocks_count"] == 4


def test_o_writes_the_json_for_others_to_draw(cuda, control, tmp_path):
	one = cuda()
	fill(one, 12, 4)
	file = tmp_path / "pool.json"

	got = control(one.env, "snapshot", one.pid, "-o", file)

	assert (got.returncode, got.stdout) == (0, "")
	assert len(json.loads(file.read_text())["blocks"]) == 4
	assert file.stat().st_mode & 0o777 == 0o600
	got = control(one.env, "snapshot", one.pid, "-o", tmp_path / "nowhere" / "x")
	assert got.returncode == USAGE and "No such file" in got.stderr
	assert control(one.env, "snapshot", one.pid, "-o", "/dev/full").returncode == USAGE


def test_without_cuda_and_with_cuda_off_it_says_why_not(cuda, puppet, env, awake, control):
	off = cuda(CUDA="off", MIN_MB=0)
	got = control(off.env, "snapshot", off.pid)
	assert got.returncode == NOTHING and "MT_CUDA=off" in got.stderr

	plain_env = env(MIN_MB=0)
	none = puppet(plain_env)
	awake(none.pid, plain_env)
	got = control(plain_env, "snapshot", none.pid)
	assert got.returncode == NOTHING and "no CUDA in use there" in got.stderr


def test_wrong_words_are_a_wrong_use(control, env):
	plain = env()
	for words in ([], ["--device=x", os.getpid()], ["--top=-1", os.getpid()], ["1", "2"]):
		assert control(plain, "snapshot", *words).returncode == USAGE, words
	assert control(plain, "snapshot", os.getpid()).returncode == NOT_SHIMMED


def test_sums_hold_while_four_threads_allocate_and_children_are_forked(cuda, snapshot, mt_dir):
	one = cuda()
	fill(one, 40, 0)
	with concurrent.futures.ThreadPoolExecutor(1) as pool:
		storm = pool.submit(one.number, "storm 3 40")
		seen = [snapshot(one) for _ in range(6)]
		assert storm.result(60) == 0, "no block was handed out twice, and every child has ended well"

	for each in seen:
		assert each["summary"]["live"]["held_bytes"] >= 40 * MB
		assert each["blocks_count"] <= 10 + 4 * 8 * 64
	assert leftovers(mt_dir) == []


def wait_until_stopped(pid):
	"""Of a busy machine's process, each thread by itself."""
	until = time.monotonic() + 20
	while time.monotonic() < until:
		tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
		if all(" T " in (task / "stat").read_text().rpartition(")")[2][:4] for task in tasks):
			return
		time.sleep(0.01)
	raise AssertionError("still runs")


def test_a_process_that_is_killed_while_it_is_asked_leaves_no_file_behind(cuda, mtctl, control, mt_dir):
	one = cuda()
	fill(one, 40, 24)
	os.kill(one.pid, signal.SIGSTOP)
	wait_until_stopped(one.pid)
	asking = subprocess.Popen([mtctl, "snapshot", str(one.pid)], env=one.env, stdout=subprocess.PIPE,
	                          stderr=subprocess.PIPE, text=True)
	time.sleep(0.3)
	assert asking.poll() is None
	os.kill(one.pid, signal.SIGKILL)
	_, error = asking.communicate(timeout=20)

	assert asking.returncode in (NO_PROCESS, NO_ANSWER), error
	control(one.env, "ps")
	assert leftovers(mt_dir) == []


def test_the_sweep_takes_what_a_dead_process_has_left(cuda, control, mt_dir):
	one = cuda()
	stats = next(file for file in mt_dir.iterdir() if file.suffix == ".stats")
	os.kill(one.pid, signal.SIGKILL)
	one.process.wait()
	stats.with_suffix(".blocks").write_bytes(b"x")

	control(one.env, "ps")

	assert list(mt_dir.iterdir()) == []


def test_two_that_ask_at_once_are_both_answered(cuda, mtctl):
	one = cuda()
	fill(one, 40, 24)
	words = [mtctl, "snapshot", str(one.pid), "--json"]
	asking = [subprocess.Popen(words, env=one.env, stdout=subprocess.PIPE, text=True) for _ in range(4)]

	for each in asking:
		text, _ = each.communicate(timeout=20)
		assert each.returncode == 0 and json.loads(text)["blocks_count"] == 16


# ---- answers that the real shim never gives ----

HEAD, ENTRY = struct.Struct("=Q4I6Q"), struct.Struct("=3QIHBB")


def blocks_file(entries, version=2, count=None):
	"""NAME.blocks with these entries: base, held, asked, age_ms, context, device, state."""
	body = b"".join(ENTRY.pack(*entry) for entry in entries)
	head = HEAD.pack(0x31736b6c62746d, version, HEAD.size, ENTRY.size, len(entries) if count is None else count, 0,
	                 time.time_ns(), 1000, 30000, fake_shim.checksum(body), 0)[:-8]
	return head + struct.pack("=Q", fake_shim.checksum(head)) + body


# What memory_viz reads of a snapshot: torch/cuda/_memory_viz.py and torch/utils/viz/MemoryViz.js of PyTorch 2.
FRAMES = {"type": "array", "items": {"type": "object", "required": ["name", "filename", "line"],
                                     "properties": {"name": {"type": "string"}, "filename": {"type": "string"}, "line": {"type": "integer"}}}}
SIZE = {"type": "integer", "minimum": 0}
BLOCK = {"type": "object", "required": ["address", "size", "requested_size", "state", "frames"],
         "properties": {"address": SIZE, "size": SIZE, "requested_size": SIZE, "frames": FRAMES,
                        "state": {"enum": ["active_allocated", "active_pending_free", "inactive"]}}}
SEGMENT = {"type": "object", "required": ["device", "address", "total_size", "allocated_size", "active_size", "stream", "segment_type", "blocks"],
           "properties": {"device": SIZE, "address": SIZE, "total_size": SIZE, "allocated_size": SIZE, "active_size": SIZE, "stream": SIZE,
                          "requested_size": SIZE, "segment_type": {"enum": ["small", "large"]}, "is_expandable": {"const": False}, "frames": FRAMES,
                          "blocks": {"type": "array", "items": BLOCK, "minItems": 1}}}
EVENT = {"type": "object", "required": ["action", "addr", "size", "stream", "frames", "time_us"],
         "properties": {"action": {"const": "alloc"}, "addr": SIZE, "size": SIZE, "stream": SIZE, "time_us": SIZE, "frames": FRAMES}}
PICKLE = {"type": "object", "required": ["segments", "device_traces"],
          "properties": {"segments": {"type": "array", "items": SEGMENT},
                         "device_traces": {"type": "array", "items": {"type": "array", "items": EVENT}}}}
# The opcodes that the reader in the browser knows.
OPCODES = set("PROTO APPENDS BINGET BININT BININT1 BININT2 EMPTY_DICT EMPTY_LIST FRAME LONG1 LONG_BINGET MARK MEMOIZE SETITEMS SHORT_BINUNICODE "
              "STOP TUPLE2 APPEND NEWFALSE BINPUT BINUNICODE EMPTY_TUPLE NEWTRUE NONE BINFLOAT TUPLE TUPLE1 TUPLE3 LONG_BINPUT LIST DICT "
              "SETITEM".split())


def pickled(fake, ctl, run, plain, tmp_path):
	entries = [(0x7f0000000000 + i * GB, held, asked, age, 0, device, state) for i, (held, asked, age, device, state) in enumerate(
		[(4 * MB, 4 * MB - 96, 9000, 0, 0), (2 * MB, 2 * MB, 7000, 0, 1), (MB, 1000, 5, 0, 2), (512, 500, 60, 2, 3), (8 * GB, 8 * GB, 9500, 0, 0)])]
	seen, file = tmp_path / "pool.json", tmp_path / "pool.pickle"
	pid = fake(blocks=blocks_file([*entries, (2**64 - 4096, 512, 512, 2**32 - 1, 7, 0, 0)]).hex())
	assert ctl("snapshot", pid, "-o", seen).returncode == 0
	done = run([PYTHON, "-m", "mtshim.snapshot", seen, file], {**plain, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1"})
	assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
	refused = ctl("snapshot", pid, "-o", file)
	assert refused.returncode == USAGE and "python3 -m mtshim.snapshot" in refused.stderr
	assert file.stat().st_mode & 0o777 == 0o600
	return file.read_bytes()


def test_a_pickle_is_what_memory_viz_reads(fake, ctl, run, plain, tmp_path):
	data = pickled(fake, ctl, run, plain, tmp_path)
	seen = pickle.loads(data)

	pytest.importorskip("jsonschema").Draft7Validator(PICKLE).validate(seen)
	assert {code.name for code, _, _ in pickletools.genops(data)} <= OPCODES
	segments = {one["address"] - 0x7f0000000000: one for one in seen["segments"]}
	assert [segments[i * GB]["blocks"][0]["state"] for i in range(5)] == [
		"active_allocated", "active_allocated", "active_pending_free", "inactive", "active_allocated"]
	assert segments[0]["blocks"][0]["requested_size"] == 4 * MB - 96 and segments[4 * GB]["total_size"] == 8 * GB
	assert segments[GB]["frames"][0]["name"] == "exported" and segments[3 * GB]["device"] == 2
	assert segments[2 * GB]["segment_pool_id"] == (0, 0) and segments[2 * GB]["active_size"] == MB and not segments[2 * GB]["allocated_size"]
	# what is live, the oldest first: the blocks of device 0
	assert [len(trace) for trace in seen["device_traces"]] == [4, 0, 0]
	times = [event["time_us"] for event in seen["device_traces"][0]]
	assert times == sorted(times) and times[2] - times[1] == 500_000 and seen["device_traces"][0][1]["size"] == 8 * GB


def test_memory_viz_itself_takes_the_pickle(fake, ctl, run, plain, tmp_path):
	"""PyTorch's own file, without the rest of PyTorch: it needs nothing of it."""
	torch = importlib.util.find_spec("torch")
	file = torch and pathlib.Path(torch.origin).parent / "cuda" / "_memory_viz.py"
	if not file or not file.exists():
		pytest.skip("PyTorch is not installed")
	spec = importlib.util.spec_from_file_location("memory_viz_of_torch", file)
	viz = importlib.util.module_from_spec(spec)
	spec.loader.exec_module(viz)
	seen = pickle.loads(pickled(fake, ctl, run, plain, tmp_path))
	given = seen if hasattr(viz, "segsum") else seen["segments"]  # 1.13 took the list of segments

	assert "active_allocated" in viz.memory(given, format_flamegraph=str)
	assert f"seg_{0x7f0000000000}" in viz.segments(given, format_flamegraph=str)
	if hasattr(viz, "stats"):
		assert viz.stats(given)["segments"] == 6
	if hasattr(viz, "segsum"):
		assert viz.segsum(seen) and viz.trace(seen)
		assert "<html>" in viz.trace_plot(seen) and "<html>" in viz.segment_plot(seen)


def test_of_two_blocks_at_one_address_the_later_one_stands(fake, ctl):
	entries = [(0x1000, MB, MB, 5, 0, 0, 3), (0x900, MB, 7, 5, 0, 0, 1), (0x1000, 2 * MB, MB, 1, 0, 0, 0)]
	pid = fake(blocks=blocks_file(entries).hex())

	seen = json.loads(ctl("snapshot", pid, "--json").stdout)

	assert [(block["id"], block["held_bytes"], block["state"]) for block in seen["blocks"]] == [
		("0x900", MB, "exported"), ("0x1000", 2 * MB, "live")]
	check_sums(seen)


def test_a_server_lists_the_largest_and_sums_all(fake, serve, tmp_path):
	"""Of a million blocks the whole list is 110 MB."""
	entries = [((1 + i) << 30, (1 + i) * 512, 512, 5, 0, 0, 0) for i in range(10_010)]
	(tmp_path / "blocks").write_bytes(blocks_file(entries))

	got = serve().get(f"/api/processes/{fake(blocks_copy=str(tmp_path / 'blocks'))}/snapshot", timeout=60)

	assert got.status == 200 and len(got.body) < 2_000_000
	assert (got.json["listed_count"], got.json["blocks_count"]) == (10_000, 10_010)
	assert min(block["held_bytes"] for block in got.json["blocks"]) == 11 * 512
	assert got.json["summary"]["live"]["held_bytes"] == sum(entry[1] for entry in entries)
	check_sums(got.json)


def test_what_the_file_says_of_devices_that_are_not_known_is_shown(fake, ctl):
	pid = fake(blocks=blocks_file([(0x1000, MB, MB, 2 ** 32 - 1, 65535, 255, 2)]).hex())

	assert "\nGPU 255: ?, mode ?\n" in ctl("snapshot", pid).stdout


GOOD = blocks_file([(0x1000, MB, MB, 5, 0, 0, 3)])
REFUSED = {
	"an empty file": b"", "a cut head": GOOD[:40], "a cut body": GOOD[:-1], "more than it says": GOOD + b"x",
	"a forged body": GOOD[:-1] + b"\1", "a forged head": GOOD[:30] + b"\1" + GOOD[31:],
	"another version": blocks_file([], version=1), "a count that lies": blocks_file([], count=2 ** 32 - 1),
	"a state that is none": blocks_file([(0x1000, MB, MB, 5, 0, 0, 4)]),
	"a size that cannot be": blocks_file([(0x1000, 2 ** 45, MB, 5, 0, 0, 0)]),
	"more asked than held": blocks_file([(0x1000, MB, MB + 1, 5, 0, 0, 0)]),
	"no address": blocks_file([(0, MB, MB, 5, 0, 0, 0)]),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_file_that_is_not_what_it_should_be_is_refused(fake, ctl, what, mt_dir):
	pid = fake(blocks=REFUSED[what].hex())

	got = ctl("snapshot", pid)

	assert got.returncode == USAGE and "refused" in got.stderr and got.stdout == ""
	assert leftovers(mt_dir) == []


def test_a_link_or_a_file_that_others_may_write_is_refused_and_not_removed(fake, ctl, mt_dir, tmp_path):
	victim = tmp_path / "victim"
	victim.write_bytes(GOOD)
	for options in ({"blocks_link": str(victim)}, {"blocks": GOOD.hex(), "blocks_mode": "666"}):
		got = ctl("snapshot", fake(**options))
		assert got.returncode == USAGE and "refused" in got.stderr
	assert victim.read_bytes() == GOOD
	assert leftovers(mt_dir) == [".blocks", ".blocks"]


def test_an_answer_that_another_has_fetched_is_asked_for_again_and_then_given_up(fake, ctl):
	assert ctl("snapshot", fake(blocks=GOOD.hex(), blocks_lost=2)).returncode == 0

	got = ctl("snapshot", fake(blocks=GOOD.hex(), blocks_lost=3))

	assert got.returncode == USAGE and "others have fetched its answer" in got.stderr


def test_hostile_names_stay_out_of_the_terminal_and_of_the_json(fake, ctl):
	evil = "\x1b[2J\n\xff\"}" * 8
	pid = fake(text=evil, blocks=GOOD.hex(), devices=[{"ordinal": 0, "name": evil, "pci": evil, "mode": evil}])

	for words in ([], ["--json"]):
		got = ctl("snapshot", pid, *words)
		assert got.returncode == 0, got.stderr
		assert "\x1b" not in got.stdout and "\ufffd" not in got.stdout
	json.loads(got.stdout)
