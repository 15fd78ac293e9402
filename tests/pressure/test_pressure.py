"""Memory pressure, before the kernel acts on it: limits of cgroup v2 by files that the test writes, the memory of a device, and the
process's own limit. Real limits: test_limits.py."""
import os
import pathlib
import re
import time

import pytest

import stats_raw
from pressed import MB, ONLY_PRESSURE, PYTHON, fragment, rss_kb

# A hundred looks on an idle machine; a busy one may take its time. No test that passes waits for it to be over.
SOON_S = 20


# ---- cgroup v2, by files ----

class Files:
	"""What a kernel would show of a group of cgroup v2 with a limit of 1000 MB."""

	def __init__(self, path):
		self.path = path
		path.mkdir()
		self.set(current=100)

	def set(self, current, inactive=0, limit=1000, events=0, stalled_us=0):
		"""Sizes in MB."""
		texts = {"memory.max": limit * MB, "memory.high": "max", "memory.current": current * MB,
		         "memory.stat": f"anon 0\ninactive_file {inactive * MB}\nactive_file 0",
		         "memory.events": f"low 0\nhigh 0\nmax {events}\noom 0\noom_kill 0",
		         "memory.pressure": f"some avg10=0.00 avg60=0.00 avg300=0.00 total={stalled_us}\n"
		                            "full avg10=0.00 avg60=0.00 avg300=0.00 total=0"}
		for name, text in texts.items():
			fresh = self.path / (name + ".new")
			fresh.write_text(f"{text}\n")
			fresh.rename(self.path / name)


@pytest.fixture
def files(tmp_path):
	return Files(tmp_path / "group")


def pressures(mt_dir, pid, *sources):
	return [record for record in stats_raw.records(mt_dir, pid) if record["reason"] == "pressure" and set(sources) <= set(record["sources"])]


def test_levels_of_a_v2_group_come_and_go(puppet, env, files, mt_dir, wait_for, awake):
	files.set(current=500)
	settings = env(**ONLY_PRESSURE, CGROUP=files.path, LOG_LEVEL="info", COOLDOWN_MS=60000)
	actor = puppet(settings)
	fragment(actor)
	files.set(current=820)
	assert awake(actor.pid, settings)["pressure_level"] == 0

	files.set(current=873)
	warn = wait_for(lambda: pressures(mt_dir, actor.pid, "limit"), SOON_S)[0]
	files.set(current=915)
	critical = wait_for(lambda: pressures(mt_dir, actor.pid, "limit")[1:], SOON_S)[0]
	assert wait_for(lambda: stats_raw.figures(mt_dir, actor.pid)["pressure_level"] == 2, SOON_S)
	files.set(current=300)
	assert wait_for(lambda: stats_raw.figures(mt_dir, actor.pid)["pressure_level"] == 0, SOON_S)
	status, errors = actor.end()

	assert (warn["level"], warn["pressure_level"], warn["pressure_used_bytes"]) == ("purge", 1, 873 * MB)
	assert warn["rss_before_bytes"] - warn["rss_after_bytes"] > 50 * MB
	assert (critical["level"], critical["pressure_level"], critical["pressure_used_bytes"]) == ("heavy", 2, 915 * MB)
	assert critical["pressure_limit_bytes"] == 1000 * MB
	told = [line for line in errors.splitlines() if "memory pressure" in line]
	where = re.escape(f"of 1000 MB ({files.path}/memory.max)")
	assert status == 0 and len(told) == 3, errors
	assert re.search(rf"warn: memory pressure: RAM at 87\.3 % {where}, load \d+\.\d on \d+ CPUs: purge$", told[0])
	assert re.search(rf"warn: memory pressure: RAM at 91\.5 % {where}, load \d+\.\d on \d+ CPUs: heavy cleanup$", told[1])
	assert re.search(rf"info: memory pressure is over: RAM at 30\.0 % {where}", told[2])


