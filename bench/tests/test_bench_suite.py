"""The bench suite on toy programs: in which order it runs them, what it stores of them, and what it leaves behind.

Rows are given by a file (--entries), the state lies below a --build of the test's own: no real workload, no shim is needed.
"""
import fcntl
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import suite as suite_program  # noqa: E402
from lib import entries, monitor, plan, progress, ratio, schedule  # noqa: E402
from lib.candidates import Candidate  # noqa: E402
from lib.summary import noise_of  # noqa: E402

PYTHON = "/usr/bin/python3"
SUITE = [PYTHON, str(ROOT / "bench" / "suite.py")]

TOY = '''
import json, mmap, os, sys, time
idle = float(sys.argv[sys.argv.index("--idle") + 1])
'''
IDLE = '''
if idle:
	print(json.dumps({"event": "idle", "time": time.monotonic()}), flush=True)
	time.sleep(idle)
print(json.dumps({"work_s": work_s}))
'''
# Writes its name down when its work begins and when it ends; MARK=broken breaks it, LOUD takes so many times as long.
LOGGED = TOY + '''
log = open(sys.argv[sys.argv.index("--log") + 1], "a", buffering=1)
name = os.environ.get("MARK", "plain")
print("begin", name, idle, time.monotonic(), file=log)
if name == "broken":
	sys.exit("it broke")
work_s = 0.02 * float(os.environ.get("FACTOR", 1))
time.sleep(work_s)
print("end", name, idle, time.monotonic(), file=log)
''' + IDLE
# Has a child of its own, and writes both down in one piece.
PARENT = '''
import os, subprocess, sys, time
pids = f"{os.getpid()} {subprocess.Popen(['sleep', '60']).pid}"
with open(sys.argv[1] + ".new", "w") as file:
	file.write(pids)
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(60)
'''
BIG = "import mmap, time\nblock = mmap.mmap(-1, 50 << 20)\nfor offset in range(0, len(block), 4096): block[offset] = 1\n"
# Holds 100 MiB for half a second, then 40 MiB while idle.
HOLDER = TOY + '''
begun = time.monotonic()
much, little = bytearray(60 << 20), bytearray(40 << 20)
for block in (much, little):
	for offset in range(0, len(block), 4096):
		block[offset] = 1
time.sleep(max(0.3, begun + 0.5 - time.monotonic()))  # it is sampled twenty times a second
work_s = time.monotonic() - begun
del much, block
''' + IDLE


@pytest.fixture
def toys(tmp_path):
	"""toys(source, *arguments, **row): a row of the suite that runs this source."""
	def make(source, *arguments, **row):
		name = row.pop("name", f"toy{len(list(tmp_path.glob('toy*.py')))}")
		(tmp_path / f"{name}.py").write_text(source)
		return {"name": str(tmp_path / name), "label": name, "group": "training", "title": "a toy", "arguments": list(arguments),
			**row}
	return make


@pytest.fixture
def suite(tmp_path, run):
	"""suite(rows, *options): runs it; answers the CompletedProcess with the result file as .result"""
	def run_suite(rows, *options):
		(tmp_path / "rows.json").write_text(json.dumps(rows))
		out = tmp_path / "result.json"
		out.unlink(missing_ok=True)
		done = run([*SUITE, *common(tmp_path), *options], env=dict(os.environ), timeout=30)
		done.result = json.loads(out.read_text()) if out.exists() else None
		return done
	return run_suite


def common(tmp_path):
	return ["--entries", tmp_path / "rows.json", "--build", tmp_path / "build", "--json", tmp_path / "result.json", "--idle", "0.3",
		"--no-report"]


def variants(*marks):
	return [word for mark in marks for word in ("--candidate", f"{mark}:MARK={mark}")]


def words_of(log):
	return [line.split() for line in log.read_text().splitlines()]


