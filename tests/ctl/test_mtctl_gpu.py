"""What mtctl says about GPUs, against fake_shim.py: handmade figures, forged and hostile ones."""
import json
import re

import pytest

import fake_shim
from mtctl_helpers import DONE, FREED, MB, USAGE
from mtctl_helpers import ctl, fake, plain  # noqa: F401 (fixtures)
from places import LIB

DEVICE = {"ordinal": 0, "name": "NVIDIA Something 80GB", "pci": "0000:3b:00.0", "mode": "pool",
          "allocated_bytes": 100 * MB, "requested_bytes": 99 * MB, "reserved_bytes": 160 * MB,
          "pending_bytes": 10 * MB, "idle_bytes": 50 * MB,
          "allocated_peak_bytes": 300 * MB, "reserved_peak_bytes": 400 * MB,
          "blocks_count": 12, "alloc_count": 1000, "free_count": 988, "hit_count": 950, "num_alloc_retries": 3,
          "num_ooms": 1, "num_device_alloc": 50, "num_device_free": 20, "pinned_live_bytes": 64 * MB,
          "free_bytes": 60000 * MB, "total_bytes": 80000 * MB,
          "process_bytes": 700 * MB, "process_known": 1, "unattributed_bytes": 540 * MB, "others_bytes": 1500 * MB,
          "others_count": 2, "others_known": 1}
GPU = {"cuda": "pool", "driver_version": 12080, "devices": [DEVICE],
       "values": {"gpu_devices_count": 1, "gpu_allocated_bytes": 100 * MB, "gpu_reserved_bytes": 160 * MB,
                  "gpu_other_bytes": 40 * MB, "gpu_reserved_peak_bytes": 400 * MB}}
OOM = {"number": 1, "time_ns": 1_700_000_000_000_000_000, "device": 0, "asked_bytes": 2048 * MB, "free_bytes": 900 * MB,
       "total_bytes": 80000 * MB, "allocated_bytes": 70000 * MB, "reserved_bytes": 72000 * MB, "idle_bytes": 2000 * MB,
       "reserved_peak_bytes": 73000 * MB, "num_alloc_retries": 4, "num_ooms": 1,
       "others_bytes": 1500 * MB, "others_count": 2, "others_known": 1, "function": "cuMemAlloc_v2"}


# ---- stat ----

def test_stat_has_a_section_for_each_device(fake, ctl):
	second = dict(DEVICE, ordinal=1, name="", pci="", mode="account", process_known=0, others_known=0)
	got = ctl("stat", fake(**dict(GPU, devices=[DEVICE, second])), "--all")

	assert got.returncode == 0, got.stderr
	assert "\nGPU 0: NVIDIA Something 80GB (0000:3b:00.0), mode pool, 58.6 GB free of 78.1 GB\n" in got.stdout
	assert "\nGPU 1: ?, mode account, 58.6 GB free of 78.1 GB\n" in got.stdout
	assert "\ncuda       pool, driver 12.8\n" in got.stdout


@pytest.mark.parametrize("name, now, peak", [
	("allocated_bytes", "100.0 MB", "300.0 MB"), ("reserved_bytes", "160.0 MB", "400.0 MB"),
	("pending_bytes", "10.0 MB", ""),
	("idle_bytes", "50.0 MB", ""), ("num_alloc_retries", "3", ""), ("num_ooms", "1", ""),
	("num_device_alloc", "50", ""), ("num_device_free", "20", ""), ("pinned_live_bytes", "64.0 MB", "")])
def test_stat_has_the_names_of_pytorch_with_peaks_beside_them(fake, ctl, name, now, peak):
	section = ctl("stat", fake(**GPU), "--all", "--cached").stdout.partition("\nGPU 0: ")[2]

	assert re.search(rf"^{name} +{re.escape(now)} +{re.escape(peak)}{' +' if peak else ''}\S", section, re.MULTILINE)


def test_a_kind_that_was_never_allocated_has_no_row(fake, ctl):
	section = ctl("stat", fake(**GPU), "--all", "--cached").stdout.partition("\nGPU 0: ")[2]

	assert "\nvmm_live_bytes " not in section and "\narray_live_bytes " not in section


