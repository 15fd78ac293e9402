"""Transparent huge pages: what a purge has returned stays returned, whatever the machine's setting."""
import contextlib
import pathlib
import shutil
import subprocess
import tempfile

import leftovers
import memory_group
import pytest

THP = pathlib.Path("/sys/kernel/mm/transparent_hugepage")
# khugepaged looks at all memory ten times a second
FAST = {"khugepaged/scan_sleep_millisecs": "100", "khugepaged/alloc_sleep_millisecs": "100", "khugepaged/pages_to_scan": "32768"}
MB = 1 << 20
SETTINGS = {"IDLE_MS": 200, "SLACK_MB": 4, "SETTLE_MS": 1000}

pytestmark = pytest.mark.alone  # the setting is the machine's


@contextlib.contextmanager
def changed():
	"""A function that changes the machine's setting, until the end, and makes khugepaged fast."""
	before = {}

	def write(name, value):
		(THP / name).write_text(value)

	def use(setting):
		try:
			for name, value in {"enabled": setting, **FAST}.items():
				words = (THP / name).read_text().split()
				before[name] = next((word.strip("[]") for word in words if word.startswith("[")), words[0])
				write(name, value)
		except OSError as error:
			pytest.skip(f"the setting of transparent huge pages cannot be changed here: {error}")

	try:
		yield use
	finally:
		for name, value in before.items():
			with contextlib.suppress(OSError):  # as little as before
				write(name, value)


@pytest.fixture
def huge_pages():
	"""huge_pages(setting): the machine has it until the test ends."""
	with changed() as use:
		yield use


@contextlib.contextmanager
def memory_cgroup():
	"""A memory cgroup without a limit that matters."""
	try:
		made = memory_group.MemoryGroup(f"{leftovers.prefix()}huge", 2048 * MB)
	except memory_group.CannotMake as reason:
		pytest.skip(str(reason))
	try:
		yield made
	finally:
		made.remove()


@pytest.fixture
def group():
	with memory_cgroup() as made:
		yield made


class Purged:
	"""returned_pages.c in its own MT_DIR: its two lines, resident and huge MB after a purge and seconds later."""

	def __init__(self, stack, command, environment):
		folder = tempfile.mkdtemp(prefix=leftovers.prefix(), dir="/dev/shm")
		stack.callback(shutil.rmtree, folder, ignore_errors=True)
		settings = {f"MT_{name}": str(value) for name, value in SETTINGS.items()}
		self.process = stack.enter_context(subprocess.Popen(command, env={**environment, **settings, "MT_DIR": folder}, text=True,
		                                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE))
		stack.callback(self.process.kill)

	def wait(self):
		self.lines = [tuple(map(int, self.process.stdout.readline().split())) for _ in range(2)]


@pytest.fixture(scope="module", params=["always", "madvise"])
def purged(request, shim, bare, compile_c):
	"""Small blocks, and blocks that were advised, in two programs at once: each waits for seconds."""
	program, environment = str(compile_c("returned_pages.c")), dict(bare, LD_PRELOAD=str(shim))
	with changed() as use, memory_cgroup() as group, contextlib.ExitStack() as stack:
		use(request.param)
		small = Purged(stack, [program, "small"], environment)
		advised = Purged(stack, group.command([program, "advised"]), environment)
		for one in (small, advised):
			one.wait()
		advised.charged_mb = group.read("memory.usage_in_bytes") / MB
	return {"small": small, "advised": advised}


def test_survivors_among_purged_small_blocks_do_not_grow_again(purged):
	"""khugepaged filled the holes: 466 MB seconds after the purge on `always`, where it is 79 on `madvise`."""
	at_once, later = (resident for resident, _ in purged["small"].lines)
	assert at_once < 60 and later < 60, (at_once, later)


def test_memory_that_was_advised_is_neither_resident_nor_charged_after_a_purge(purged):
	"""NumPy asks for huge pages. Of those that a purge returned in part the whole stayed charged to the cgroup."""
	(resident, huge), charged = purged["advised"].lines[1], purged["advised"].charged_mb
	assert resident < 40 and huge <= 4, (resident, huge)
	assert charged < resident + 10, (charged, resident)


def test_a_large_block_has_the_huge_pages_of_the_system(spawn, env, compile_c, huge_pages):
	huge_pages("always")
	actor = spawn([compile_c("returned_pages.c"), "large"], env(**SETTINGS))

	resident, huge = map(int, actor.stdout.readline().split())
	assert huge > resident * 3 / 4, (resident, huge)


def test_the_users_own_setting_of_jemalloc_is_for_all_blocks(spawn, env, compile_c, huge_pages):
	huge_pages("always")
	actor = spawn([compile_c("returned_pages.c"), "large"], env(MALLOC_CONF="thp:never", **SETTINGS))

	resident, huge = map(int, actor.stdout.readline().split())
	assert resident > 140 and huge <= 4, (resident, huge)


def test_purged_memory_that_the_kernel_fills_again_is_found_and_purged_again(spawn, env, compile_c, huge_pages, stats, control):
	"""jemalloc counts these pages as purged, and nothing looked again."""
	huge_pages("madvise")
	settings = env(**SETTINGS)
	actor = spawn([compile_c("returned_pages.c"), "refilled"], settings)

	filled = actor.stdout.readline()
	if not filled or int(filled.split()[0]) < 55:
		pytest.skip("this kernel fills no holes at once (MADV_COLLAPSE)")
	later = int(actor.stdout.readline().split()[0])
	assert later < 45, (filled, later)
	assert any(record["reason"] == "huge_pages" for record in stats(actor.pid, settings)["records"])
	assert "huge pages: the kernel has filled what was purged, 1 time" in control(settings, "doctor", actor.pid).stdout


def test_stat_shows_huge_pages_and_a_charge_that_resident_memory_does_not_show(spawn, env, compile_c, huge_pages, group, control, wait_for):
	huge_pages("always")
	program, settings = str(compile_c("returned_pages.c")), env(MIN_MB=0, **SETTINGS)
	large = spawn([program, "large"], settings)
	charged = spawn([program, "charged"], settings, preexec_fn=group.enter)
	for actor in (large, charged):
		actor.stdout.readline()

	def shows(actor, words):
		return words in control(settings, "stat", actor.pid).stdout

	wait_for(lambda: shows(large, "in transparent huge pages (AnonHugePages)"))
	wait_for(lambda: shows(charged, "charged to the cgroup without its files"))
