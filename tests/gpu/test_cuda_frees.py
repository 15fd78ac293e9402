"""Programs that free behind running work, on a driver whose cuMemFree waits for all streams of the context, as NVIDIA's guide says.

cuda_frees.c has the programs. By default the pool's free waits as the driver's does, so that results, errors and memory are the driver's.
With MT_CUDA_FREE=async it does not wait, and what it holds has a cap.
"""
import json
import re
import shutil

import pytest

VERSIONS = ["13.0", "12.8", "12.2"]
MB = 1 << 20


@pytest.fixture
def program(compile_c):
	return compile_c("cuda_frees.c")


@pytest.fixture
def play(run, program, fakecuda, env, bare, tmp_path):
	"""play(word, settings or None: without the shim, ...): what it printed, and the most that the stand-in had lent, in MB."""
	def one(word, settings, version="13.0", **driver):
		ledger = tmp_path / f"ledger-{word}-{settings is None}"
		driver = {"DEVICES": 2, "MEMORY_MB": 1000, "FREE_WAITS": 2, "LEDGER": ledger, **driver}
		got = run([program, word], fakecuda(bare if settings is None else env(**settings), version, **driver), timeout=60)
		return got, json.loads(ledger.read_text().splitlines()[-1])["peak_charged_bytes"] / MB
	return one


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("word", ["steps", "growing"])
def test_temporaries_behind_kernels_take_no_more_than_the_drivers(play, word, version):
	_, alone = play(word, None, version)
	got, held = play(word, {}, version)

	assert got.returncode == 0, got.stdout + got.stderr
	assert held <= 1.3 * alone


@pytest.mark.slow
def test_a_block_behind_each_kernel_of_one_stream_stays_one_block(play):
	got, held = play("one_stream", {})

	assert got.returncode == 0 and held <= 13, got.stdout


@pytest.mark.parametrize("word, live", [("steps", 4), ("one_stream", 10), ("growing", 160)])
def test_a_free_that_does_not_wait_holds_a_quarter_and_64_mb_more_at_most(play, word, live):
	got, held = play(word, {"CUDA_FREE": "async"})

	assert got.returncode == 0, got.stdout + got.stderr
	assert live < held <= live * 1.25 + 64


@pytest.mark.parametrize("word, live", [("in_captures", 10), ("half_pages", 200)])
@pytest.mark.parametrize("free, more", [("wait", 0), ("async", 64)])
def test_in_captures_and_in_the_drivers_pages_the_cap_is_the_same(play, word, live, free, more):
	got, held = play(word, {"CUDA_FREE": free})

	assert got.returncode == 0, got.stdout + got.stderr
	assert live <= held <= live * 1.25 + more


@pytest.mark.parametrize("free", ["wait", "async"])
def test_many_blocks_that_are_nearly_as_large_hide_none(play, free):
	got, _ = play("close_sizes", {"CUDA_FREE": free})

	assert got.stdout == "more from the driver: 0\ndone\n", got.stderr


@pytest.mark.parametrize("free", ["auto", "wait", "async"])
def test_a_queue_on_one_device_holds_nothing_back_on_another(play, free):
	got, _ = play("two_devices", {"CUDA_FREE": free})

	assert got.stdout == "peak: 10 MB\ndevice 1: 10 MB\ndone\n"


@pytest.mark.parametrize("word, live", [("one_beside_context", 10), ("many_beside_context", 200)])
@pytest.mark.parametrize("free", ["wait", "async"])
def test_beside_work_of_another_context_blocks_take_what_they_take_with_the_driver(play, word, live, free):
	"""That work may use the blocks, and the driver's free does not wait for it."""
	got, held = play(word, {"CUDA_FREE": free})

	assert got.stdout.endswith("at once\ndone\n"), got.stdout
	assert held == live


