"""`mtctl diagnose` on patients: programs with one disease each, and healthy ones that look ill at first sight."""
import pathlib
import re

import pytest

from ward import MB, Patient, Ward

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXIT_CODES = {word: int(code) for code, word in
              re.findall(r'X\(\w+,\s*(\d+),\s*"([a-z-]+)"', (ROOT / "ctl" / "diagnose" / "verdicts.def").read_text())}

# What keeps the shim from healing its own patients: a user's setting.
UNPURGED = {"BUDGET_PCT": 0}


def no_huge_pages():
	path = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
	if not path.exists() or "[never]" in path.read_text():
		return "transparent huge pages are off on this machine"
	return None


SICK = [
	Patient("hoard_threads.c", "hoard", {"ALLOCATOR": "system", **UNPURGED}),
	Patient("hoard_burst.c", "hoard", UNPURGED),
	Patient("hoard_python.py", "hoard", UNPURGED),
	Patient("leak.c", "leak", {"PROF": "1"}),
	Patient("leak_slow.c", "leak", seconds=14),
	Patient("leak_list.py", "leak", {"PROF": "1"}),
	# It is small at first, and the shim asleep: only what comes after is known.
	Patient("leak_cache.py", "leak", {"MIN_MB": 16}, seconds=14),
	Patient("cycles.py", "python-cycles"),
	Patient("gc_off.py", "python-gc-off"),
	Patient("pymalloc.py", "python-arenas", {"PYTHON_MALLOC": "off"}),
	Patient("gpu_cache.c", "gpu-cache", {"CUDA_DECAY_MS": 0}, driver={"MEMORY_MB": 1000}),
	Patient("gpu_torch_cache.py", "gpu-cache", {"CUDA": "account"}, driver={"MEMORY_MB": 1000}, python_path="segments"),
	Patient("gpu_fragments.py", "gpu-fragmentation", {"CUDA": "account"}, driver={"MEMORY_MB": 400}, python_path="segments"),
	Patient("gpu_live.c", "gpu-live", driver={"MEMORY_MB": 1000}),
	Patient("gpu_pinned.c", "pinned", driver={"MEMORY_MB": 1000}),
	Patient("workers_copy.c", "copy-on-write", words=("--tree",)),
	Patient("workers_dataset.py", "copy-on-write", words=("--tree",)),
	Patient("shm_files.py", "shm"),
	Patient("shm_memfd.c", "shm"),
	Patient("file_cache.py", "file-cache", group_mb=250),
	Patient("private_mimalloc.c", "private-allocator"),
	Patient("huge_pages.c", "huge-pages", needs=no_huge_pages),
	Patient("growth.c", "growth"),
	Patient("wild_round_leak.py", "leak", seconds=14),
]
HEALTHY = [
	Patient("healthy_rounds.c", "healthy"),
	Patient("healthy_warm_up.c", "healthy"),
	Patient("healthy_large.c", "healthy"),
	Patient("healthy_cache.py", "healthy"),
	Patient("healthy_fragments.c", "healthy"),
	Patient("healthy_burst.c", "healthy"),
	Patient("healthy_garbage.py", "healthy"),
	Patient("healthy_gc_off.py", "healthy"),
	Patient("healthy_pymalloc.py", "healthy", {"PYTHON_MALLOC": "off"}),
	Patient("healthy_stacks.c", "healthy"),
	Patient("healthy_mapped_file.py", "healthy"),
	Patient("gpu_steady.c", "healthy", driver={"MEMORY_MB": 1000}),
	Patient("workers_read.c", "healthy", words=("--tree",)),
	Patient("wild_loaders.py", "healthy", words=("--tree",)),
	Patient("wild_torch.py", "healthy"),
	Patient("wild_fragmentation.py", "healthy"),
]
EVERYBODY = {patient.name: patient for patient in SICK + HEALTHY}


@pytest.fixture(scope="module")
def wards(request, mtctl, shim, bare, compile_c):
	"""wards(number): all patients of a ward that this run has tests for, admitted at once when the first is asked for."""
	means = {"mtctl": mtctl, "shim": shim, "bare": bare, "compile_c": compile_c}
	wanted = {item.callspec.params["name"] for item in request.session.items
	          if item.module is request.module and hasattr(item, "callspec")}
	opened = {}

	def ward(number):
		if number not in opened:
			opened[number] = Ward([patient for patient in EVERYBODY.values() if ward_of(patient.name) == number and
			                       patient.name in wanted and not why_not(patient)], **means)
		return opened[number]
	yield ward
	for one in opened.values():
		one.close()


def ward_of(name):
	"""Two wards, for the two workers that run at once."""
	return list(EVERYBODY).index(name) % 2


def why_not(patient):
	return patient.needs() if patient.needs else None


@pytest.fixture
def chart(wards, name):
	reason = why_not(EVERYBODY[name])
	if reason:
		pytest.skip(reason)
	return wards(ward_of(name)).chart(name)


def each(*names):
	return pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.xdist_group(f"ward{ward_of(name)}"))
	                                        for name in names])


def names(patients):
	return [patient.name for patient in patients]


@each(*names(SICK))
def test_the_disease_is_named(chart, name):
	expected = EVERYBODY[name].verdict

	assert chart.said["verdict"] == expected, chart.text + chart.errors
	assert chart.status == EXIT_CODES[expected]


@each(*names(SICK))
def test_no_sick_one_is_called_healthy(chart, name):
	assert chart.status >= 10 and chart.said["verdict"] not in ("healthy", "unknown"), chart.text + chart.errors


@each(*names(HEALTHY))
def test_no_healthy_one_is_called_sick(chart, name):
	assert (chart.status, chart.said["verdict"]) == (0, "healthy"), chart.text + chart.errors


@each("leak")
def test_the_top_site_of_a_leak_in_c_is_the_function_that_leaks(chart, name):
	first = chart.said["sites"][0]

	assert first["name"].startswith("remember_session at leak.c:"), chart.said["sites"]
	assert first["grown_bytes"] > 10 * MB


@each("leak_list")
def test_a_leak_in_python_has_sites_too(chart, name):
	assert sum(site["grown_bytes"] for site in chart.said["sites"]) > 10 * MB, chart.said["sites"]


@each("hoard_threads", "hoard_burst", "hoard_python")
def test_a_hoard_is_what_the_trim_took_off_rss(chart, name):
	fell = chart.before["VmRSS"] - chart.after["VmRSS"]
	said = chart.said["findings"][0]["figures"]["trim_returned_bytes"]

	assert fell > 100 * MB and abs(said - fell) < fell / 5


@each("leak_slow", "wild_round_leak")
def test_the_rate_of_a_leak_under_rounds_is_that_of_the_leak(chart, name):
	rate = chart.said["trends"]["live"]["slope_bytes_per_s"] / MB

	assert {"leak_slow": 0.3, "wild_round_leak": 2.5}[name] < rate < {"leak_slow": 0.6, "wild_round_leak": 7}[name]


@each("workers_copy", "workers_read")
def test_a_tree_is_summed_by_its_proportional_memory(chart, name):
	family = chart.said["family"]

	assert family["processes_count"] == 4, chart.text
	assert (60 if name == "workers_read" else 240) * MB < family["pss_bytes"] < (90 if name == "workers_read" else 280) * MB
