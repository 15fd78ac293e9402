"""Limits of the address space: what the program frees can be mapped again, by anybody in the process."""
import resource
import subprocess

import pytest

PYTHON = "/usr/bin/python3"
LIMIT_MB = 300
WAYS = [(limit, blocks, "first") for limit in ("as", "data") for blocks in ("large", "medium", "small", "scattered")]
WAYS += [("as", "small", "full"), ("as", "small", "freed"), ("as", "large", "child")]


@pytest.mark.parametrize("how", ["grown", "small", "mixed", "threads"])
@pytest.mark.parametrize("limit, megabytes", [("as", 60), ("as", 400), ("data", 60), ("data", 2000)])
def test_a_program_under_a_limit_gets_what_it_gets_without_the_library(run, env, bare, compile_c, limit, megabytes, how):
	"""jemalloc served it: a buffer could grow to 19 of 60 MB, to 191 of 400, where libc's moves it without a copy."""
	program = [compile_c("most_at_limit.c", "-pthread"), limit, megabytes, how]
	without, got = (int(run(program, settings).stdout) for settings in (bare, env()))

	assert got > without - 8, (without, got)


LIMITED = r"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (100 << 20,) * 2)
MAKE = {"buffer": lambda: bytes(1 << 16), "list": lambda: [None] * 8192, "blocks": lambda: (bytes(1 << 16),)}[sys.argv[1]]
held, rounds = (bytearray() if sys.argv[1] == "buffer" else []), 0
try:
	while True:
		held += MAKE()
		rounds += 1
except MemoryError:
	pass
