"""`make gpu-kit`: the folder that checks and measures on a machine with a GPU, tried on the stand-in driver where there is nothing else."""
import json
import pathlib
import re
import shutil
import subprocess
import time

import pytest

import kit_root

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
OLDEST_GLIBC = (2, 39)  # of the machines that the kit goes to


@pytest.fixture
def kit(shim):
	folder = shim.parent / "gpu-kit"
	if not (folder / "run").exists():
		pytest.fail(f"{folder} is not there: make gpu-kit-files", pytrace=False)
	return folder


@pytest.fixture
def driver(shim):
	return shim.parent / "tests" / "fakecuda" / "libcuda.so.1"


@pytest.fixture
def bare_root(tmp_path, kit, driver):
	if not kit_root.can_enter():
		pytest.skip("no namespaces for a root of its own here")
	root = tmp_path / "root"
	kit_root.make_small_root(root)
	kit_root.furnish(root, kit, driver)
	return root


@pytest.fixture
def run_kit(run, bare, kit, driver, tmp_path):
	"""run_kit(words...): the kit on the stand-in driver, outside of any root; its results are in tmp_path."""
	def start(*words, library_path=driver.parent, timeout=120):
		return run([kit / "run", words[0], tmp_path, *words[1:]], env=dict(bare, LD_LIBRARY_PATH=str(library_path)), timeout=timeout)
	return start


def result_of(folder, mode):
	record = json.loads((folder / f"{mode}.json").read_text())
	assert all(record[key] for key in ("date", "commit", "device", "driver")), record
	return record


def outcomes(record):
	return {(row["name"], row["way"]): row["outcome"] for row in record["rows"]}


def expect_truth(done, folder):
	"""All that can be asked of the stand-in driver has passed, in each way that the library has."""
	assert done.returncode == 0, done.stdout + done.stderr
	record = result_of(folder, "truth")
	found = outcomes(record)
	assert re.search(r"^\d\d\d passed, 0 failed, \d+ skipped$", done.stdout, re.MULTILINE), done.stdout
	for way in ("bare", "account", "pool/async"):
		assert found["c.reuse_non_blocking", way] == "passed"
	assert found["c.decay", "pool/async"] == "passed" and ("c.decay", "account") not in found
	assert (folder / "truth.txt").read_text().startswith(record["date"])


@pytest.mark.long
def test_the_truth_is_found_in_a_root_without_compiler_network_and_packages(run, bare_root):
	done = run(kit_root.command_in(bare_root, "/kit/anywhere/run", "truth", "/out"), timeout=200)
	expect_truth(done, bare_root / "out")
	done = run(kit_root.command_in(bare_root, "/kit/anywhere/run", "clients", "/out", "ctypes", "torch.cache"), timeout=60)
	found = outcomes(result_of(bare_root / "out", "clients"))
	assert done.returncode == 0, done.stdout + done.stderr
	assert (found["ctypes", "auto"], found["torch.cache", "auto"]) == ("passed", "skipped")
	done = run(kit_root.command_in(bare_root, "/kit/anywhere/run", "figures", "/out", "rescue"), timeout=60)
	assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_the_truth_is_found_in_a_root_of_the_distribution(run, kit, driver, tmp_path):
	release = pathlib.Path("/etc/os-release").read_text()
	name = re.search(r"^VERSION_CODENAME=(\S+)", release, re.MULTILINE)
	if not shutil.which("mmdebstrap") or not kit_root.can_enter() or "ID=debian" not in release.splitlines() or not name:
		pytest.skip("mmdebstrap, namespaces and Debian are needed")
	root = tmp_path / "root"
	made = run([ROOT / "scripts" / "clean-root", name.group(1), root, "--include=python3"], timeout=900)
	if made.returncode != 0:
		pytest.skip(f"no clean root: {made.stderr[-300:]}")
	assert not list(root.glob("usr/bin/*gcc*")) and not list(root.glob("usr/lib/*/libjansson*"))
	kit_root.furnish(root, kit, driver)
	done = run(kit_root.command_in(root, "/kit/anywhere/run", "truth", "/out"), timeout=200)
	expect_truth(done, root / "out")


def test_the_kit_needs_no_library_but_libc_and_is_small(kit):
	files = [path for path in kit.rglob("*") if path.is_file()]
	assert sum(path.stat().st_size for path in files) < 20 << 20
	for path in files:
		if path.read_bytes()[:4] != b"\x7fELF" or path.suffix == ".cubin":
			continue
		text = subprocess.run(["objdump", "-p", path], capture_output=True, text=True, check=True).stdout
		needed = set(re.findall(r"NEEDED +(\S+)", text))
		assert needed <= {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}, (path, needed)
		newest = max([tuple(map(int, found.split("."))) for found in re.findall(r"GLIBC_(2\.\d+)", text)], default=(2, 0))
		assert newest <= OLDEST_GLIBC or newest > kit_glibc(), (path, newest)


