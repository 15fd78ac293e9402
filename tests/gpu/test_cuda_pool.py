"""The pool under a program, on the fake driver: what it keeps, when it gives it back, and that the program sees the driver's answers.

`used` is what the fake driver itself has lent, so that no figure of ours is believed for what was given back.
"""
import os
import signal
import time

import pytest

MB = 1 << 20
OOM = 2
INVALID = 1
# Kinds of memory: command, command that frees, in the order of the puppet's.
KINDS = [("alloc", "free"), ("pitch", "free"), ("managed", "free"), ("async", "asyncfree"), ("vmm", "release"),
         ("array", "unarray")]


@pytest.fixture
def program(compile_c):
	return compile_c("cuda_puppet.c")


@pytest.fixture
def cuda(steer, program, fakecuda, env):
	"""cuda(fake settings, MT settings): the puppet under the shim. Nothing goes back by itself unless the test asks for it."""
	def start(version=None, driver=None, environment=None, **settings):
		settings = dict({"CUDA_DECAY_MS": 0, "CUDA_LOW_PCT": 0}, **settings)
		one = steer([program], fakecuda(environment or env(**settings), version, **(driver or {})))
		# Before that, the cleanup signal would still end it.
		assert one.number("sync") == 0
		return one
	return start


@pytest.fixture
def same_answers(run, program, fakecuda, bare, env):
	"""same_answers(lines, ...): the program's answers, which must be the same with and without the shim."""
	def compare(lines, version=None, **driver):
		feed = "\n".join(lines) + "\n"
		expected = run([program], fakecuda(bare, version, **driver), input=feed)
		got = run([program], fakecuda(env(), version, **driver), input=feed)
		assert list(zip(lines, got.stdout.split())) == list(zip(lines, expected.stdout.split()))
		assert got.returncode == expected.returncode and got.stderr == expected.stderr == ""
		return got.stdout.split()
	return compare


def fill_and_free(cuda, count, each):
	for slot in range(count):
		assert cuda.number(f"alloc {slot} {each}") == 0
	for slot in range(count):
		assert cuda.number(f"free {slot}") == 0


def test_a_freed_block_serves_the_next_request_without_the_driver(cuda):
	one = cuda()

	assert one.number(f"churn 1000 {MB}") == 0

	assert one.number("calls cuMemAlloc_v2") < 10
	assert one.number("calls cuMemFree_v2") < 10


@pytest.mark.parametrize("mode", ["account", "off"])
def test_without_a_pool_every_call_is_the_drivers(cuda, mode):
	one = cuda(CUDA=mode)

	assert one.number(f"churn 1000 {MB}") == 0

	assert one.number("calls cuMemAlloc_v2") == 1000
	assert one.number("calls cuMemFree_v2") == 1000
	assert one.number("used 0") == 0


def test_cached_memory_counts_as_free(cuda):
	one = cuda()
	before = one.number("info")

	fill_and_free(one, 8, 4 * MB)

	assert one.number("used 0") >= 32 * MB
	assert one.number("info") == before


def test_decay_gives_everything_back(cuda, wait_for):
	one = cuda(CUDA_DECAY_MS=300, MIN_MB=0)

	fill_and_free(one, 32, 2 * MB)
	assert one.number("used 0") == 64 * MB

	wait_for(lambda: one.number("used 0") == 0, 5, "idle blocks go back")
	assert one.number("alloc 0 100") == 0 and one.number("free 0") == 0


def test_decay_leaves_what_is_in_use(cuda, wait_for):
	one = cuda(CUDA_DECAY_MS=200)
	assert one.number(f"alloc 100 {2 * MB}") == 0 and one.number(f"fill 100 {MB} 5") == 0

	fill_and_free(one, 8, 2 * MB)

	wait_for(lambda: one.number("used 0") == 2 * MB, 5, "idle blocks go back")
	assert one.number(f"check 100 {MB} 5") == 0


def test_a_nearly_full_device_keeps_nothing(cuda, wait_for):
	one = cuda(CUDA_LOW_PCT=50, driver={"MEMORY_MB": 100})

	for slot in range(40):
		assert one.number(f"alloc {slot} {2 * MB}") == 0
	for slot in range(10):
		assert one.number(f"free {slot}") == 0

	wait_for(lambda: one.number("used 0") == 60 * MB, 5, "the freed blocks go back")


