"""What is for a machine with a GPU (tests/gpu, bench/gpu), run on the stand-in driver so that it cannot rot unseen."""
import importlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def build(shim):
	return shim.parent


@pytest.fixture
def fake(build):
	folder = build / "tests" / "fakecuda"
	if not (folder / "libcuda.so.1").exists():
		pytest.fail(f"{folder}/libcuda.so.1 is not there: build the stand-in driver first (make check-integration)", pytrace=False)
	return folder


def test_the_stale_reuse_check_fails_on_a_driver_that_hands_memory_out_too_early(run, bare, build, fake):
	env = dict(bare, LD_LIBRARY_PATH=str(fake), FAKECUDA_FREE_WAITS="0", FAKECUDA_REUSE="1")
	done = run([build / "tests" / "gpu" / "checks", "reuse_non_blocking"], env=env)
	assert done.returncode == 1, done.stdout + done.stderr


def test_the_probe_has_an_answer_or_a_reason_for_every_item(run, bare, build, fake, tmp_path):
	done = run([sys.executable, ROOT / "tests" / "gpu" / "kit", "truth", tmp_path, "probe.", "--build", build, "--fake", fake], env=bare,
	           timeout=200)
	rows = {row["name"]: row for row in json.loads((tmp_path / "truth.json").read_text())["rows"]}
	items = {name: row.get("figures", {}) for name, row in rows.items()}
	assert done.returncode == 0 and len(items) > 45, done.stdout + done.stderr
	assert all(row["text"] for row in rows.values() if row["outcome"] == "skipped")
	assert items["probe.machine"]["is_fake"] is True
	assert items["probe.cost.events.16_threads"]["cuEventRecord_ns"] > 0
	assert items["probe.odd_free.double"]["code"] == 1
	assert items["probe.record_sees.non_blocking"]["sees"] is True
	# What the capture gate is for.
	assert items["probe.capture.relaxed.other.relaxed"]["cuCtxRecordEvent_survives"] is False
	assert items["probe.capture.relaxed.other.relaxed"]["nothing_survives"] is True
	assert "cuMemFree waits for a kernel in a stream: non_blocking: true" in done.stdout


def bench_of_fake(run, bare, build, fake, target, *words, timeout=100):
	return run([ROOT / "bench" / "gpu" / "run", "--build", build, "--fake", fake, "--json", target, "--python", sys.executable, *words],
	           env=bare, timeout=timeout)


def test_the_bench_of_pairs_and_mixes_runs_on_the_stand_in_driver(run, bare, build, fake, tmp_path):
	target = tmp_path / "figures.json"
	# A short mix is over before a busy machine lets the device of the stand-in work at all: nothing that is freed may be taken again.
	done = bench_of_fake(run, bare, build, fake, target, "--only", "pairs,mixes", "--runs", "1", "--pair-ms", "2", "--mix-steps", "10000")
	assert done.returncode == 0, done.stdout + done.stderr
	runs = json.loads(target.read_text())["runs"]
	driver, shim = runs["gpu-pairs"]["driver"][0], runs["gpu-pairs"]["pool/async"][0]
	assert driver["idle_1_alloc_1MiB_ns"] > 0 and shim["busy_16_free_64KiB_p95_ns"] > 0 and "idle_1_alloc_8GiB_ns" not in driver
	# This driver's cuMemFree waits for the kernel of 2 ms; a free that the fence covers does not.
	assert driver["busy_1_free_1MiB_ns"] > 1.5e6 > shim["busy_1_free_1MiB_ns"]
	assert runs["gpu-pairs"]["event"][0]["event_ns"] > 0
	for mix in ("gpu-mix-small", "gpu-mix-large"):
		driver, shim = runs[mix]["driver"][0], runs[mix]["pool/async"][0]
		assert "hit_percent" not in driver and 0 < shim["hit_percent"] < 100
		assert shim["peak_live_mib"] == driver["peak_live_mib"] < driver["peak_held_mib"] < shim["peak_held_mib"]


