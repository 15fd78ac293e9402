"""`mtctl diagnose` on the programs of tests/patients: each has one memory problem, or is healthy although it may not seem so."""
import pathlib
import re

import pytest

import agreement
from diagnosed_programs import MB, Batch, Program
from json_schema import fits

pytestmark = pytest.mark.slow

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXIT_CODES = {word: int(code) for code, word in
              re.findall(r'X\(\w+,\s*(\d+),\s*"([a-z-]+)"', (ROOT / "ctl" / "diagnose" / "diagnose.h").read_text())}

# Keeps the shim from solving the problem: a user's setting.
UNPURGED = {"BUDGET_PCT": 0}


def no_huge_pages():
	path = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
	if not path.exists() or "[never]" in path.read_text():
		return "transparent huge pages are off on this machine"
	return None


PROBLEMS = [
	Program("hoard_threads.c", "hoard", {"ALLOCATOR": "system", **UNPURGED}),
	Program("hoard_burst.c", "hoard", UNPURGED),
	Program("hoard_python.py", "hoard", UNPURGED),
	Program("hoard_between.c", "hoard", words=("--no-trim",)),
	Program("leak.c", "leak", {"PROF": "1"}),
	Program("leak_slow.c", "leak", seconds=14),
	Program("leak_list.py", "leak", {"PROF": "1"}),
	Program("cycles.py", "python-cycles"),
	Program("gc_off.py", "python-gc-off"),
	Program("pymalloc.py", "python-arenas", {"PYTHON_MALLOC": "off"}),
	Program("gpu_cache.c", "gpu-cache", {"CUDA_DECAY_MS": 0}, driver={"MEMORY_MB": 1000}),
	Program("gpu_torch_cache.py", "gpu-cache", {"CUDA": "account"}, driver={"MEMORY_MB": 1000}, python_path="segments"),
	Program("gpu_fragments.py", "gpu-fragmentation", {"CUDA": "account"}, driver={"MEMORY_MB": 400}, python_path="segments"),
	Program("gpu_live.c", "gpu-live", driver={"MEMORY_MB": 1000}),
	Program("gpu_pinned.c", "pinned", driver={"MEMORY_MB": 1000}),
	Program("workers_copy.c", "copy-on-write", words=("--tree",)),
	Program("workers_dataset.py", "copy-on-write", words=("--tree",)),
	Program("shm_files.py", "shm"),
	Program("shm_memfd.c", "shm"),
	Program("file_cache.py", "file-cache", group_mb=250),
	Program("private_mimalloc.c", "private-allocator"),
	Program("huge_pages.c", "huge-pages", needs=no_huge_pages),
	Program("growth.c", "growth"),
	Program("wild_round_leak.py", "leak", seconds=14),
]
# What cannot be told: neither healthy nor a problem.
UNDECIDED = [
	Program("rounds_few.c", "unknown"),
	# It is small at first, and the shim asleep: all that it holds came in this time, as in a program that loads its data.
	Program("leak_cache.py", "unknown", {"MIN_MB": 16}, seconds=14),
	# It never wakes the shim up: MT_MIN_MB is its own.
	Program("past_malloc.c", "unknown", {"MIN_MB": 16}),
]
HEALTHY = [
	Program("healthy_rounds.c", "healthy", seconds=14),
	Program("healthy_warm_up.c", "healthy"),
	Program("healthy_large.c", "healthy"),
	Program("healthy_cache.py", "healthy"),
	Program("healthy_fragments.c", "healthy"),
	Program("healthy_burst.c", "healthy", seconds=20),
	Program("healthy_garbage.py", "healthy"),
	Program("healthy_gc_off.py", "healthy"),
	Program("healthy_pymalloc.py", "healthy", {"PYTHON_MALLOC": "off"}),
	Program("healthy_stacks.c", "healthy", seconds=20),
	Program("healthy_mapped_file.py", "healthy"),
	Program("gpu_steady.c", "healthy", driver={"MEMORY_MB": 1000}),
	Program("workers_read.c", "healthy", words=("--tree",)),
	Program("wild_loaders.py", "healthy", words=("--tree",)),
	Program("wild_torch.py", "healthy", seconds=20),
	Program("wild_fragmentation.py", "healthy", seconds=20),
]
# Its live memory is chance: how long a look has to be until no leak could hide in it is chance, too.
MAY_BE_UNKNOWN = {"wild_fragmentation"}
PROGRAMS = {program.name: program for program in PROBLEMS + HEALTHY + UNDECIDED}


@pytest.fixture(scope="module")
def batches(request, mtctl, shim, bare, compile_c):
	"""batches(number): the programs of a batch that this run has tests for. All start when the first one is used."""
	means = {"mtctl": mtctl, "shim": shim, "bare": bare, "compile_c": compile_c}
	wanted = {item.callspec.params["name"] for item in request.session.items
	          if item.module is request.module and hasattr(item, "callspec")}
	opened = {}

	def batch(number):
		if number not in opened:
			opened[number] = Batch([program for program in PROGRAMS.values() if batch_of(program.name) == number and
			                       program.name in wanted and not why_not(program)], **means)
		return opened[number]
	yield batch
	for one in opened.values():
		one.close()


def batch_of(name):
	"""Two batches, for the two workers that run at once."""
	return list(PROGRAMS).index(name) % 2