def test_inactive_file_pages_are_no_pressure(puppet, env, files, mt_dir, awake, stats, ticks):
	files.set(current=990, inactive=500)
	settings = env(**ONLY_PRESSURE, CGROUP=files.path)
	actor = puppet(settings)
	awake(actor.pid, settings)
	ticks(actor.pid, settings, 5)

	assert stats(actor.pid, settings)["pressure_used_bytes"] == 490 * MB
	assert not pressures(mt_dir, actor.pid)


def test_running_into_the_limit_is_critical_at_once(puppet, env, files, mt_dir, awake, wait_for):
	files.set(current=820, events=40)
	settings = env(**ONLY_PRESSURE, CGROUP=files.path)
	actor = puppet(settings)
	awake(actor.pid, settings)
	fragment(actor)
	time.sleep(1)
	assert not pressures(mt_dir, actor.pid), "what was counted before is no event"

	files.set(current=820, events=43)
	record = wait_for(lambda: pressures(mt_dir, actor.pid, "events"), SOON_S)[0]
	files.set(current=820, events=99)
	time.sleep(1.5)

	assert (record["level"], record["pressure_level"]) == ("heavy", 2)
	assert len(pressures(mt_dir, actor.pid)) == 1, "once within the cooldown"
	status, errors = actor.end()
	assert status == 0 and "the container has reached its limit" in errors


def test_stall_of_the_group_counts_once_its_total_has_grown(puppet, env, files, mt_dir, awake, wait_for, ticks):
	files.set(current=820, stalled_us=90_000_000)
	settings = env(**ONLY_PRESSURE, CGROUP=files.path)
	actor = puppet(settings)
	awake(actor.pid, settings)
	ticks(actor.pid, settings, 5)
	assert not pressures(mt_dir, actor.pid)

	files.set(current=820, stalled_us=92_000_000)
	record = wait_for(lambda: pressures(mt_dir, actor.pid, "stall"), SOON_S)[0]

	assert record["level"] == "heavy"
	assert re.search(r"memory pressure: tasks of this cgroup waited \d+\.\d % of the time for memory \(PSI\); RAM at 82", actor.end()[1])


def test_the_stall_of_the_file_that_systemd_names_counts(puppet, env, files, mt_dir, awake, wait_for, tmp_path):
	"""MEMORY_PRESSURE_WATCH: systemd sets it to the file of the service's cgroup."""
	files.set(current=820)
	watched = tmp_path / "memory.pressure"
	watched.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=90000000\n")
	settings = dict(env(**ONLY_PRESSURE, CGROUP=files.path), MEMORY_PRESSURE_WATCH=str(watched))
	actor = puppet(settings)
	awake(actor.pid, settings)
	fragment(actor)
	time.sleep(1.5)
	assert not pressures(mt_dir, actor.pid)

	watched.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=93000000\n")
	record = wait_for(lambda: pressures(mt_dir, actor.pid, "stall"), SOON_S)[0]

	assert record["level"] == "heavy" and record["rss_before_bytes"] - record["rss_after_bytes"] > 50 * MB


def test_switched_off_it_only_tells_figures(puppet, env, files, mt_dir, awake, stats):
	files.set(current=950)
	settings = env(**ONLY_PRESSURE, CGROUP=files.path, PRESSURE=0)
	actor = puppet(settings)
	awake(actor.pid, settings)
	fragment(actor)
	time.sleep(1)
	seen = stats(actor.pid, settings)

	assert (seen["pressure_used_bytes"], seen["pressure_limit_bytes"]) == (950 * MB, 1000 * MB)
	assert seen["cpus_count"] >= 1 and seen["cpu_ns"] > 0
	assert seen["pressure_clean_count"] == 0 and not pressures(mt_dir, actor.pid)
	assert actor.end() == (0, "")