@pytest.mark.slow
def test_the_bench_sees_memory_come_back_as_another_process_does(run, bare, build, fake, tmp_path):
	target = tmp_path / "figures.json"
	done = bench_of_fake(run, bare, build, fake, target, "--only", "giveback", "--programs", "decay,signal", "--signals", "1",
	                     "--decay-ms", "400")
	assert done.returncode == 0, done.stdout + done.stderr
	record = json.loads(target.read_text())
	runs = record["runs"]["gpu-giveback"]
	assert [one["left_mib"] < 64 and 0 < one["signal_ms"] < 1000 for one in runs["signal"]] == [True]
	assert runs["decay"][0]["idle_mib"] > 100 and 0 <= runs["decay"][0]["decay_ms"] < 2400
	assert [bound["holds"] for bound in record["bounds"]] == [True, True]
	series = record["series"]["decay"]
	free, events = dict(map(tuple, series["samples"])), series["events"]
	at_idle = [mib for moment, mib in free.items() if events["start"] < moment < events["freed"]]
	assert min(at_idle) + 200 < list(free.values())[-1] and len(free) <= 301


def test_processes_on_the_stand_in_driver_see_each_others_memory_until_they_are_gone(run, bare, build, fake, tmp_path):
	env = dict(bare, LD_LIBRARY_PATH=str(fake), FAKECUDA_SHARED=str(tmp_path / "device"), FAKECUDA_FREE_WAITS="2", HOLD="1")
	def free():
		return int(run([build / "tests" / "gpu" / "phases", "total"], env=env).stdout.split()[1])
	before = free()
	holder = subprocess.Popen([build / "tests" / "gpu" / "pairs", "sync", "mix", "1048576", "67108864", "100"], env=env, stdin=subprocess.PIPE,
	                          stdout=subprocess.PIPE, text=True)
	try:
		assert "peak_live_mib" in holder.stdout.readline()
		assert free() < before - (32 << 20)
	finally:
		holder.kill()
		holder.communicate()
	assert free() == before


def test_memory_that_does_not_come_back_is_a_miss_and_one_that_goes_again_is_not_back(monkeypatch):
	monkeypatch.syspath_prepend(str(ROOT / "bench"))
	monkeypatch.syspath_prepend(str(ROOT / "bench" / "gpu"))
	giveback, promises, sampler = (importlib.import_module(name) for name in ("giveback", "promises", "sampler"))
	one = sampler.Sampler.__new__(sampler.Sampler)
	events = {"start": 1.0, "freed": 2.0, "idle": 3.0, "end": 9.0}
	mib = 2**20
	one.samples = [(0.5, 1000 * mib), (1.5, 200 * mib), (4.0, 980 * mib), (4.5, 200 * mib), (9.0, 200 * mib)]
	figures = giveback.figures_of(one, events, 0)
	assert figures["idle_mib"] == 800 and figures["back_90_s"] is None and figures["decay_ms"] is None and figures["watched_s"] == 7
	assert [verdict.holds for verdict in promises.of_giveback({"decay": [figures], "signal": [figures]}, 5000)] == [False, False]
	# What is kept is charged in pieces of 2 MiB: 8 MiB more than it has bytes.
	one.samples[3:] = [(4.5, 930 * mib), (6.25, 992 * mib), (9.0, 992 * mib)]
	figures = giveback.figures_of(one, events, 0)
	assert (figures["back_90_s"], figures["decay_ms"], figures["left_mib"]) == (2.0, 3250, 8)
	assert [verdict.holds for verdict in promises.of_giveback({"decay": [figures]}, 5000)] == [None, True]


def test_a_program_that_breaks_off_takes_no_other_figures_with_it(monkeypatch):
	monkeypatch.syspath_prepend(str(ROOT / "bench"))
	monkeypatch.syspath_prepend(str(ROOT / "bench" / "gpu"))
	budget, giveback, pairs = (importlib.import_module(name) for name in ("budget", "giveback", "pairs"))
	time_left = budget.Budget(60, {})
	part = pairs.Gathering(None, time_left)
	part.take_turn("good", "pairs", 1, lambda: ({"ns": 1}, None))
	part.take_turn("silent", "pairs", 1, lambda: (json.loads(""), None))
	assert part.results == {"good": [{"ns": 1}]} and part.skipped["silent"].startswith("JSONDecodeError")
	commands = {"silent": (["true"], False, {}, 1), "gone": (["/nonexistent"], False, {}, 1)}
	monkeypatch.setattr(giveback, "programs", lambda *_: commands)
	place = types.SimpleNamespace(env=lambda *_, **__: {})
	results, skipped, series = giveback.measure(place, time_left, None, True, 1000)
	assert (results, series, sorted(skipped)) == ({}, {}, ["gone", "silent"])