@pytest.mark.parametrize("how", ["signal", "mtctl"])
def test_a_heavy_cleanup_gives_all_idle_blocks_back(cuda, control, awake, wait_for, how):
	one = cuda()
	assert one.number(f"alloc 100 {2 * MB}") == 0
	fill_and_free(one, 16, 4 * MB)
	assert one.number("used 0") == 66 * MB

	if how == "signal":
		os.kill(one.pid, signal.SIGUSR1)
	else:
		awake(one.pid, one.env)
		done = control(one.env, "trim", one.pid)
		assert done.returncode == 0, done.stdout + done.stderr

	wait_for(lambda: one.number("used 0") == 2 * MB, 5, "idle blocks go back")


def test_a_cleanup_during_a_capture_waits_for_its_end(cuda, stats, awake, wait_for):
	one = cuda()
	fill_and_free(one, 16, 4 * MB)
	assert one.number(f"alloc 100 {MB}") == 0
	awake(one.pid, one.env)
	assert one.number("capture 0") == 0 and one.number(f"record 100 {MB} 7") == 0

	os.kill(one.pid, signal.SIGUSR1)
	record = wait_for(lambda: [record for record in stats(one.pid, one.env)["records"] if record["reason"] == "signal"],
	                  10, "a record of the cleanup")[-1]
	assert record["gpu_state"] == "capturing"
	assert one.number("used 0") >= 64 * MB

	assert one.number("uncapture") == 0 and one.number("replay") == 0
	assert one.number(f"check 100 {MB} 7") == 0
	wait_for(lambda: one.number("used 0") <= 2 * MB, 10, "the cleanup catches up")


def test_signals_in_a_storm_of_allocations(cuda, wait_for):
	one = cuda()
	one.process.stdin.write("storm 1.5 0\n")
	one.process.stdin.flush()
	end = time.monotonic() + 1.3
	while time.monotonic() < end:
		os.kill(one.pid, signal.SIGUSR1)
		time.sleep(0.002)
	assert one.process.stdout.readline() == "0\n"

	os.kill(one.pid, signal.SIGUSR1)
	wait_for(lambda: one.number("used 0") == 0, 5, "everything goes back")
	assert one.number("misuses") == 0 and one.number("refused") == 0


def test_forks_in_a_storm_of_allocations(cuda):
	one = cuda()

	assert one.number("storm 1 20") == 0

	assert one.number(f"churn 10 {MB}") == 0


def test_a_forked_childs_free_is_answered_as_the_driver_does(same_answers):
	same_answers([f"alloc 0 {MB}", f"alloc 1 {MB}", "free 1", "fork 0", "fork 1", "free 0", f"alloc 0 {MB}", "free 0"])


def test_odd_frees_are_answered_as_the_driver_does(same_answers):
	answers = same_answers([f"alloc 0 {MB}", "free 0", "free 0", "free 0", "free 5", f"alloc 1 {MB}", "free 1", "free 1",
	                        f"managed 2 {MB}", "free 2", "free 2"])

	assert answers[1:4] == ["0", "1", "1"]


def test_a_broken_context_answers_as_the_driver_does(same_answers):
	answers = same_answers([f"alloc 0 {MB}", f"alloc 1 {MB}", "free 1", "illegal", f"alloc 2 {MB}", "free 0", "sync"])

	assert answers[3] == "700"


def test_calls_after_the_drivers_end_are_quiet(cuda):
	"""As in a program's destructors, which run after the driver's own."""
	one = cuda(MIN_MB=0)
	for slot in range(4):
		assert one.number(f"alloc {slot} {MB}") == 0
	assert one.number("free 0") == 0 and one.number("deinit") == 0

	# A free that goes into the cache asks nobody.
	assert {one.number(f"free {slot}") for slot in range(1, 4)} <= {0, 4}
	assert one.number(f"alloc 0 {2 * MB}") == 4 and one.number(f"alloc 0 {MB}") == 4
	os.kill(one.pid, signal.SIGUSR1)
	time.sleep(0.3)

	assert one.end() == (0, "")


def test_a_reset_device_starts_again(cuda):
	one = cuda()
	assert one.number(f"alloc 100 {2 * MB}") == 0
	fill_and_free(one, 8, 2 * MB)

	assert one.number("reset") == 0

	assert one.number("used 0") == 0
	fill_and_free(one, 8, 2 * MB)
	assert one.number("misuses") == 0 and one.number("refused") == 0