def test_thresholds_change_live(puppet, env, files, mt_dir, awake, control, wait_for):
	files.set(current=700)
	settings = env(**ONLY_PRESSURE, CGROUP=files.path)
	actor = puppet(settings)
	awake(actor.pid, settings)
	time.sleep(1)
	assert not pressures(mt_dir, actor.pid)

	assert control(settings, "set", actor.pid, "warn_pct=60").returncode == 0

	assert wait_for(lambda: pressures(mt_dir, actor.pid, "limit"), SOON_S)[0]["level"] == "purge"


def test_of_several_ranks_none_collects(spawn, env, files, mt_dir, wait_for, awake):
	files.set(current=950)
	settings = dict(env(**ONLY_PRESSURE, CGROUP=files.path), WORLD_SIZE="4")
	process = spawn([PYTHON, "-c", "held = [bytes(5000) for _ in range(9000)]\nprint('full', flush=True)\nimport sys; sys.stdin.read()"], settings)
	assert process.stdout.readline() == "full\n"
	awake(process.pid, settings)

	record = wait_for(lambda: pressures(mt_dir, process.pid, "limit"), SOON_S)[0]

	assert (record["level"], record["pressure_level"]) == ("purge", 2)
	assert stats_raw.figures(mt_dir, process.pid)["gc_count"] == 0
	process.stdin.close()
	assert process.wait(timeout=10) == 0
	assert "purge only, since other processes of WORLD_SIZE" in process.stderr.read()


FORKING = r'''
import os, time
held = [bytes(5000) for _ in range(4000)]
end = time.monotonic() + 3
count = 0
while time.monotonic() < end:
    child = os.fork()
    if child == 0:
        more = [bytes(5000) for _ in range(2000)]
        del more
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    held[:] = [bytes(5000) for _ in range(4000)]
    count += 1
print(count > 5)
'''


def test_forks_and_the_end_under_pressure_do_not_hang(run, env, files):
	files.set(current=990)
	settings = env(MIN_MB=0, CGROUP=files.path, COOLDOWN_MS=100, TICK_MS=10)

	got = run([PYTHON, "-c", FORKING], settings, timeout=30)
	ends = [run([PYTHON, "-c", "held = [bytes(5000) for _ in range(9000)]"], settings, timeout=30).returncode for _ in range(10)]

	assert (got.returncode, got.stdout) == (0, "True\n"), got.stderr
	assert ends == [0] * 10


def test_a_forked_child_looks_for_itself(puppet, env, files, mt_dir, awake, wait_for):
	"""The parent's level and its cooldown are not the child's."""
	files.set(current=950)
	settings = env(**ONLY_PRESSURE, CGROUP=files.path, COOLDOWN_MS=600000, LOG_LEVEL="info")
	actor = puppet(settings)
	awake(actor.pid, settings)
	assert wait_for(lambda: pressures(mt_dir, actor.pid, "limit"), SOON_S)

	assert actor.number("fork churn 2000") > 0 and actor.process.stdout.readline() == "0\n"

	status, errors = actor.end()
	heavy = re.findall(r"mtshim\[(\d+)\] \S+: warn: memory pressure: .* heavy cleanup", errors)
	assert status == 0 and len(heavy) == 2 and len(set(heavy)) == 2, errors


# ---- MT_RSS_LIMIT_MB ----

def test_near_its_own_limit_a_cleanup_brings_it_down_without_an_alarm(puppet, env, mt_dir, awake, control, wait_for, stats, backend):
	settings = env(**ONLY_PRESSURE)
	actor = puppet(settings)
	awake(actor.pid, settings)
	fragment(actor, 90)
	assert control(settings, "set", actor.pid, "rss_limit_mb=100").returncode == 0

	record = wait_for(lambda: [one for one in stats_raw.records(mt_dir, actor.pid) if one["reason"] == "rss_limit"], SOON_S)[0]

	assert (record["level"], record["sources"], record["pressure_limit_bytes"]) == ("heavy", ["rss"], 100 * MB)
	assert wait_for(lambda: rss_kb(actor.pid) < 30_000, SOON_S)
	assert stats(actor.pid, settings)["limit_reports_count"] == 0
	status, errors = actor.end()
	assert status == 0 and "rss-limit:" not in errors and "of MT_RSS_LIMIT_MB=100" in errors