def test_what_is_not_ours_is_named_only_where_nvml_knows(fake, ctl):
	known = ctl("stat", fake(**GPU), "--all", "--cached").stdout
	unknown = ctl("stat", fake(**dict(GPU, devices=[dict(DEVICE, process_known=0, others_known=0)])), "--all", "--cached").stdout

	assert ("\nnot ours: 540.0 MB of the 700.0 MB that the driver charges this process: context, kernels, libraries\n"
	        "other processes on it: 2, with 1500.0 MB\n") in known
	old = ctl("stat", fake(**dict(GPU, devices=[dict(DEVICE, nvml_age_ms=3240)])), "--all", "--cached").stdout
	assert "\nnot ours: 540.0 MB of the 700.0 MB that the driver charged this process 3.2 s before these figures: context" in old
	assert "\nnot ours: unknown; NVML does not say" in unknown and "other processes" not in unknown


def test_a_process_without_cuda_shows_nothing_of_it(fake, ctl):
	text = ctl("stat", fake(), "--all", "--samples").stdout

	assert not re.search("gpu|cuda", text, re.IGNORECASE)


def test_with_cuda_every_figure_is_there_and_the_samples_have_two_more(fake, ctl):
	text = ctl("stat", fake(**GPU), "--all", "--samples", "--cached").stdout

	assert all(f"\n{name.removesuffix('_thousandths')} " in text for name in fake_shim.FIELDS)
	assert re.search(r"OTHER +GPU RESERVED +ALLOCATED\n.* 0\.0 MB +160\.0 MB +100\.0 MB$", text, re.MULTILINE)


def test_json_has_every_field_of_every_device(fake, ctl):
	seen = json.loads(ctl("stat", fake(**GPU), "--json").stdout)

	assert (seen["cuda"], seen["driver_version"]) == ("pool", 12080)
	(device,) = seen["devices"]
	assert set(device) == {*fake_shim.DEVICE_FIELDS, "name", "pci", "mode"}
	assert all(device[name] == DEVICE.get(name, 0) for name in fake_shim.DEVICE_FIELDS)
	assert seen["ooms"] == [] and seen["ooms_count"] == 0
	assert seen["samples"][0]["gpu_reserved_bytes"] == 160 * MB


def test_records_show_device_memory_before_and_after(fake, ctl):
	pid = fake(**GPU, gpu_before_mb=900, gpu_after_mb=400, gpu_state=1, frameworks=5)
	ctl("trim", pid)

	text = ctl("stat", pid, "--records", "--cached").stdout
	record = json.loads(ctl("stat", pid, "--json", "--cached").stdout)["records"][-1]

	assert re.search(r"GPU BEFORE +AFTER +CACHES\n.* 900\.0 MB +400\.0 MB +done,torch,numba$", text, re.MULTILINE)
	assert (record["gpu_before_bytes"], record["gpu_after_bytes"]) == (900 * MB, 400 * MB)
	assert (record["gpu_state"], record["frameworks"]) == ("done", ["torch", "numba"])


def test_a_record_that_knows_nothing_of_device_memory_says_so(fake, ctl):
	pid = fake(**GPU, gpu_state=2)
	ctl("trim", pid)

	record = json.loads(ctl("stat", pid, "--json", "--cached").stdout)["records"][-1]

	assert (record["gpu_before_bytes"], record["gpu_after_bytes"]) == (None, None)
	assert (record["gpu_state"], record["frameworks"]) == ("capturing", [])
	assert re.search(r" - +- +capturing$", ctl("stat", pid, "--records", "--cached").stdout, re.MULTILINE)


# ---- what is not true ----

def test_more_devices_than_there_is_room_for_are_refused(fake, ctl):
	got = ctl("stat", fake(**dict(GPU, devices_count=17)), "--cached")

	assert got.returncode == USAGE and "counts in the stats file make no sense" in got.stderr


def test_figures_at_their_limits_harm_nothing(fake, ctl):
	most = dict.fromkeys(fake_shim.DEVICE_FIELDS, (1 << 64) - 1)
	ooms = [dict.fromkeys(fake_shim.OOM_FIELDS, (1 << 64) - 1) | {"number": number} for number in (1, 2)]
	pid = fake(cuda="pool", driver_version=(1 << 32) - 1, devices=[most] * 16, ooms=ooms, gpu_state=99, gpu_before_mb=1,
	           frameworks=(1 << 32) - 1, values=dict.fromkeys((n for n in fake_shim.FIELDS if n.startswith("gpu_")),
	                                                           (1 << 64) - 1))
	ctl("trim", pid)

	for words in (["stat", pid], ["stat", pid, "--all"], ["stat", pid, "--oom"], ["doctor", pid], ["ps"]):
		assert ctl(*words).returncode in (0, 1)
	seen = json.loads(ctl("stat", pid, "--json").stdout)
	assert len(seen["devices"]) == 16 and seen["ooms"][0]["cause"] == "fragmentation or cache"
	assert seen["records"][-1]["gpu_state"] == "?" and seen["records"][-1]["frameworks"] == ["torch", "cupy", "numba"]