# ---- order ----
def test_candidates_alternate_and_nobody_always_follows_the_same_one():
	rounds = [plan.order(11, number) for number in range(3)]

	assert all(sorted(one) == list(range(11)) for one in rounds)
	followers = [{one[place]: one[(place + 1) % 11] for place in range(11)} for one in rounds]
	assert all(len({follower[name] for follower in followers}) == 3 for name in range(11))
	assert len({one[0] for one in rounds}) == 3


def test_who_lies_idle_beside_whom_differs_from_row_to_row():
	options = SimpleNamespace(runs=1, quick=False, warm=False, candidates=None)
	rows = [entries.Entry(label, "training", "t") for label in ("x", "y", "z")]
	jobs = [job.key for job in plan.make_jobs(rows, [Candidate(name) for name in "abcdefg"], options)]

	names = ["".join(name for label, name, _ in jobs if label == row.label) for row in rows]
	assert all(sorted(one) == list("abcdefg") for one in names)
	assert len({(one + one)[one.index("a") + 1] for one in names}) == 3, names


def test_a_row_says_which_candidates_run_on_it():
	options = SimpleNamespace(runs=1, quick=False, warm=False, candidates=None)
	plain = entries.Entry("x", "training", "t")
	python = entries.Entry("y", "training", "t", is_python=True, by_hand=["--trim"])
	chosen = [Candidate("a", arguments={"y": ["--ask"], "x": ["--ask"]}), Candidate("hand", by_hand=True),
		Candidate("malloc", python=True)]

	jobs = {job.key[:2]: job.arguments for job in plan.make_jobs([plain, python], chosen, options)}

	assert jobs == {("x", "a"): ("--ask",), ("y", "a"): (), ("y", "hand"): ("--trim",), ("y", "malloc"): ()}


def test_a_mere_setting_of_a_peer_runs_on_the_training_rows_or_when_it_is_named():
	rows = [entries.Entry("x", entries.TRAINING, "t"), entries.Entry("y", entries.REAL, "t")]
	chosen = [Candidate("peer"), Candidate("peer-set", setting=True)]

	def labels(named):
		options = SimpleNamespace(runs=1, quick=False, warm=False, candidates=named)
		return [job.entry.label for job in plan.make_jobs(rows, chosen, options) if job.candidate.name == "peer-set"]

	assert labels(None) == ["x"]
	assert labels("peer,peer-set") == ["x", "y"]


def test_rounds_are_interleaved_and_work_never_overlaps(suite, toys, tmp_path):
	log = tmp_path / "log"

	done = suite([toys(LOGGED, "--log", str(log))], "--candidates", "glibc", *variants("a", "b"), "--runs", "2")

	assert done.returncode == 0, done.stderr
	said = words_of(log)
	assert [word[1] for word in said if word[0] == "begin"] == ["plain", "plain", "a", "b", "a", "plain", "b"]
	assert [word[0] for word in said] == ["begin", "end"] * 7  # the first is the look that fills the page cache
	times = [float(word[3]) for word in said if word[0] == "begin"][1:]
	assert times[-1] - times[0] < 5 * 0.3  # while the one lies idle the next one works


# ---- resuming ----
def test_a_resumed_suite_runs_only_what_is_missing(suite, toys, tmp_path):
	log, state = tmp_path / "log", tmp_path / "build" / "bench" / "suite" / "state.jsonl"
	rows = [toys(LOGGED, "--log", str(log), runs=2)]
	first = suite(rows, "--no-warm", "--candidates", "glibc", *variants("a"))
	lines = state.read_text().splitlines(keepends=True)
	state.write_text("".join(lines[:3]) + lines[3][:20])  # stopped in the middle of writing a record
	log.write_text("")

	done = suite(rows, "--no-warm", "--candidates", "glibc", *variants("a"), "--resume")

	assert done.returncode == 0, done.stderr
	assert sum(word[0] == "begin" for word in words_of(log)) == 2
	assert sorted(map(key, done.result["runs"])) == sorted(map(key, first.result["runs"]))
	assert len(done.result["runs"]) == 4