def test_at_its_own_limit_it_tells_who_holds_what_once(puppet, env, mt_dir, awake, wait_for, stats):
	settings = env(**ONLY_PRESSURE, RSS_LIMIT_MB=100, COOLDOWN_MS=100)
	actor = puppet(settings)
	awake(actor.pid, settings)
	actor.number("alloc 30000 5000 5000")

	limit_report = wait_for(lambda: stats_raw.limit_reports(mt_dir, actor.pid), SOON_S)[0]
	wait_for(lambda: len(stats_raw.records(mt_dir, actor.pid)) >= 3, SOON_S, "cleanups of which none helps")

	assert limit_report["limit_bytes"] == 100 * MB and limit_report["rss_bytes"] >= 100 * MB
	assert limit_report["anon_bytes"] + limit_report["file_bytes"] + limit_report["shmem_bytes"] == limit_report["rss_bytes"]
	assert 0.85 * limit_report["rss_bytes"] < limit_report["heap_live_bytes"] < 1.1 * limit_report["rss_bytes"]
	assert limit_report["threads_count"] == 2 and limit_report["other_anon_bytes"] < 20 * MB
	assert "the program holds it" in limit_report["advice"]
	assert stats(actor.pid, settings)["limit_reports_count"] == 1 and len(stats_raw.limit_reports(mt_dir, actor.pid)) == 1
	lines = [line for line in actor.end()[1].splitlines() if "rss-limit:" in line]
	assert len(lines) == 4 and "MT_RSS_LIMIT_MB is 100" in lines[0] and re.search(r"live \d+ MB, free and not returned \d+ MB", lines[1])
	assert "other anonymous memory" in lines[2] and "what to do: the program holds it" in lines[3]


# ---- devices, on the driver of tests/fakecuda ----

DEVICE = r'''
import ctypes, sys
cu = ctypes.CDLL("libcuda.so.1")
cu.fakecuda_used_bytes.restype = ctypes.c_uint64
held = ctypes.c_void_p()
assert cu.cuInit(0) == 0 and cu.cuDevicePrimaryCtxRetain(ctypes.byref(held), 0) == 0 and cu.cuCtxSetCurrent(held) == 0
def alloc(mb):
    at = ctypes.c_uint64()
    assert cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(mb << 20)) == 0
    return at
free = cu.cuMemFree_v2
for line in sys.stdin:
    exec(line)
    print(cu.fakecuda_used_bytes(0) >> 20, flush=True)
'''


@pytest.fixture
def device(steer, env, fakecuda, awake):
	def start(environment=(), **settings):
		one = steer([PYTHON, "-c", DEVICE],
		            dict(fakecuda(env(**ONLY_PRESSURE, CUDA_DECAY_MS=0, CUDA_LOW_PCT=0, **settings), MEMORY_MB=256), **dict(environment)))
		one.tell("blocks = [alloc(4) for _ in range(56)]")
		awake(one.pid, one.env)
		return one
	return start


# 444 of 512 MB live, and 36 cached.
LARGE = {"FAKECUDA_MEMORY_MB": "512"}
FILL = "blocks += [alloc(4) for _ in range(64)]; [free(blocks.pop()) for _ in range(9)]"


def test_idle_blocks_go_back_when_the_device_fills_up(device, mt_dir, wait_for):
	one = device(LARGE)
	assert one.number(FILL) == 480, "kept for reuse"

	record = wait_for(lambda: pressures(mt_dir, one.pid, "device"), SOON_S)[0]

	assert (record["level"], record["pressure_level"]) == ("purge", 1) or record["pressure_level"] == 2
	assert record["gpu_before_bytes"] - record["gpu_after_bytes"] >= 30 * MB
	assert record["pressure_limit_bytes"] == 512 * MB and 0.85 * 512 * MB <= record["pressure_used_bytes"] <= 444 * MB
	assert one.number("pass") == 444
	assert re.search(r"GPU 0 at \d\d\.\d %", one.end()[1])