def test_hostile_text_of_devices_and_reports_reaches_no_terminal(fake, ctl):
	pid = fake(**dict(GPU, ooms=[OOM]), text="\x1b[31m\x07\n\xff\x9b")

	for words in (["stat"], ["stat", "--json"], ["stat", "--oom"], ["stat", "--oom", "--json"], ["doctor"]):
		got = ctl(words[0], pid, *words[1:])
		assert got.returncode in (0, 1)
		assert not re.search("[^\x20-\x7e\n]", got.stdout + got.stderr)
	(device,) = json.loads(ctl("stat", pid, "--json").stdout)["devices"]
	assert (device["name"], device["pci"], device["mode"]) == ("?[31m????",) * 3


# ---- stat --oom ----

def test_without_an_error_oom_says_so_and_is_no_failure(fake, ctl):
	for options, since in (({}, ""), (GPU, r", by its figures of [\d:.]+; one counts after 5 s, unless the program overcomes it")):
		pid = fake(**options)
		got = ctl("stat", pid, "--oom")
		seen = json.loads(ctl("stat", pid, "--oom", "--json").stdout)

		assert got.returncode == 0 and re.fullmatch(f"no out-of-memory error has reached this program{since}\n", got.stdout), got
		assert (seen["ooms_count"], seen["num_ooms"], seen["ooms"]) == (0, 0, [])


def test_oom_tells_the_whole_report(fake, ctl):
	got = ctl("stat", fake(**GPU, ooms=[OOM]), "--oom")

	assert got.returncode == 0
	assert re.match(r"out of memory 1, \d\d:\d\d:\d\d\.\d+: cuMemAlloc_v2 asked for 2048\.0 MB on GPU 0\n", got.stdout)
	for label, figure in (("asked", "2048.0 MB"), ("free", "900.0 MB"), ("total", "78.1 GB"), ("allocated", "68.4 GB"),
	                      ("reserved", "70.3 GB"), ("idle", "2000.0 MB"),
	                      ("other processes", "1500.0 MB")):
		assert re.search(rf"^  {label} +{re.escape(figure)} +\S", got.stdout, re.MULTILINE), label
	assert "  likely cause: fragmentation or cache\n  -> a cache holds it. The pool's: lower MT_CUDA_DECAY_MS. PyTorch's: " in got.stdout
	assert "(num_alloc_retries) 4, errors on this device (num_ooms) 1\n" in got.stdout
	assert "PyTorch idle" not in got.stdout


def test_oom_says_what_is_not_known(fake, ctl):
	report = dict(OOM, others_known=0, others_bytes=5 * MB, framework_idle_bytes=3000 * MB,
	              free_bytes=0, total_bytes=0)
	pid = fake(**GPU, ooms=[report])

	text = ctl("stat", pid, "--oom").stdout
	(seen,) = json.loads(ctl("stat", pid, "--oom", "--json").stdout)["ooms"]

	assert re.search(r"^  other processes +\? +held by other processes on the device, by NVML$", text, re.MULTILINE)
	assert re.search(r"^  free +\? +on the device, as the driver says$", text, re.MULTILINE) and "  total " not in text
	assert re.search(r"^  PyTorch idle +3000\.0 MB +held unused by PyTorch's own cache", text, re.MULTILINE)
	assert (seen["others_bytes"], seen["others_count"]) == (None, None)


def test_the_last_four_reports_come_oldest_first(fake, ctl):
	"""The fifth has overwritten the first."""
	pid = fake(**GPU, ooms=[dict(OOM, number=number) for number in (5, 2, 3, 4)])

	assert re.findall(r"^out of memory (\d+),", ctl("stat", pid, "--oom").stdout, re.MULTILINE) == ["2", "3", "4", "5"]
	assert [oom["number"] for oom in json.loads(ctl("stat", pid, "--oom", "--json").stdout)["ooms"]] == [2, 3, 4, 5]