def test_other_options_are_not_resumed_and_a_new_suite_keeps_the_old_state(suite, toys, tmp_path):
	rows = [toys(LOGGED, "--log", str(tmp_path / "log"))]
	suite(rows, "--candidates", "glibc", "--runs", "1")

	other = suite(rows, "--candidates", "glibc", "--runs", "2", "--resume")
	again = suite(rows, "--candidates", "glibc", "--runs", "1")

	assert other.returncode == 1 and "had other options" in other.stderr
	assert again.returncode == 0 and (tmp_path / "build" / "bench" / "suite" / "state.jsonl.old").exists()


def test_nobody_resumes_a_suite_that_runs(suite, toys, tmp_path):
	rows = [toys(LOGGED, "--log", str(tmp_path / "log"))]
	suite(rows, "--candidates", "glibc", "--runs", "1")
	state = tmp_path / "build" / "bench" / "suite" / "state.jsonl"
	half_written = state.read_text() + '{"workload": "to'
	state.write_text(half_written)

	with open(state.parent / "lock", "w", encoding="ascii") as lock:
		fcntl.flock(lock, fcntl.LOCK_EX)
		done = suite(rows, "--resume")

	assert done.returncode == 1 and "another suite is running" in done.stderr
	assert state.read_text() == half_written


def test_only_a_whole_suite_is_named_so():
	kinds = [suite_program.Suite(options).kind() for options in ([], ["--runs", "1"], ["--quick"], ["--workload", "steps"],
		["--candidates", "glibc,shim"])]

	assert kinds == ["suite", "suite", "suite-quick", "suite-part", "suite-part"]


# ---- failures ----
def test_a_failing_run_is_recorded_and_the_rest_goes_on(suite, toys, tmp_path):
	log = tmp_path / "log"
	sleeper = toys("import time\ntime.sleep(60)\n", runs=1)

	done = suite([sleeper, toys(LOGGED, "--log", str(log))], "--no-warm", "--candidates", "glibc", *variants("broken", "a"),
		"--runs", "1", "--timeout", "1")

	assert done.returncode == 1
	reasons = {key(run)[:2]: run["reason"] for run in done.result["failed"]}
	assert reasons["toy1", "broken"].startswith("ended with 1") and "it broke" in reasons["toy1", "broken"]
	assert reasons["toy0", "a"] == "not idle after 1 s"
	assert {key(run)[:2] for run in done.result["runs"]} == {("toy1", "glibc"), ("toy1", "a")}
	assert "FAILED: toy1 broken run 1" in done.stdout


def test_a_program_that_is_gone_before_it_is_looked_at_fails_alone(suite, toys, tmp_path):
	gone = "import sys, time\nprint('{\"event\": \"watch\", \"pid\": 4194303}', flush=True)\ntime.sleep(0.2)\nsys.exit('it died')\n"

	done = suite([toys(gone, hands_on=True), toys(LOGGED, "--log", str(tmp_path / "log"))], "--no-warm", "--candidates", "glibc",
		"--runs", "1")

	assert [key(run)[0] for run in done.result["runs"]] == ["toy1"], done.stderr
	assert "it died" in done.result["failed"][0]["reason"]


def test_a_library_that_is_not_loaded_is_no_candidate(suite, toys, tmp_path):
	library = tmp_path / "liballocator.so"
	library.write_text("no library")

	done = suite([toys(LOGGED, "--log", str(tmp_path / "log"))], "--no-warm", "--candidates", "glibc", "--candidate",
		f"other:LD_PRELOAD={library}", "--runs", "1")

	assert done.returncode == 1 and [run["candidate"] for run in done.result["runs"]] == ["glibc"]
	assert "not loaded" in done.result["failed"][0]["reason"]


