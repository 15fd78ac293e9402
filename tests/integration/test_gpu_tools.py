"""What is for a machine with a GPU (tests/gpu, bench/gpu), run on the stand-in driver so that it cannot rot unseen."""
import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CLIENTS = ("torch.cache", "torch.no_cache", "torch.graph_signal", "cupy", "jax.platform", "numba")


@pytest.fixture
def build(shim):
	return shim.parent


@pytest.fixture
def fake(build):
	folder = build / "tests" / "fakecuda"
	if not (folder / "libcuda.so.1").exists():
		pytest.fail(f"{folder}/libcuda.so.1 is not there: build the stand-in driver first (make check-integration)", pytrace=False)
	return folder


def closing(text):
	return tuple(map(int, re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped", text.rstrip().splitlines()[-1]).groups()))


def test_all_c_checks_pass_on_the_stand_in_driver_under_the_shim_and_clients_are_skipped_by_name(run, bare, build, fake):
	done = run([ROOT / "tests" / "gpu" / "check", "--build", build, "--fake", fake], env=bare, timeout=150)
	passed, failed, skipped = closing(done.stdout)
	assert done.returncode == 0 and failed == 0, done.stdout
	assert passed >= 24, done.stdout
	for name in CLIENTS:
		assert re.search(rf"^skipped +{re.escape(name)} .*needs a real driver", done.stdout, re.MULTILINE), done.stdout
	assert skipped >= len(CLIENTS)


def test_the_checks_that_must_hold_without_the_shim_do(run, bare, build, fake):
	done = run([ROOT / "tests" / "gpu" / "check", "--build", build, "--fake", fake, "--without-shim"], env=bare, timeout=150)
	assert done.returncode == 0 and closing(done.stdout)[1] == 0, done.stdout
	assert closing(done.stdout)[0] >= 18, done.stdout


def test_the_stale_reuse_check_fails_on_a_driver_that_hands_memory_out_too_early(run, bare, build, fake):
	env = dict(bare, LD_LIBRARY_PATH=str(fake), FAKECUDA_FREE_WAITS="0", FAKECUDA_REUSE="1")
	done = run([build / "tests" / "gpu" / "checks", "reuse_non_blocking"], env=env)
	assert done.returncode == 1, done.stdout + done.stderr


def test_the_probe_has_an_answer_or_a_reason_for_every_item(run, bare, build, fake):
	done = run([build / "tests" / "gpu" / "probe"], env=dict(bare, LD_LIBRARY_PATH=str(fake)), timeout=200)
	items = json.loads(done.stdout)["items"]
	bad = {name: item for name, item in items.items() if item["outcome"] not in ("done", "skipped")}
	assert done.returncode == 0 and not bad, bad
	assert all("remark" in item for item in items.values() if item["outcome"] == "skipped")
	assert items["machine"]["is_fake"] is True
	assert items["odd_free.double"]["code"] == 1
	assert items["record_sees.non_blocking"]["sees"] is True
	# What the capture gate is for.
	assert items["capture.relaxed.other.relaxed"]["cuCtxRecordEvent_survives"] is False
	assert items["capture.relaxed.other.relaxed"]["nothing_survives"] is True


def test_without_a_driver_nothing_passes(run, bare, build):
	env = dict(bare, LD_LIBRARY_PATH="/nonexistent")
	done = run([ROOT / "tests" / "gpu" / "check", "--build", build, "--python", sys.executable, "c.ipc", "c.fork"], env=env)
	assert (done.returncode, closing(done.stdout)) == (1, (0, 1, 2)), done.stdout
	assert run([build / "tests" / "gpu" / "pairs", "sync"], env=env).returncode == 77


def test_the_bench_of_pairs_runs_on_the_stand_in_driver(run, bare, build, fake, tmp_path):
	target = tmp_path / "figures.json"
	done = run([ROOT / "bench" / "gpu" / "run", "--build", build, "--fake", fake, "--only", "pairs", "--runs", "1", "--pair-ms", "10", "--json", target,
	            "--python", sys.executable], env=bare, timeout=100)
	assert done.returncode == 0, done.stdout + done.stderr
	runs = json.loads(target.read_text())["runs"]["gpu-pairs"]
	assert runs["driver"][0]["pair_1MiB_ns"] > 0 and runs["shim"][0]["used_64KiB_ns"] > 0


@pytest.mark.skipif(not shutil.which("ptxas"), reason="no CUDA toolkit here")
@pytest.mark.parametrize("architecture", ["sm_75", "sm_90", "sm_120"])
def test_the_kernels_assemble(run, bare, build, tmp_path, architecture):
	text = run([build / "tests" / "gpu" / "checks", "--role", "ptx"], env=bare).stdout
	assert "mt_spin" in text and "mt_fill" in text
	(tmp_path / "kernels.ptx").write_text(text)
	subprocess.run(["ptxas", "-arch", architecture, "-o", tmp_path / "kernels.cubin", tmp_path / "kernels.ptx"], check=True)


@pytest.mark.parametrize("name", ["reuse_non_blocking", "reuse_blocking", "reuse_per_thread", "reuse_null", "reuse_graph",
                                  "reuse_peer", "reuse_threads"])
def test_each_reuse_check_fails_when_the_fence_is_taken_out(run, bare, build, fake, mt_dir, name):
	unfenced = build / "tests" / "nofence" / "libmtshim.so"
	if not unfenced.exists():
		pytest.skip("no shim without its fences is built here")
	env = dict(bare, LD_PRELOAD=str(unfenced), MT_DIR=str(mt_dir), MT_CUDA="pool", LD_LIBRARY_PATH=str(fake), FAKECUDA_DEVICES="2")
	done = run([build / "tests" / "gpu" / "checks", name], env=env)
	assert done.returncode == 1 and "overwritten" in done.stdout, done.stdout + done.stderr