@pytest.mark.parametrize("version", ["12.8", "13.0"])
def test_after_a_copy_between_devices_by_a_batch_of_cuda_12_8_the_driver_frees(play, version):
	got, _ = play("batch_copy", {"CUDA": "pool"}, version)

	assert got.stdout.endswith("801\nused: 0 MB\ndone\n"), got.stdout + got.stderr


@pytest.mark.parametrize("free", ["wait", "async"])
def test_a_block_that_can_never_be_there_is_refused_at_once_beside_a_free_that_waits(play, free):
	"""It waited for that free, for up to 10 s."""
	got, _ = play("hopeless", {"CUDA_FREE": free})

	assert got.stdout == "cu.cuMemAlloc_v2(&dptr, 900 * MB): 2\n" * 2 + "done\n", got.stderr


@pytest.mark.parametrize("settings", [{}, {"CUDA": "pool"}, {"CUDA_FREE": "wait"}])
def test_what_an_asynchronous_copy_has_brought_is_there_after_the_free(play, settings):
	got, _ = play("copy_then_read", settings)

	assert got.stdout == "wrong: 0 of 5\ndone\n"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_error_of_a_faulting_kernel_reaches_a_program_that_checks_its_frees_alone(play, version):
	alone, _ = play("faulting_kernel", None, version)
	got, _ = play("faulting_kernel", {}, version)

	assert alone.stdout.endswith(": 700\n") and alone.returncode == 1
	assert got.stdout == alone.stdout and got.returncode == 1


@pytest.mark.parametrize("word", ["freed_twice", "other_context"])
def test_the_free_replies_as_the_drivers_and_waits_as_long(play, word):
	alone, _ = play(word, None)
	got, _ = play(word, {})

	assert got.stdout == alone.stdout and got.returncode == 0


@pytest.mark.slow
def test_a_neighbour_gets_the_memory_that_no_block_is_live_in(play):
	got, _ = play("neighbour", {})

	assert int(re.search(r"used: (\d+) MB", got.stdout)[1]) <= 13


def test_what_is_cached_raises_no_memory_pressure(play):
	got, _ = play("idle_cache", {"CUDA_FREE": "async", "CUDA_DECAY_MS": 0, "CUDA_LOW_PCT": 0, "MIN_MB": 0})

	assert got.returncode == 0 and "memory pressure" not in got.stderr, got.stderr


def test_beside_a_tool_that_watches_cuda_calls_every_call_is_the_drivers(run, program, fakecuda, env, tmp_path):
	ledger = tmp_path / "ledger"
	surroundings = dict(env(), CUDA_INJECTION64_PATH="/opt/tool/libinjection.so")
	got = run([program, "steps"], fakecuda(surroundings, FREE_WAITS=2, LEDGER=ledger), timeout=60)
	calls = json.loads(ledger.read_text().splitlines()[-1])["calls"]

	assert got.returncode == 0 and calls["cuMemAlloc_v2"] == calls["cuMemFree_v2"] == 2000


@pytest.mark.parametrize("uncached, most", [("1", 69), ("0", 5.2)])
def test_only_a_free_of_pytorch_without_its_own_cache_does_not_wait(run, program, fakecuda, env, compile_c, tmp_path, uncached, most):
	ledger, torch = tmp_path / "ledger", tmp_path / "libc10_cuda.so"
	shutil.copy(compile_c("nothing.c", "-shared", "-fPIC"), torch)
	surroundings = env()
	surroundings |= {"PYTORCH_NO_CUDA_MEMORY_CACHING": uncached, "LD_PRELOAD": f"{surroundings['LD_PRELOAD']}:{torch}"}
	got = run([program, "steps"], fakecuda(surroundings, FREE_WAITS=2, LEDGER=ledger), timeout=60)
	held = json.loads(ledger.read_text().splitlines()[-1])["peak_charged_bytes"] / MB

	assert got.returncode == 0, got.stdout + got.stderr
	assert held <= most and (held > 8) == (uncached == "1")