def test_the_bench_cuts_by_name_what_there_is_no_time_for(run, bare, build, fake, tmp_path):
	target = tmp_path / "figures.json"
	begin = time.monotonic()
	done = bench_of_fake(run, bare, build, fake, target, "--only", "giveback,mixes", "--seconds", "1")
	assert time.monotonic() - begin < 12
	assert done.returncode == 1, done.stdout + done.stderr
	cut = json.loads(target.read_text())["cut"]
	assert "giveback: decay" in cut and "mix of small blocks 3/3: pool/async" in cut
	assert "cut, no time left: giveback: decay, signal" in done.stdout


def test_the_peak_of_a_training_has_a_bound_in_each_way(monkeypatch):
	monkeypatch.syspath_prepend(str(ROOT / "bench"))
	monkeypatch.syspath_prepend(str(ROOT / "bench" / "gpu"))
	promises = importlib.import_module("promises")
	def holds(wait, asynchronous):
		peaks = {"no_cache": 1000, "no_cache+wait": wait, "no_cache+async": asynchronous}
		return [one.holds for one in promises.of_peak("resnet", {way: [{"device_peak_mib": peak}] for way, peak in peaks.items()})]
	assert holds(1290, 1310) == [True, True] and holds(1400, 1400) == [False, False]
	assert [one.holds for one in promises.of_peak("resnet", {})] == [None, None]


@pytest.mark.long
def test_the_training_programs_run_without_a_gpu(run, bare, build, fake, tmp_path):
	python = "/usr/bin/python3"
	if run([python, "-c", "import importlib.util as u, sys; sys.exit(not u.find_spec('torch'))"], env=bare).returncode != 0:
		pytest.skip("no PyTorch here")
	target = tmp_path / "figures.json"
	done = bench_of_fake(run, bare, build, fake, target, "--python", python, "--only", "transformer", "--device", "cpu", "--scale", "small",
	                     "--ways", "cache,cache+shim", "--rounds", "3", "--burst-s", "0.05")
	assert done.returncode == 0, done.stdout + done.stderr
	record = json.loads(target.read_text())
	runs = record["runs"]["gpu-transformer"]
	assert runs["cache+shim"][0]["step_ms"] > 0 and record["ratios"]["gpu-transformer"]["cache+shim"]["pairs"] == 3
	# The same steps: the same numbers, with the shim and without.
	assert runs["cache+shim"][0]["last_loss"] == runs["cache"][0]["last_loss"]
	done = run([python, ROOT / "bench" / "gpu" / "train.py", "resnet", "--device", "cpu", "--scale", "small"],
	           env=bare, input="start\nburst 2 1\nfigures\n")
	assert [json.loads(line)["event"] for line in done.stdout.splitlines()] == ["loaded", "start", "ready", "burst", "figures"], done.stderr


@pytest.mark.skipif(not shutil.which("ptxas"), reason="no CUDA toolkit here")
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90", "sm_120"])
def test_the_kernels_assemble(run, bare, build, tmp_path, architecture):
	text = run([build / "tests" / "gpu" / "checks", "--role", "ptx"], env=bare).stdout
	assert "mt_spin" in text and "mt_fill" in text
	(tmp_path / "kernels.ptx").write_text(text)
	subprocess.run(["ptxas", "-arch", architecture, "-o", tmp_path / "kernels.cubin", tmp_path / "kernels.ptx"], check=True)


@pytest.mark.parametrize("name", ["reuse_non_blocking", "reuse_blocking", "reuse_per_thread", "reuse_null", "reuse_graph",
                                  "reuse_threads"])
def test_each_reuse_check_fails_when_the_fence_is_taken_out(run, bare, build, fake, mt_dir, name):
	unfenced = build / "tests" / "nofence" / "libmtshim.so"
	if not unfenced.exists():
		pytest.skip("no shim without its fences is built here")
	env = dict(bare, LD_PRELOAD=str(unfenced), MT_DIR=str(mt_dir), MT_CUDA="pool", LD_LIBRARY_PATH=str(fake), FAKECUDA_DEVICES="2")
	done = run([build / "tests" / "gpu" / "checks", name], env=env)
	assert done.returncode == 1 and re.search("overwritten|error 700", done.stdout), done.stdout + done.stderr
