"""Flags that a program sets on the pages of a large block: libc's free unmaps the block, and they are gone."""
import pytest

from pressed import PYTHON, rss_kb

KB = 1 << 10
# Below 1 MB a process is asleep on libc's malloc. From 4 MB on realloc moves pages.
SIZES = [256 * KB, 1200 * KB, 8192 * KB]
CALLS = ["dontfork", "wipeonfork", "dontdump", "mlock", "protect"]
WAYS = [(call, size, "libc") for call in CALLS for size in SIZES]
WAYS += [(call, 1200 * KB, "syscall") for call in ("dontfork", "mlock")]
WAYS += [("dontfork", size, "libc.so.6") for size in SIZES]
WAYS += [("dontfork", size, way) for size in SIZES for way in ("grown", "shrunk")]
WAYS += [("protect", 256 * KB, "shrunk")]


@pytest.mark.parametrize("call, size, way", WAYS, ids=["-".join(map(str, way)) for way in WAYS])
def test_a_freed_block_leaves_no_flag_to_the_blocks_that_come_after_it(run, env, bare, compile_c, call, size, way):
	"""A child that read a small block died by SIGSEGV; what was locked stayed locked, 385 MB after four blocks."""
	program = compile_c("page_flags.c")
	expected, got = (run([program, call, size, way], settings) for settings in (bare, env()))
	if expected.returncode == 77:
		pytest.skip("so much may not be locked here")

	assert expected.stdout.startswith("whole\nlocked 0 kB\n"), expected.stdout
	assert (got.returncode, got.stdout.splitlines()[:2]) == (0, ["whole", "locked 0 kB"]), got.stderr
	assert got.stdout.splitlines()[2] == expected.stdout.splitlines()[2]


def test_large_blocks_beside_a_thousand_flagged_pages_keep_theirs(run, env, compile_c):
	"""Stacks of coroutines, each with a guard page: what lay between the ranges counted as flagged, too, and had 250 page faults a block."""
	got = run([compile_c("guarded_stacks.c")], env(TICK_MS=60000), timeout=60)

	assert (got.returncode, got.stderr) == (0, "")
	assert int(got.stdout) < 20_000


@pytest.mark.parametrize("call", ["nohugepage", "dontdump", "mlock", "mprotect"])
def test_a_handler_that_interrupts_such_a_call_may_allocate_and_fork(run, env, compile_c, call):
	"""The handler waited for ever for a lock that its own thread held."""
	got = run([compile_c("handler_beside_advice.c"), call], env(), timeout=30)
	if got.returncode == 77:
		pytest.skip("so much may not be locked here")

	assert (got.returncode, got.stdout, got.stderr) == (0, "goes on\n", "")


@pytest.mark.long
def test_thousands_of_large_blocks_in_random_order_are_few_mappings(run, env, compile_c):
	"""Each was a mapping of its own, 6,700 in all (libc 81); the kernel allows 65,530."""
	got = run([compile_c("large_mappings.c")], env(), timeout=60)

	assert got.returncode == 0 and int(got.stdout) < 3000, got.stdout


# 500 MB in blocks of 64 kB, of which every second one is dropped.
EVERY_SECOND = r"""
import sys
blocks = [bytearray(b"x" * (64 << 10)) for i in range(8000)]
blocks[::2] = [None] * 4000
print("ready", flush=True)
sys.stdin.read()
"""


def test_thousands_of_purged_pieces_do_not_split_the_mapping(steer, env, wait_for):
	"""A purge that leaves each piece out of a core dump makes a mapping of it; the kernel allows 65,530."""
	one = steer([PYTHON, "-c", EVERY_SECOND], env(IDLE_MS=10, TICK_MS=10, SETTLE_MS=100))
	one.process.stdout.readline()
	wait_for(lambda: rss_kb(one.pid) < 350 << 10, 20, "the dropped blocks are purged")

	with open(f"/proc/{one.pid}/maps") as maps:
		assert len(maps.readlines()) < 500
