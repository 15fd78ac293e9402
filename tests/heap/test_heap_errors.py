"""Heap errors of a program that has grown: what ends in libc's kind of abort, always and with MT_CHECK=1."""
import contextlib
import signal
import subprocess
import sys
import time

import pytest

SIZES = (24, 200, 1000, 3000, 8000, 20_000, 100_000, 4_000_000)

TWICE = ("twice", "twice_with_one_between", "twice_with_many_between", "twice_by_two_threads")
INTERIOR = ("by_8", "by_16", "by_half")
FREED = ("free_then_realloc",)
FOREIGN = ("of_stack", "of_program", "of_mapping", "of_nothing")
REALLOC = ("realloc_by_16",)


@pytest.fixture
def makes(run, compile_c):
	"""makes(error, bytes, env): a run that ends by SIGABRT after one line of libc's kind, or else its way to end."""
	def made(error, size, settings):
		got = run([compile_c("heap_errors.c"), error, size], settings, timeout=30)
		if got.returncode == -signal.SIGABRT and got.stderr.startswith(("free(): ", "realloc(): ")) and got.stderr.count("\n") == 1:
			return "abort"
		return (got.returncode, got.stdout, got.stderr)
	return made


@pytest.mark.parametrize("error", TWICE + INTERIOR + FREED + FOREIGN + REALLOC)
def test_with_mt_check_each_error_is_an_abort(makes, env, error):
	ends = {size: makes(error, size, env(CHECK=1)) for size in SIZES if (error, size) != ("by_half", 24)}

	assert set(ends.values()) == {"abort"}, ends


@pytest.mark.parametrize("error", FOREIGN)
def test_a_pointer_that_was_never_the_heaps_is_an_abort(makes, env, error):
	assert {makes(error, size, env()) for size in SIZES} == {"abort"}


@pytest.mark.parametrize("error", TWICE)
def test_a_large_block_that_is_freed_twice_is_an_abort(makes, env, error):
	"""It was an endless loop, with the lock of the arena held."""
	assert {makes(error, size, env()) for size in (100_000, 4_000_000)} == {"abort"}


@pytest.mark.parametrize("error", ["twice", "twice_with_one_between"])
def test_a_small_block_that_is_freed_twice_is_an_abort_when_its_slab_is_empty(makes, env, error):
	assert {makes(error, size, env()) for size in (24, 200)} == {"abort"}


def test_a_block_that_libc_made_and_that_is_freed_twice_is_an_abort_after_the_process_has_woken_up(makes, env):
	"""free never came back: the block had been taken out of the cache by which libc knows it."""
	assert {makes("old_twice", size, env()) for size in (24, 200, 1000)} == {"abort"}


@pytest.mark.parametrize("size", SIZES)
def test_a_program_without_errors_goes_on(makes, env, size):
	assert makes("none", size, env(CHECK=1)) == makes("none", size, env()) == (0, "goes on\n", "")


def test_python_goes_on_with_mt_check(run, env):
	program = "import json, threading, email.message, re\n" \
	          "work = lambda: [re.sub('a', 'b' * i, json.dumps([list(range(i))] * 9)) for i in range(100)]\n" \
	          "threads = [threading.Thread(target=work) for _ in range(4)]\n" \
	          "[t.start() for t in threads]; [t.join() for t in threads]; print('ends')"

	got = run([sys.executable, "-c", program], env(CHECK=1, PYTHON_MALLOC="malloc"))

	assert (got.returncode, got.stdout, got.stderr) == (0, "ends\n", "")


def test_a_signal_handler_that_allocates_inside_malloc_does_not_hang(spawn, env, compile_c):
	"""POSIX does not allow it. libc's malloc aborts; five of six runs waited for ever for a lock of their own thread. It cannot be
	told in the two instructions between a lock and the note of its owner, so a run still waits now and then: on a busy machine two of 24."""
	processes = [spawn([compile_c("handler_allocates.c")], env()) for _ in range(5)]
	end, ends = time.monotonic() + 15, []
	for process in processes:
		with contextlib.suppress(subprocess.TimeoutExpired):
			ends.append(process.wait(max(end - time.monotonic(), 0.1)))

	assert len(ends) >= 3 and set(ends) <= {0, -signal.SIGABRT, -signal.SIGSEGV}, ends