sys.stdout.write(str(rounds // 16))
"""


@pytest.mark.parametrize("what", ["buffer", "list", "blocks"])
@pytest.mark.parametrize("when", ["before", "in"])
def test_python_under_a_limit_gets_what_it_gets_without_the_library(run, env, bare, what, when):
	"""An eighth of the limit stayed reserved for Python's objects, beside what jemalloc needs: 25 MB of 100 for 82."""
	shell = ["sh", "-c", ("ulimit -v 102400; " if when == "before" else "") + 'exec "$@"', "sh"]
	without, got = (int(run([*shell, PYTHON, "-c", LIMITED, what], settings).stdout) for settings in (bare, env()))

	assert got > without - 12, (without, got)


@pytest.mark.parametrize("limit, blocks, when", WAYS, ids=list(map("-".join, WAYS)))
def test_address_space_can_be_mapped_again_once_all_blocks_are_freed(run, env, compile_c, limit, blocks, when):
	"""jemalloc kept all of it mapped for itself: no mapping, no thread, no library, for good."""
	program = [compile_c("address_limit.c"), limit, blocks, when]
	got = run(program, env(ALLOCATOR="jemalloc"))

	assert got.returncode == 0, got.stderr
	_, mapped_mb, threads = map(int, got.stdout.split())
	assert threads == 20 and mapped_mb >= (LIMIT_MB // 3 if blocks == "scattered" else LIMIT_MB * 2 // 3), got.stdout


def test_threads_that_fill_and_free_the_limit_in_turns_end_well(run, env, compile_c):
	"""What jemalloc mapped into a hole for one arena was joined with a free extent of another arena."""
	got = run([compile_c("threads_at_limit.c", "-pthread"), 16], env(ALLOCATOR="jemalloc"), timeout=120)

	assert got.stdout == "16\n", got.stderr


@pytest.mark.parametrize("kilobytes", [20000000, 6000000])
def test_blocks_keep_their_bytes_under_a_far_limit_that_is_no_round_number(run, env, compile_c, kilobytes):
	"""A share of the limit was no multiple of a page, and free extents were cut there."""
	program = [compile_c("uneven_limit.c"), kilobytes]
	for _ in range(3):
		got = run(program, env(MT_ALLOCATOR="jemalloc"), timeout=60)
		assert (got.returncode, got.stdout) == (0, "ok\n"), got.stdout + got.stderr


@pytest.mark.parametrize("threads, limit", [(8, "as"), (8, "data"), pytest.param(150, "as", marks=pytest.mark.long)])
def test_what_many_threads_had_at_the_limit_serves_larger_blocks_and_a_thread_afterwards(run, env, compile_c, threads, limit):
	"""Each arena kept the pieces that it had mapped one by one: 300 kB were refused for good, and no thread could start."""
	got = run([compile_c("filled_limit.c", "-pthread"), threads, limit], env(ALLOCATOR="jemalloc"), timeout=120)

	assert got.returncode == 0 and got.stdout.count("yes") == 17, got.stdout


@pytest.mark.parametrize("count", [30000, pytest.param(100000, marks=pytest.mark.long)])
@pytest.mark.parametrize("allocator", ["auto", "jemalloc"])
def test_threads_that_free_memory_of_others_in_their_end_leave_nothing_behind(run, env, compile_c, allocator, count):
	"""A purge entered such a thread into jemalloc's list of threads, and its stack was unmapped."""
	got = run([compile_c("ending_threads.c", "-pthread"), count], env(ALLOCATOR=allocator), timeout=120)

	assert (got.returncode, got.stdout) == (0, "done\n"), got.stderr


SURVIVES = r"""
import mmap, resource, sys, threading
kind, what, mapped_mb = sys.argv[1:]
resource.setrlimit(getattr(resource, "RLIMIT_" + kind), (400 << 20,) * 2)
MAKE = {"bytes": lambda: bytearray(1 << 20), "objects": lambda: [(i, str(i)) for i in range(1000)],
        "dicts": lambda: {i: [i] for i in range(20000)}}[what]
held = []
try:
	while True:
		held.append(MAKE())
except MemoryError:
	pass
count = len(held)
del held
threading.stack_size(4 << 20)
threads = [threading.Thread(target=int) for _ in range(10)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
import decimal, lzma, multiprocessing, sqlite3, ssl
mmap.mmap(-1, int(mapped_mb) << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
print(count > 100, "lives")
"""


@pytest.mark.parametrize("allocator, mapped_mb", [("auto", 100), ("jemalloc", 170)])
@pytest.mark.parametrize("limit, what", [("AS", "bytes"), ("AS", "objects"), ("AS", "dicts"), ("DATA", "objects")])
def test_python_maps_imports_and_starts_threads_after_a_memory_error(run, env, limit, what, allocator, mapped_mb):
	"""auto: libc's malloc, which may reserve 64 MB for a second thread's arena."""
	got = run([PYTHON, "-c", SURVIVES, limit, what, mapped_mb], env(ALLOCATOR=allocator), timeout=120)

	assert got.stdout == "True lives\n", got.stderr


DUMPED = r"""
import sys
rows = [{"row": i} for i in range(100000)]
print(id(rows[5000]), flush=True)
sys.stdin.read()
"""


def dumped_ranges(pid):
	"""The address ranges that a core dump has: those without the flag dd."""
	with open(f"/proc/{pid}/smaps") as file:
		for line in file:
			words = line.split()
			if not words[0].endswith(":"):
				begin, end = (int(word, 16) for word in words[0].split("-"))
			elif words[0] == "VmFlags:" and "dd" not in words:
				yield begin, end


def test_a_core_of_python_has_its_objects_and_not_what_is_reserved_for_more(steer, env):
	"""gcore wrote 64 GB of nothing: two minutes, and a full disk."""
	one = steer([PYTHON, "-c", DUMPED], env(MIN_MB=0))
	address = int(one.process.stdout.readline())

	ranges = list(dumped_ranges(one.pid))

	assert sum(end - begin for begin, end in ranges) < 400 << 20
	assert any(begin <= address < end for begin, end in ranges)


REFILLS = r"""
import sys
print("ready", flush=True)
for line in sys.stdin:
	held = [bytearray(b"x" * (16 << 20)) for _ in range(int(line))]
	print(len(held), flush=True)
"""


def test_a_core_has_what_is_used_again_and_not_what_was_purged(steer, env, wait_for):
	"""gcore wrote the purged pages as zeros, as much as the process had ever had."""
	def dumped_mb():
		return sum(end - begin for begin, end in dumped_ranges(one.pid)) >> 20
	one = steer([PYTHON, "-c", REFILLS], env(MIN_MB=0, IDLE_MS=10, TICK_MS=10, SETTLE_MS=100))
	one.process.stdout.readline()
	one.tell("30")
	full = dumped_mb()

	one.tell("0")
	wait_for(lambda: dumped_mb() < full - 400, 20, "purged pages are left out")
	one.tell("30")
	assert dumped_mb() > full - 100


def test_a_program_that_fills_and_frees_in_rounds_under_a_far_limit_has_no_more_mappings_with_each(run, env, compile_c):
	"""Each purge left the end of what had been mapped between two holes: a mapping a round, of 65,530, and 44 kB."""
	program = [compile_c("address_rounds.c")]
	early, late = map(int, run(["sh", "-c", 'ulimit -v 8000000; exec "$@"', "sh", *program], env(), timeout=60).stdout.split())

	assert late < early + 20, (early, late)


@pytest.mark.parametrize("limit", ["-v", "-d"])
def test_a_program_that_reuses_its_blocks_pays_nothing_for_a_limit_that_is_far(run, env, compile_c, limit):
	"""Each 64th part of the limit that was freed was purged, however much could still be mapped: 2 million page faults for 37,000."""
	program = [compile_c("reused_blocks.c"), 40]
	settings = env(ALLOCATOR="jemalloc", BUDGET_PCT=0)
	free, limited = (int(run(["sh", "-c", f'{command}exec "$@"', "sh", *program], settings, timeout=60).stdout)
	                 for command in ("", f"ulimit {limit} 1000000; "))

	assert limited < 10 * free, (limited, free)


OUTSIDE = r"""
import sys
print("ready", flush=True)
sys.stdin.readline()
for _ in range(20):
    blocks = [bytearray(300000) for _ in range(50)]
print("done")
"""


def test_a_small_process_that_another_one_limits_can_still_allocate(bare, env):
	"""The address space reserved for Python's objects counted against the limit, and only a worker would have seen it."""
	for settings in (bare, env()):
		with subprocess.Popen([PYTHON, "-c", OUTSIDE], env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
			child.stdout.readline()
			resource.prlimit(child.pid, resource.RLIMIT_AS, (LIMIT_MB << 20, LIMIT_MB << 20))
			assert child.communicate("go\n", timeout=30)[0] == "done\n" and child.returncode == 0


FREED_ONCE = r"""
import mmap, resource
blocks = [bytearray(8 << 20) for _ in range(8)]
del blocks
resource.setrlimit(resource.RLIMIT_AS, (4000 << 20,) * 2)
blocks = [bytearray(2 << 20) for _ in range(200)]
del blocks
mmap.mmap(-1, 3380 << 20, flags=mmap.MAP_PRIVATE | 0x4000)
"""


def test_what_is_freed_once_can_be_mapped_by_the_program_at_once(run, env, bare):
	"""Only what the program takes again and again stays mapped: 400 MB that it built and freed once lacked for its own mapping."""
	for settings in (bare, env(), env(ALLOCATOR="jemalloc")):
		got = run([PYTHON, "-c", FREED_ONCE], settings)
		assert got.returncode == 0, got.stderr