def test_what_one_candidate_alone_complains_of_is_printed(suite, toys, tmp_path):
	talker = LOGGED.replace("work_s = 0.02", "print('hello' if name == 'plain' else 'conf ignored', file=sys.stderr)\nwork_s = 0.02", 1)

	done = suite([toys(talker, "--log", str(tmp_path / "log"))], "--no-warm", "--candidates", "glibc", *variants("a"), "--runs", "2")

	assert done.stdout.count("a said on toy0: conf ignored") == 1 and "hello" not in done.stdout


def test_ctrl_c_leaves_no_process_behind_and_says_how_to_go_on(toys, tmp_path, spawn, wait_for):
	(tmp_path / "rows.json").write_text(json.dumps([toys(PARENT, str(tmp_path / "pids"))]))
	process = spawn([*SUITE, *common(tmp_path), "--no-warm", "--candidates", "glibc"], env=dict(os.environ))
	pids = wait_for(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text().split())

	process.send_signal(signal.SIGINT)
	out, err = process.communicate(timeout=10)

	assert process.returncode == 130, out + err
	assert "bench/suite.py --resume" in err
	wait_for(lambda: not any(is_alive(pid) for pid in pids))


def is_alive(pid):
	try:
		return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
	except OSError:
		return False


# ---- figures ----
def test_memory_is_what_the_program_held(suite, toys):
	done = suite([toys(HOLDER)], "--no-warm", "--candidates", "glibc", "--runs", "1")

	figures = done.result["runs"][0]["figures"]
	base = figures["idle_mib"] - 40
	assert 5 < base < 20  # python itself
	assert figures["peak_mib"] == pytest.approx(base + 100, abs=3)
	assert figures["minor_faults"] > 100 * 256
	assert 0.01 < figures["cpu_s"] < 2
	# From the start until idle: some way up, then level, to half a second after the first byte.
	assert figures["integral_mib_s"] < (base + 100) * figures["run_s"]
	assert figures["integral_mib_s"] > (base + 100) * 0.3
	assert max(mib for _, mib in done.result["runs"][0]["samples"]) == pytest.approx(base + 100, abs=3)


def test_an_integral_ends_at_the_idle_event():
	samples = [(0.0, 0.0), (1.0, 10.0), (2.0, 10.0), (4.0, 30.0)]

	assert monitor.integral(samples, 0, 2) == pytest.approx(15)
	assert monitor.integral(samples, 0, 3) == pytest.approx(15 + 15)
	assert monitor.integral(samples, 0, 6) == pytest.approx(15 + 40 + 60)
	assert monitor.integral(samples, 1.5, 2) == pytest.approx(5)


def test_samples_for_plots_keep_the_shape():
	samples = [(number / 20, 100.0 if number < 100 else 10.0) for number in range(400)]

	kept = monitor.thin(samples)

	assert len(kept) < 20 and kept[0] == [0.0, 100.0] and kept[-1] == [19.95, 10.0]
	assert monitor.integral(kept, 0, 19.95) == pytest.approx(monitor.integral(samples, 0, 19.95), rel=0.02)
	assert len(monitor.thin([(number / 20, number % 7 * 10) for number in range(20000)])) <= monitor.SAMPLES_KEPT