def test_reports_out_of_place_and_counts_that_lie_are_passed_over(fake, ctl):
	assert re.fullmatch(
		r"no out-of-memory error has reached this program, by its figures of [\d:.]+; one counts after 5 s, unless the program overcomes it\n",
		ctl("stat", fake(**GPU, ooms=[dict(OOM, slot=3)]), "--oom").stdout)
	for count in (0, 3, 99, (1 << 64) - 1):
		seen = json.loads(ctl("stat", fake(**GPU, ooms=[OOM], ooms_count=count), "--oom", "--json").stdout)
		assert len(seen["ooms"]) == (1 if count == 3 else 0)


def test_errors_whose_reports_are_gone_are_not_called_none(fake, ctl):
	options = dict(GPU, values=dict(GPU["values"], gpu_num_ooms=12))

	assert ctl("stat", fake(**options), "--oom").stdout == \
		"out-of-memory errors have reached this program (12), but their reports are not there\n"


# ---- ps, trim, reset-peak ----

def test_ps_has_a_column_for_gpus_when_any_process_uses_one(fake, ctl):
	without, with_gpu = fake(), fake(**GPU)

	lines = ctl("ps").stdout.splitlines()
	processes = {one["pid"]: one for one in json.loads(ctl("ps", "--json").stdout)["processes"]}

	# A process of another test may have a rank, and a column for it.
	assert lines[0].replace(" RANK ", " ").split() == ["PID", "STATE", "RSS", "LIVE", "REUSABLE", "FILES", "OTHER", "TREE", "GPU", "COMMAND"]
	row = {int(line.split()[0]): line for line in lines[1:-1]}
	assert re.search(r" 200\.0 MB  fake_shim\.py", row[with_gpu]) and re.search(r" +-  fake_shim\.py", row[without])
	assert (processes[with_gpu]["gpu_bytes"], processes[without]["gpu_bytes"]) == (200 * MB, None)


def test_trim_says_the_device_memory_given_back(fake, ctl):
	got = ctl("trim", fake(**GPU, freed_mb=1, gpu_before_mb=900, gpu_after_mb=400, gpu_state=1, frameworks=3))

	assert got.returncode == FREED
	assert re.search(r"^  GPU in use +900\.0 MB +400\.0 MB +-500\.0 MB$", got.stdout, re.MULTILINE)
	assert "\n  GPU caches emptied: the pool's and the driver's, torch, cupy\n" in got.stdout


@pytest.mark.parametrize("state, words", [(2, "a stream captures into a graph"), (3, "other ranks would have to wait")])
def test_trim_says_why_the_caches_were_left_alone(fake, ctl, state, words):
	got = ctl("trim", fake(**GPU, gpu_state=state))

	assert got.returncode == DONE and f"  GPU caches left alone: {words}\n" in got.stdout


def test_trim_without_a_gpu_says_nothing_of_one(fake, ctl):
	assert "GPU" not in ctl("trim", fake(freed_mb=1)).stdout


def test_reset_peak_tells_the_peaks_of_gpus_too(fake, ctl):
	pid = fake(**GPU)

	assert ctl("reset-peak", pid).stdout.endswith(
		"the peaks start again: live bytes at 200.0 MB, GPU allocated at 100.0 MB, reserved at 160.0 MB\n")
	assert "GPU" not in ctl("reset-peak", fake()).stdout


# ---- doctor ----

def test_doctor_names_the_mode_and_why(fake, ctl):
	text = ctl("doctor", fake(**dict(GPU, cuda="account: PyTorch's caching allocator sits on top"))).stdout

	assert "ok    CUDA: account: PyTorch's caching allocator sits on top, driver 12.8\n" in text
	assert "ok    GPU 0 (NVIDIA Something 80GB): 58.6 GB free of 78.1 GB, mode pool\n" in text


def test_doctor_warns_of_low_memory_and_of_errors(fake, ctl):
	pid = fake(**dict(GPU, devices=[dict(DEVICE, free_bytes=1000 * MB)], values=dict(GPU["values"], gpu_num_ooms=2, gpu_capturing=1)))
	got = ctl("doctor", pid)

	assert got.returncode == 1
	assert "warn  GPU 0 (NVIDIA Something 80GB): 1000.0 MB free of 78.1 GB, mode pool; so little that" in got.stdout
	assert f"warn  2 out-of-memory errors have reached the program\n      -> mtctl stat {pid} --oom" in got.stdout
	assert "note  a stream captures into a graph" in got.stdout