@pytest.mark.parametrize("end", ["reset 0", "reset 1", "destroy"])
@pytest.mark.parametrize("free", ["wait", "async"])
def test_after_the_end_of_a_context_the_figures_are_what_the_driver_has_lent(cuda, stats, awake, end, free):
	"""Live, idle and pending blocks, and memory of other kinds, of which some outlives the context."""
	one = cuda(MIN_MB=0, CUDA_FREE=free)
	if end == "destroy":
		assert one.number("new") == 0
	fill_and_free(one, 8, 2 * MB)
	for slot, (kind, _) in enumerate(KINDS):
		if kind != "async" or end != "destroy":  # its stream is of the primary context, and so is the delay's
			assert one.number(f"{kind} {slot} {6 * MB}") == 0
	assert one.number(f"alloc 100 {10 * MB}") == 0
	assert end == "destroy" or one.number("delay 100000") == 0
	assert one.number("free 100") == 0

	assert one.number(end) == 0

	awake(one.pid, one.env)
	device, = stats(one.pid, one.env)["devices"]
	held = {name: device[name] for name in device if name.endswith("_live_bytes") and device[name]}
	assert {device[name] for name in ("allocated_bytes", "requested_bytes", "reserved_bytes", "pending_bytes", "idle_bytes",
	                                  "blocks_count")} == {0}
	assert sum(held.values()) == one.number("used 0"), held
	fill_and_free(one, 8, 2 * MB)
	assert one.number("misuses") == 0 and one.number("refused") == 0


def test_a_block_known_to_another_process_is_never_handed_out_again(cuda):
	one = cuda()
	assert one.number(f"alloc 0 {2 * MB}") == 0 and one.number("ipc 0") == 0

	assert one.number("free 0") == 0

	assert one.number("used 0") == 0


@pytest.mark.parametrize("kind", [kind for kind, _ in KINDS])
def test_idle_blocks_make_room_for_any_kind_of_memory(cuda, kind):
	one = cuda(driver={"MEMORY_MB": 64})
	fill_and_free(one, 12, 4 * MB)
	assert one.number("used 0") == 48 * MB

	assert one.number(f"{kind} 100 {40 * MB}") == 0

	assert one.number(f"{dict(KINDS)[kind]} 100") == 0
	status, stderr = one.end()
	assert status == 0 and stderr == ""


@pytest.mark.parametrize("kind", [kind for kind, _ in KINDS])
def test_out_of_memory_reaches_the_program_and_is_reported_once(cuda, kind):
	one = cuda(driver={"MEMORY_MB": 64})

	assert one.number(f"{kind} 100 {100 * MB}") == OOM
	assert one.number(f"{kind} 100 {100 * MB}") == OOM

	assert one.number(f"churn 10 {MB}") == 0
	status, stderr = one.end()
	assert status == 0 and stderr.count("is out of memory:") == 1, stderr


@pytest.mark.parametrize("kind", [kind for kind, _ in KINDS])
def test_an_out_of_memory_that_the_programs_own_second_try_overcomes_is_not_reported(cuda, kind):
	one = cuda(driver={"MEMORY_MB": 64}, CUDA="account")
	assert one.number(f"alloc 0 {40 * MB}") == 0

	assert one.number(f"{kind} 100 {40 * MB}") == OOM
	assert one.number("free 0") == 0
	assert one.number(f"{kind} 100 {40 * MB}") == 0

	assert one.number(f"{dict(KINDS)[kind]} 100") == 0
	status, stderr = one.end()
	assert status == 0 and stderr == ""


def test_mapped_memory_is_counted_as_long_as_it_is_mapped(cuda, stats, awake, wait_for):
	one = cuda(MIN_MB=0)

	def counted():
		awake(one.pid, one.env)
		return sum(device["vmm_live_bytes"] for device in stats(one.pid, one.env)["devices"])

	assert one.number(f"vmm 0 {8 * MB}") == 0 and one.number(f"map 1 0 {8 * MB}") == 0 and one.number(f"map 2 0 {8 * MB}") == 0
	assert one.number("release 0") == 0 and one.number("unmap 2 " + str(8 * MB)) == 0
	assert one.number("used 0") == 8 * MB
	wait_for(lambda: counted() == 8 * MB, 5, "it is counted without its handle")
	assert one.number("unmap 1 " + str(8 * MB)) == 0 and one.number("used 0") == 0
	wait_for(lambda: counted() == 0, 5, "it is gone")


@pytest.mark.parametrize("mode", ["pool", "account", "off"])
def test_the_end_with_live_blocks_is_quiet(cuda, mode):
	one = cuda(CUDA=mode, MIN_MB=0)
	assert one.number(f"alloc 0 {MB}") == 0 and one.number(f"alloc 1 {MB}") == 0 and one.number("free 1") == 0

	one.process.stdin.write("exit 5\n")
	status, stderr = one.end()

	assert status == 5 and stderr == ""