def test_a_driver_names_the_program_whose_memory_counts(suite, toys, tmp_path):
	inner = tmp_path / "inner.py"
	inner.write_text(BIG + "print('up', flush=True)\ntime.sleep(60)\n")
	driver = TOY + f'''
import subprocess
hoard = bytearray(200 << 20)
own = json.loads(os.environ["BENCH_ENVIRONMENT"])
assert "MARK" not in os.environ
real = subprocess.Popen([sys.executable, {str(inner)!r}], env={{**os.environ, **own}}, stdout=subprocess.PIPE)
print(json.dumps({{"event": "watch", "pid": real.pid}}), flush=True)
real.stdout.readline()
print(json.dumps({{"event": "idle", "time": time.monotonic()}}), flush=True)
time.sleep(idle)
real.kill()
print(json.dumps({{"work_s": 1, "cpu_s": 12.5, "minor_faults": 7, "mark": own["MARK"]}}))
'''
	done = suite([toys(driver, hands_on=True)], "--no-warm", "--candidates", "a:MARK=seen", "--runs", "1")

	assert done.returncode == 0, done.stdout + done.stderr
	figures = done.result["runs"][0]["figures"]
	assert figures["mark"] == "seen"
	assert figures["cpu_s"] < 12.5 and figures["minor_faults"] > 50 * 256  # of the program until it fell idle, not of its life
	assert 50 < figures["idle_mib"] < 75 and 50 < figures["peak_mib"] < 75


def test_a_program_without_an_idle_event_and_a_tree_are_measured(suite, toys):
	short = "print('{\"work_s\": 0.5, \"peak_mib\": 77, \"cpu_s\": 3}')\n"
	tree = TOY + f'''
if os.fork() == 0:
	exec({BIG!r})
	time.sleep(idle + 1)
	os._exit(0)
time.sleep(0.7)
work_s = 0.7
''' + IDLE

	done = suite([toys(short, hands_on=True), toys(tree, is_tree=True)], "--no-warm", "--candidates", "glibc", "--runs", "1")

	assert done.returncode == 0, done.stdout + done.stderr
	figures = {run["workload"]: run["figures"] for run in done.result["runs"]}
	assert figures["toy0"]["peak_mib"] == 77 and figures["toy0"]["cpu_s"] == 3 and "idle_mib" not in figures["toy0"]
	assert "integral_mib_s" not in figures["toy0"] and done.result["runs"][0]["samples"] == []  # those would be the driver's
	assert 50 < figures["toy1"]["idle_mib"] < 75 and 50 < figures["toy1"]["peak_mib"] < 75


# ---- ratios ----
def test_a_ratio_is_the_geometric_mean_of_pairs_with_students_interval():
	found = ratio.of([2.0, 4.0, 8.0], [1.0, 1.0, 1.0])  # logarithms log 2, 2 log 2, 3 log 2: deviation log 2

	width = 4.3027 * math.log(2) / math.sqrt(3)
	assert found.value == pytest.approx(4) and found.pairs == 3
	assert found.low == pytest.approx(4 * math.exp(-width)) and found.high == pytest.approx(4 * math.exp(width))
	assert ratio.of([3.0], [2.0])[:4] == (1.5, None, None, 1) and ratio.of([], []) is None


@pytest.mark.parametrize("degrees, quantile",
	[(1, 12.7062), (2, 4.3027), (9, 2.2622), (10, 2.2281), (11, 2.2010), (20, 2.0860), (1000, 1.9623)])
def test_students_quantiles_are_those_of_the_table(degrees, quantile):
	assert ratio.student_t(degrees) == pytest.approx(quantile, abs=2e-4)


def test_ratios_pair_runs_of_the_same_round_alone():
	ones = [{"number": number, "figures": {"x": value}} for number, value in ((0, 2.0), (2, 8.0))]
	others = [{"number": number, "figures": {"x": value}} for number, value in ((0, 1.0), (1, 100.0), (2, 4.0))]

	assert ratio.paired(ones, others, "x")[:4] == pytest.approx((2, 2, 2, 2))
	assert ratio.paired(ones, others, "y") is None