def kit_glibc():
	"""Of this machine: one that is newer than those that the kit goes to cannot show what the kit needs."""
	text = subprocess.run(["getconf", "GNU_LIBC_VERSION"], capture_output=True, text=True, check=True).stdout
	version = tuple(map(int, text.split()[1].split(".")[:2]))
	return version if version <= OLDEST_GLIBC else (0, 0)


def test_without_a_driver_all_is_skipped_and_the_result_says_so(run_kit, tmp_path):
	for mode in ("truth", "clients", "figures"):
		done = run_kit(mode, library_path=tmp_path)
		assert done.returncode == 77 and done.stdout.rstrip().endswith("0 passed, 0 failed, 1 skipped"), done.stdout + done.stderr
		assert json.loads((tmp_path / f"{mode}.json").read_text())["rows"][0]["outcome"] == "skipped"


def test_a_run_ends_in_its_time_and_keeps_what_it_has(run_kit, tmp_path):
	begin = time.monotonic()
	done = run_kit("truth", "--seconds", "8")
	assert time.monotonic() - begin < 30
	found = list(outcomes(result_of(tmp_path, "truth")).values())
	assert done.returncode == 1 and "passed" in found and "cut" in found, done.stdout
	assert "FAILED" not in found, done.stdout


def test_a_client_is_the_same_with_the_shim_and_its_memory_goes_back(run_kit, tmp_path):
	done = run_kit("clients", "ctypes")
	rows = {row["way"]: row for row in result_of(tmp_path, "clients")["rows"]}
	assert done.returncode == 0, done.stdout
	assert rows["auto"]["text"].startswith("120 results equal")
	figures = rows["pool/async"]["figures"]
	assert figures["held_mib"] >= 64 and figures["held_after_trim_mib"] < 16, figures


def test_a_program_that_prints_something_else_under_the_shim_fails(kit_modules):
	clients, failure = kit_modules.import_module("clients"), kit_modules.import_module("result").Failure
	assert clients.same({"results": [1.0], "torch": "2"}, {"results": [1.0], "torch": "2"}) == "1 results equal"
	for other in ({"results": [1.1], "torch": "2"}, {"results": [1.0, 2.0], "torch": "2"}, {"results": [1.0], "torch": "3"}):
		with pytest.raises(failure):
			clients.judge(other, {"results": [1.0], "torch": "2"}, lambda: {"results": [1.0], "torch": "2"})
		with pytest.raises(kit_modules.import_module("result").Skip):
			clients.judge(other, {"results": [1.0], "torch": "2"}, lambda: {"results": [1.5], "torch": "2"})


def test_a_way_that_the_library_does_not_have_is_left_out(kit_modules):
	machine = object.__new__(kit_modules.import_module("gpu_machine").Machine)
	machine.settings = "MT_CUDA  auto"
	assert machine.settings_of("pool/wait") is None and machine.settings_of("pool/async") == {"MT_CUDA": "pool"}
	machine.settings = "MT_CUDA  auto\nMT_CUDA_FREE  auto"
	assert machine.settings_of("pool/wait") == {"MT_CUDA": "pool", "MT_CUDA_FREE": "wait"}
	assert machine.settings_of("pool/async")["MT_CUDA_FREE"] == "async" and machine.settings_of("bare") == {}


def test_a_row_that_fails_or_is_cut_makes_the_run_fail(kit_modules, tmp_path):
	module, cut = kit_modules.import_module("result"), kit_modules.import_module("gpu_machine").Cut
	about = {"date": "d", "commit": "c", "device": "x", "driver": "y"}

	def status_of(*functions):
		result = module.Result(str(tmp_path), "truth", about)
		for number, function in enumerate(functions):
			result.take(f"row{number}", "bare", function)
		return result.finish()

	def raising(error):
		def function():
			raise error
		return function
	assert status_of(lambda: "fine", raising(module.Skip("no tool"))) == 0
	assert status_of(lambda: "fine", raising(cut("no time"))) == 1
	assert status_of(lambda: "fine", raising(module.Failure("wrong"))) == 1
	assert status_of(raising(module.Skip("no tool"))) == 77


@pytest.fixture
def kit_modules(monkeypatch):
	import importlib
	monkeypatch.syspath_prepend(str(ROOT / "tests" / "gpu" / "kit"))
	return importlib