def why_not(program):
	return program.needs() if program.needs else None


@pytest.fixture
def result(batches, name):
	reason = why_not(PROGRAMS[name])
	if reason:
		pytest.skip(reason)
	return batches(batch_of(name)).result(name)


def each(*names):
	return pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.xdist_group(f"batch{batch_of(name)}"))
	                                        for name in names])


def names(programs):
	return [program.name for program in programs]


@each(*names(PROBLEMS))
def test_the_verdict_is_the_problem(result, name):
	expected = PROGRAMS[name].verdict

	assert result.report["verdict"] == expected, result.text + result.errors
	assert result.status == EXIT_CODES[expected]


@each(*PROGRAMS)
def test_the_report_is_as_the_schema_says(result, name):
	fits("diagnose", result.text)


@each(*PROGRAMS)
def test_the_commands_agree_on_what_they_see(result, name):
	before, after = result.looks
	wrong = agreement.of_one_look(before) + agreement.of_one_look(after) + agreement.with_diagnosis(after, result.report, tried=True)
	if result.untrimmed:
		wrong += agreement.with_diagnosis(before, result.untrimmed, tried=False)
		# One look sees growth once the ring has some samples of it.
		if "grows by" not in result.untrimmed["title"]:
			wrong += agreement.of_the_verdict(before, result.untrimmed)

	assert not wrong, "\n".join([*wrong, before["text"], after["text"], result.text])


@each(*names(HEALTHY))
def test_no_healthy_program_has_another_verdict(result, name):
	if name in MAY_BE_UNKNOWN and result.report["verdict"] == "unknown":
		assert {"noise", "few rounds"} & {result.report["trends"][name]["doubt"] for name in ("rss", "live")}, result.text
		return
	assert (result.status, result.report["verdict"]) == (0, "healthy"), result.text + result.errors


@each(*names(UNDECIDED))
def test_what_cannot_be_told_is_unknown(result, name):
	assert (result.status, result.report["verdict"]) == (EXIT_CODES["unknown"], "unknown"), result.text + result.errors


@each("rounds_few")
def test_the_rounds_that_were_seen_and_the_time_that_five_take_are_named(result, name):
	title, figures = result.report["title"], result.report["findings"][0]["figures"]

	assert re.fullmatch(r"[1-4] rounds? seen, use --for \d+[sm]", title), title
	assert figures["rounds_seen_count"] < 5 and figures["needed_s"] > 12, figures


@each("leak_cache")
def test_growth_since_the_start_is_named_below_unknown(result, name):
	first, second = result.report["findings"][:2]

	assert "builds up its data, use --for 5m" in first["title"] and second["verdict"] == "leak", result.text


@each("past_malloc")
def test_memory_past_malloc_is_judged_by_what_the_kernel_says(result, name):
	figures = result.report["findings"][0]["figures"]

	assert figures["anon_bytes"] > 80 * MB and figures["past_malloc_bytes"] > 60 * MB
	assert "nothing to do" not in result.text


@each("pymalloc")
def test_advice_says_what_the_users_own_setting_overrides(result, name):
	"""The patient is started with MT_PYTHON_MALLOC=off."""
	advice = " ".join(result.report["findings"][0]["advice"])

	assert "its environment has MT_PYTHON_MALLOC=off: change it there" in advice, advice


@each("leak")
def test_the_top_site_of_a_leak_in_c_is_the_function_that_leaks(result, name):
	first = result.report["sites"][0]

	assert first["where"].startswith("remember_session at leak.c:"), result.report["sites"]
	assert first["growth_bytes"] > 4 * MB


@each("leak_list")
def test_a_leak_in_python_has_sites_too(result, name):
	assert sum(site["growth_bytes"] for site in result.report["sites"]) > 2 * MB, result.report["sites"]


@each("hoard_between")
def test_what_lies_between_live_blocks_is_seen_without_a_trim_and_the_advice_suits_it(result, name):
	finding = result.report["findings"][0]

	assert "lie free between live blocks" in finding["title"] and finding["figures"]["between_blocks_bytes"] > 50 * MB, result.text
	assert "MT_ALLOCATOR=system" in finding["advice"][0] and "ARENA" not in " ".join(finding["advice"])


@each("hoard_threads", "hoard_burst", "hoard_python")
def test_a_hoard_is_what_the_trim_took_off_rss(result, name):
	fell = result.before["VmRSS"] - result.after["VmRSS"]
	said = result.report["findings"][0]["figures"]["trim_returned_bytes"]

	assert fell > 100 * MB and abs(said - fell) < fell / 5


@each("leak_slow", "wild_round_leak")
def test_the_rate_of_a_leak_under_rounds_is_that_of_the_leak(result, name):
	rate = result.report["trends"]["live"]["slope_bytes_per_s"] / MB

	assert {"leak_slow": 0.3, "wild_round_leak": 2.5}[name] < rate < {"leak_slow": 0.6, "wild_round_leak": 7}[name]


@each("workers_copy", "workers_read")
def test_a_tree_is_summed_by_its_proportional_memory(result, name):
	family = result.report["family"]

	assert family["processes_count"] == 4, result.text
	assert (60 if name == "workers_read" else 240) * MB < family["pss_bytes"] < (90 if name == "workers_read" else 280) * MB