def test_memory_of_which_nothing_is_known_is_not_called_low(fake, ctl):
	pid = fake(**dict(GPU, devices=[dict(DEVICE, free_bytes=0)]))

	assert "ok    GPU 0 (NVIDIA Something 80GB): mode pool, free memory unknown\n" in ctl("doctor", pid).stdout
	assert ", mode pool, 78.1 GB, free: unknown\n" in ctl("stat", pid, "--all").stdout


def test_doctor_names_what_the_pool_cannot_reach(fake, ctl):
	text = ctl("doctor", fake(**dict(GPU, devices=[dict(DEVICE, vmm_live_bytes=2 * MB, async_live_bytes=3 * MB)]))).stdout

	assert "out of the pool's reach: GPU 0, 2.0 MB by cuMemCreate (expandable_segments and their like)\n" in text
	assert "out of the pool's reach: GPU 0, 3.0 MB by cuMemAllocAsync" in text
	assert "out of the pool's reach: GPU 0, 64.0 MB of page-locked host memory" in text
	assert "in arrays" not in text


@pytest.mark.parametrize("variables, words", [
	({"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}, "ok    PYTORCH_NO_CUDA_MEMORY_CACHING=1: PyTorch's own cache is off"),
	({"PYTORCH_NO_CUDA_MEMORY_CACHING": "0"}, "=0: not 1, so PyTorch's own cache counts as on"),
	({"PYTORCH_NO_CUDA_MEMORY_CACHING": "true"}, "=true: not 1, so PyTorch's own cache counts as on"),
	({"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64, expandable_segments:True"},
	 "note  PYTORCH_CUDA_ALLOC_CONF: expandable_segments are out of the pool's reach"),
	({"PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}, "note  PYTORCH_ALLOC_CONF: cudaMallocAsync is out"),
	({"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64,expandable_segments:False"}, "is set: it is for PyTorch's own cache, the pool does not read it"),
	({"PYTORCH_CUDA_ALLOC_CONF": "no_expandable_segments:True"}, "is set: it is for PyTorch's own cache, the pool does not read it"),
	({"TF_GPU_ALLOCATOR": "cuda_malloc_async"}, "note  TF_GPU_ALLOCATOR: cuda_malloc_async is out"),
	({"WORLD_SIZE": "8"}, "note  WORLD_SIZE is 8: other ranks would wait")])
def test_doctor_reads_what_the_frameworks_are_told(fake, ctl, plain, variables, words):
	"""Of the process that is looked at, and of one that would be started from here."""
	assert words in ctl("doctor", fake(environment=dict(plain, **variables))).stdout
	assert words in ctl("doctor", **variables).stdout


def test_doctor_says_nothing_of_frameworks_that_are_told_nothing(fake, ctl, plain):
	harmless = {"WORLD_SIZE": "1", "PYTORCH_CUDA_ALLOC_CONF": "", "TF_GPU_ALLOCATOR": "default"}

	assert not re.search("PYTORCH|WORLD_SIZE|TF_GPU|CUDA:", ctl("doctor", fake(environment=dict(plain, **harmless))).stdout)


def test_doctor_tells_a_libcuda_that_never_reached_the_shim(spawn, ctl, plain, mt_dir, tmp_path):
	(tmp_path / "libcuda.so.1").write_bytes(bytes(8192))
	(tmp_path / "libmtshim.so").write_bytes(bytes(8192))
	program = (f"import mmap, os, sys; sys.path.insert(0, {str(LIB)!r})\n"
	           f"kept = mmap.mmap(os.open({str(tmp_path / 'libcuda.so.1')!r}, os.O_RDONLY), 4096, flags=mmap.MAP_PRIVATE,\n"
	           "                 prot=mmap.PROT_READ | mmap.PROT_EXEC)\n"
	           "import fake_shim; fake_shim.main()")
	process = spawn(["/usr/bin/python3", "-c", program, tmp_path / "libmtshim.so", mt_dir, "{}"], plain)
	assert process.stdout.readline() == "ready\n"

	assert "note  CUDA: libcuda is loaded, but no call of it has reached the shim\n" in ctl("doctor", process.pid).stdout