def test_the_mean_over_workloads_is_as_sure_as_its_parts():
	one, other = ratio.of([1.1, 1.2, 1.3], [1, 1, 1]), ratio.of([0.9, 0.8, 0.85], [1, 1, 1])

	mean = ratio.over_workloads([one, other, None])

	logs = [[math.log(value) for value in values] for values in ((1.1, 1.2, 1.3), (0.9, 0.8, 0.85))]
	variances = [statistics.variance(row) / 3 for row in logs]
	degrees = sum(variances)**2 / sum(variance**2 / 2 for variance in variances)
	width = ratio.student_t(degrees) * math.sqrt(sum(variances)) / 2
	centre = sum(statistics.mean(row) for row in logs) / 2
	assert 2 <= degrees <= 4
	assert mean[:4] == pytest.approx((math.exp(centre), math.exp(centre - width), math.exp(centre + width), 6))


def test_noise_is_what_the_same_thing_twice_differs_by(suite, toys, tmp_path):
	rows = [entries.Entry("x", "training", "t"), entries.Entry("y", "training", "t")]
	runs = [{"workload": label, "candidate": name, "number": number, "figures": {"work_s": value}}
		for label, name, values in (("x", "glibc", (1.0, 2.0)), ("x", "glibc-again", (1.1, 2.2)), ("y", "glibc", (5.0, 5.0)),
			("y", "glibc-again", (5.0, 5.0)))
		for number, value in enumerate(values)]

	noise = noise_of(runs, rows)
	done = suite([toys(LOGGED, "--log", str(tmp_path / "log"))], "--no-warm", "--candidates", "glibc", "--candidate",
		"glibc-again:FACTOR=5", "--runs", "2")

	assert noise["workloads"]["x"]["ratio"] == pytest.approx(1.1) and noise["outside"] == ["x"]
	assert noise["overall"]["ratio"] == pytest.approx(math.sqrt(1.1)) and not noise["is_quiet"]
	assert done.result["noise"]["overall"]["ratio"] == pytest.approx(5) and "NOISY" in done.stdout


# ---- progress, memory, the shim ----
def test_the_time_left_is_learned():
	jobs = [SimpleNamespace(entry=SimpleNamespace(label=label), number=number, key=(label, "glibc", number))
		for label in ("x", "y") for number in range(2)]
	one = progress.Progress(jobs, idle_s=10)

	before = one.seconds_left()
	one.begins(jobs[0])
	one.ended(jobs[0], {"figures": {"run_s": 20.0}})

	assert before == pytest.approx(10 + 4 * (progress.GUESS_S + progress.GAP_S))
	assert one.seconds_left() == pytest.approx(10 + 3 * (20 + progress.GAP_S))


def test_nothing_is_started_beside_others_while_memory_is_short(monkeypatch):
	one = schedule.Schedule([object()], None, None)
	idle = SimpleNamespace(is_active=False)

	monkeypatch.setattr(schedule.processes, "available_mib", lambda: 1000)
	alone = one.may_start()
	one.running = [idle]
	beside = one.may_start()
	monkeypatch.setattr(schedule.processes, "available_mib", lambda: 10000)
	with_enough = one.may_start()
	one.running = [SimpleNamespace(is_active=True)]

	assert (alone, beside, with_enough, one.may_start()) == (True, False, True, False)


def test_the_shim_is_asked_what_its_cleaning_cost(shim, mtctl, tmp_path):
	(tmp_path / "toy.py").write_text(HOLDER)
	job = plan.Job(entries.Entry(str(tmp_path / "toy"), "training", "t"), Candidate("shim", str(shim)), 0, ())
	records = []

	schedule.Schedule([job], lambda job: monitor.Monitor(job, job.command("build", 0.6), 0.6, 20, str(mtctl)),
		lambda record, job: records.append(record)).run()

	figures = records[0]["figures"]
	assert 0 < figures["clean_s"] < 1 and figures["purged_mib"] >= 0
	assert figures["clean_pct"] == pytest.approx(100 * figures["clean_s"] / (figures["run_s"] + 0.5), rel=0.2)
	assert not list(pathlib.Path("/dev/shm").glob(f"mtshim-suite-*/*.{os.getpid()}*"))


def key(record):
	return record["workload"], record["candidate"], record["number"]
