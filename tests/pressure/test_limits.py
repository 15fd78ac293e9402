"""Real limits: the kernel kills who meets them."""
import os
import re

import pytest

import leftovers
import memory_group
import stats_raw
from pressed import MB, ONLY_PRESSURE, PYTHON, fragment, rss_kb
from pressed import limited  # noqa: F401 (a fixture)


def said_by(process):
	"""What the program prints at its end."""
	said = process.stdout.readline()
	while said and said != "well\n":
		said = process.stdout.readline()
	return said


# 160 MB of small blocks, nearly all freed again, then 150 MB of large ones: under 256 MB there is room for either.
HOARD = ["160", "150", "2", "250"]


def test_plain_glibc_is_killed_by_the_limit(run, bare, limited, compile_c):
	"""Without this the next tests would show nothing."""
	group = limited(256)

	got = run([compile_c("pressure_hoard.c"), *HOARD], bare, preexec_fn=group.enter)

	assert got.returncode == -9 and "well" not in got.stdout
	assert group.read("memory.failcnt") > 0


def test_the_shim_without_pressure_and_budget_is_killed_too(run, env, limited, compile_c, backend):
	"""So that it is the pressure part, and nothing else, by which the next test survives."""
	group = limited(256)

	got = run([compile_c("pressure_hoard.c"), *HOARD], env(**ONLY_PRESSURE, PRESSURE=0), preexec_fn=group.enter)

	assert got.returncode == -9 and group.read("memory.failcnt") > 0