@pytest.mark.slow
def test_a_device_that_others_have_filled_is_cleaned_once(device, mt_dir, wait_for):
	one = device({"FAKECUDA_OTHER_MB": "20"})
	assert wait_for(lambda: pressures(mt_dir, one.pid, "device"), SOON_S)[0]["level"] == "heavy"
	time.sleep(3)

	assert len(pressures(mt_dir, one.pid)) == 1
	assert one.end()[0] == 0


def test_of_several_ranks_none_touches_its_device(device, mt_dir, wait_for, ticks, tmp_path):
	log = tmp_path / "log"
	one = device({"WORLD_SIZE": "4", **LARGE}, LOG=log)
	assert one.number(FILL) == 480
	wait_for(lambda: log.exists() and "no cleanup, since other processes of WORLD_SIZE" in log.read_text(), SOON_S)
	ticks(one.pid, one.env, 3)

	assert one.number("pass") == 480 and not pressures(mt_dir, one.pid)


# ---- what it costs ----

def switches(pid):
	"""Voluntary switches of the worker."""
	for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
		if (task / "comm").read_text() == "mtshim\n":
			return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.MULTILINE)[1])
	return 0


@pytest.mark.slow
@pytest.mark.parametrize("current, most", [(100, 1), (600, 5), (820, 18)])
def test_how_often_an_idle_process_wakes_depends_on_how_near_the_limit_is(puppet, env, files, awake, current, most):
	"""Far from it no more often than for its tick, which is stretched to 5 s here from the start."""
	files.set(current=current)
	settings = env(**ONLY_PRESSURE, CGROUP=files.path, TICK_MS=5000)
	actor = puppet(settings)
	awake(actor.pid, settings)
	time.sleep(0.5)
	before = switches(actor.pid)

	time.sleep(4)

	woken = switches(actor.pid) - before
	assert most // 3 <= woken <= most


# ---- huge blocks that are hardly touched ----

def test_a_storm_of_huge_blocks_far_from_the_limit_asks_the_kernel_for_little(spawn, compile_c, env, files, stats, control):
	"""On paper its blocks pass the limit again and again; no more than 50 MB of them are ever there."""
	files.set(current=500, limit=24_000)
	settings = env(MIN_MB=0, ALLOCATOR="jemalloc", CGROUP=files.path)
	began = time.monotonic()
	program = spawn([compile_c("pressure_storm.c", "-pthread")], settings)
	asked = program.stdout.readline()
	if not asked and program.wait(10) == 77:
		pytest.skip("no seccomp filter may be set here")
	turns = (time.monotonic() - began) / 0.05  # of 50 ms: as many times somebody may return memory

	figures = stats(program.pid, settings)

	assert int(asked) < 100 + 4 * turns, "6,000 blocks"
	assert figures["pressure_wait_count"] < 20 + 2 * turns


def test_memory_comes_back_while_a_librarys_constructor_holds_the_loaders_lock(run, env, compile_c, backend):
	"""From the warn level on the worker asked the loader for Python, and hung until the constructor ended."""
	library = compile_c("constructor_rounds.c", "-shared", "-fPIC")

	got = run([compile_c("loads_library.c"), library], env(MIN_MB=0, LIMIT_MB=220), timeout=60)

	assert (got.returncode, got.stdout) == (0, "well\n"), got.stderr


def test_a_profile_asked_for_during_a_constructor_does_not_stop_the_worker(spawn, env, control, awake, compile_c):
	"""It loads libgcc_s for the unwinder."""
	library = compile_c("constructor_rounds.c", "-shared", "-fPIC")
	settings = env(ALLOCATOR="jemalloc", MIN_MB=0, PROF=1)
	process = spawn([compile_c("loads_library.c"), library], settings)
	awake(process.pid, settings)

	control(settings, "set", process.pid, "prof=on")

	assert process.stdout.readline() == "well\n"