def test_under_pressure_it_survives_and_the_record_says_why(spawn, env, limited, compile_c, mt_dir, tmp_path, backend):
	group = limited(256)
	watched = tmp_path / "memory.pressure"  # a group of v1 has none, and other tests make the machine's tasks wait for memory
	watched.write_text("some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
	settings = dict(env(**ONLY_PRESSURE, PROFILE=1), MEMORY_PRESSURE_WATCH=str(watched))
	process = spawn([compile_c("pressure_hoard.c"), *HOARD], settings, preexec_fn=group.enter)
	said = said_by(process)
	found = [record for record in stats_raw.records(mt_dir, process.pid)
	         if record["reason"] == "pressure" and record["pressure_level"]] # without one: ahead of it
	figures = stats_raw.figures(mt_dir, process.pid)
	process.stdin.close()

	assert said == "well\n" and process.wait(timeout=10) == 0
	assert max(record["rss_before_bytes"] - record["rss_after_bytes"] for record in found) > 80 * MB
	for record in found:
		assert "limit" in record["sources"] and record["pressure_level"] in (1, 2)
		assert record["pressure_limit_bytes"] == 256 * MB
		assert 0.85 * 256 * MB <= record["pressure_used_bytes"] <= 256 * MB
	assert figures["pressure_clean_count"] >= len(found) and figures["pressure_returned_bytes"] > 80 * MB
	assert figures["pressure_warn_count"] >= 1 and figures["pressure_limit_bytes"] == 256 * MB
	errors = process.stderr.read()
	assert re.search(r"warn: memory pressure: RAM at (8|9)\d\.\d % of 256 MB \(\S+memory\.(limit_in_bytes|max)\), .*: (purge|heavy cleanup)$",
	                 errors, re.MULTILINE), errors
	assert re.search(r"cleanup reason=pressure .* pressure=(warn|critical) sources=\S*limit\S* used_bytes=\d+ limit_bytes=268435456$",
	                 errors, re.MULTILINE), errors


# As fast as memory can be written, and all at once.
FASTEST = {"blocks": "1000000", "array": "0"}


@pytest.mark.alone  # many at once: make check-limits
@pytest.mark.parametrize("speed", FASTEST)
def test_growth_that_would_be_over_before_the_next_look_returns_free_memory_itself(run, env, limited, compile_c, speed, backend):
	group = limited(256)

	got = run([compile_c("pressure_hoard.c"), *HOARD[:3], FASTEST[speed]], env(**ONLY_PRESSURE), preexec_fn=group.enter)

	assert got.returncode == 0 and "well" in got.stdout, got.stderr


@pytest.mark.alone  # beside busy processes the worker gets nothing for seconds, for which no thread of the program waits
@pytest.mark.parametrize("speed", FASTEST)
def test_growth_survives_a_worker_thread_that_gets_no_processor_meanwhile(run, env, limited, compile_c, speed, backend):
	group = limited(256)

	got = run([compile_c("pressure_hoard.c"), *HOARD[:3], FASTEST[speed], "late"], env(**ONLY_PRESSURE), preexec_fn=group.enter)

	assert got.returncode == 0 and "well" in got.stdout, got.stderr


def test_free_memory_that_a_thread_returns_itself_is_told(spawn, env, limited, compile_c, awake, backend):
	group = limited(256)
	settings = env(**ONLY_PRESSURE)
	process = spawn([compile_c("pressure_hoard.c"), "160", "150", "1", "0"], settings, preexec_fn=group.enter)
	assert said_by(process) == "well\n" and process.poll() is None

	figures = awake(process.pid, settings)

	assert figures["pressure_wait_count"] >= 1 and figures["pressure_wait_ns"] > 0


@pytest.mark.slow
def test_what_threads_have_freed_before_they_ended_kills_no_thread_after_them(run, env, limited, compile_c, backend):
	"""Their arenas kept it, 12 MB for each thread, where the next thread had another arena."""
	group = limited(240)

	got = run([compile_c("pressure_threads.c")], env(), preexec_fn=group.enter)

	assert (got.returncode, got.stdout) == (0, "done\n")


def test_a_block_that_grows_is_moved_and_not_copied(run, env, limited, compile_c, backend):
	"""Three times 200 MB, never resident twice: each page faults once. A copy faulted for all of them again at each step."""
	group = limited(256)

	got = run([compile_c("pressure_grow.c"), "200"], env(), preexec_fn=group.enter)

	assert got.returncode == 0, got.stderr
	_, peak_mb, _, faults, _ = got.stdout.split()
	assert int(peak_mb) < 230, got.stdout
	assert int(faults) < 1.2 * 3 * 200 * MB / os.sysconf("SC_PAGESIZE"), got.stdout


def test_a_pool_of_300_threads_that_free_all_they_had_lives_where_it_lives_without_the_shim(run, env, limited, compile_c):
	"""Their caches held 343 MB; without the shim the pool takes 35 to 85."""
	got = run([compile_c("heap/idle_threads.c"), "300", "1"], env(), preexec_fn=limited(128).enter)

	assert (got.returncode, got.stdout) == (0, "ready\n"), got.stderr


@pytest.mark.parametrize("kind", ["malloc", "calloc", "memalign", "many", "smaller"])
def test_a_block_that_is_hardly_touched_stays_so_when_it_grows(run, env, limited, compile_c, kind, backend):
	"""1,000 MB with 1 MB touched: all of it was copied, and the limit killed the program."""
	got = run([compile_c("pressure_sparse.c"), kind], env(), preexec_fn=limited(256).enter)

	assert got.returncode == 0, got.stderr
	assert int(got.stdout) < 32


def test_an_array_that_doubles_lives_where_it_lives_without_the_shim(run, env, bare, limited, compile_c):
	"""What std::vector had outgrown stayed until the next block: 31 MB took 47, bare 33."""
	program = [compile_c("pressure_doubling.c"), 30]
	assert run(program, bare, preexec_fn=limited(36).enter).returncode == 0

	got = run(program, env(), preexec_fn=limited(36).enter)

	assert got.returncode == 0, got.stderr


def test_a_block_that_is_hardly_touched_stays_so_where_the_kernel_refuses_to_move_it(run, env, limited, compile_c):
	"""libc's realloc copies it there, and is killed."""
	got = run([compile_c("pressure_sparse.c"), "refused"], env(ALLOCATOR="jemalloc"), preexec_fn=limited(256).enter)

	if got.returncode == 77:
		pytest.skip("this kernel has no seccomp filters")
	assert got.returncode == 0, got.stderr
	assert int(got.stdout) < 32


@pytest.mark.parametrize("how", ["cut", "cuts"])
@pytest.mark.parametrize("taker", ["mapping", "fork"])
def test_what_realloc_cuts_off_is_there_for_others_at_once_near_a_limit(run, env, limited, compile_c, backend, taker, how):
	group = limited(160)

	got = run([compile_c("pressure_spare.c"), taker, how], env(), preexec_fn=group.enter)

	assert got.returncode == 0, got.stderr
	assert group.read("memory.max_usage_in_bytes") < 125 * MB


@pytest.mark.parametrize("taker", ["mapping", "tmpfs", "spawn", "fork"])
def test_what_was_freed_is_there_for_others_at_once_near_a_limit(run, env, limited, compile_c, backend, taker):
	"""glibc unmaps a large block when it is freed. What jemalloc kept until the next look got the program, or its child, killed."""
	group = limited(160)

	got = run([compile_c("pressure_spare.c"), taker], env(), preexec_fn=group.enter)

	assert got.returncode == 0, got.stderr
	assert group.read("memory.max_usage_in_bytes") < 125 * MB


def test_a_program_that_fits_its_limit_under_glibc_lives_under_the_shim(run, env, limited, compile_c, backend):
	"""And does not come so near that chance decides."""
	group = limited(256)

	got = run([compile_c("pressure_slots.c"), "185", "1"], env(), preexec_fn=group.enter)

	assert got.returncode == 0 and int(got.stdout.split()[0]) > 20, got.stderr
	assert group.read("memory.max_usage_in_bytes") <= 252 * MB


def test_memory_that_is_turned_over_near_the_limit_is_left_alone(run, env, limited, compile_c, backend):
	"""At 82 to 88 % of it. What a purge takes there is wanted again the next moment; over glibc much is mapped for each block anyway."""
	group = limited(256)
	command = [compile_c("pressure_mix.c"), "185", "20", "1"]

	for _ in range(3):  # beside other tests a purge may hit pages at work
		got = run(command, env(PROFILE=1), preexec_fn=group.enter)
		without = run(command, env(PRESSURE=0), preexec_fn=group.enter)
		assert got.returncode == 0 and without.returncode == 0, got.stderr
		assert got.stderr.count(" cleanup reason=pressure ") <= 2, got.stderr
		if faults_a_block(got) < faults_a_block(without) + FAULTS_OF_SOME_PURGES:
			break
	assert faults_a_block(got) < faults_a_block(without) + FAULTS_OF_SOME_PURGES


# Where each of nine purges a second takes 16 MB.
FAULTS_OF_SOME_PURGES = 0.1


def faults_a_block(got):
	blocks, _, faults = map(int, got.stdout.split())
	return faults / blocks


# A program that turns over the same memory near its limit, and one that does so while it holds the loader's lock, which a heavy
# cleanup wants; and one that resizes a block. Nothing that could go back is there.
WAYS = ("turns", "dlopen", "realloc")


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_program_that_does_not_grow_hardly_waits(spawn, env, limited, compile_c, awake, way, backend):
	group = limited(280)
	settings = env(**ONLY_PRESSURE)
	library = compile_c("pressure_turns.c", "-shared", "-fPIC", "-DLIBRARY")
	process = spawn([compile_c("pressure_turns.c"), "245" if way != "realloc" else "190", "3", library if way == "dlopen" else way],
	                {**settings, "TURNS_SECONDS": "3"}, preexec_fn=group.enter)
	turns = int(process.stdout.readline())
	figures = awake(process.pid, settings)
	process.stdin.close()

	assert process.wait(timeout=10) == 0 and turns > 100
	assert figures["pressure_wait_ns"] < 1e9, "of three seconds no more than a third, whatever else runs here"
	assert figures["pressure_clean_count"] <= 16, "what is free is taken again the next moment"


# Its first half is of use to nobody until Python's gc has run, its second half grows past it: by a pause after each MB.
PYTHON_HOARD = r'''
import sys, time
kept = []
for turn in range(2):
    cycles = []
    for i in range(26000):                 # dropped only when Python's gc runs: each holds its neighbour
        node = {"data": bytearray(5000)}
        node["self"] = node
        cycles.append(node)
    kept = [bytes(5000) for _ in range(100)]
    del cycles, node
    big = []
    for i in range(120):
        big.append(bytearray(b"x") * (1 << 20))
        time.sleep(float(sys.argv[1]))
    del big
print("well")
'''


@pytest.mark.parametrize("pause", [0, 0.01, pytest.param(0.1, marks=pytest.mark.long)])
def test_a_python_program_survives_on_its_defaults(run, env, limited, pause, backend):
	group = limited(256)

	got = run([PYTHON, "-c", PYTHON_HOARD, str(pause)], env(), preexec_fn=group.enter)

	assert (got.returncode, got.stdout) == (0, "well\n"), got.stderr


def test_a_process_gives_back_when_another_one_of_its_container_grows(puppet, spawn, env, bare, limited, mt_dir):
	"""Its own heap does not move: nothing but the pace near the limit tells it."""
	group = limited(256)
	actor = puppet(env(**ONLY_PRESSURE), preexec_fn=group.enter)
	fragment(actor, 120)
	assert rss_kb(actor.pid) > 100_000
	other = spawn([PYTHON, "-c", "held = [bytearray(b'x') * (1 << 20) for _ in range(90)]\nprint('full', flush=True)\ninput()"],
	              bare, preexec_fn=group.enter)
	assert other.stdout.readline() == "full\n"

	found = stats_raw.wait_records(mt_dir, actor.pid, lambda record: record["reason"] == "pressure")

	assert found and rss_kb(actor.pid) < 30_000
	assert other.poll() is None and group.read("memory.failcnt") == 0


def test_a_trim_that_a_fork_overtakes_copies_no_fast_bins(run, env, limited, compile_c):
	"""The worker decides on a purge just before the fork, and comes to it just after: the pages would be copied, past the limit."""
	group = limited(256)

	got = run([compile_c("fast_bins.c"), "120"], env(ALLOCATOR="system"), preexec_fn=group.enter)

	assert (got.returncode, got.stdout) == (0, "well\n"), got.stderr
