"""Other preloaded libraries before and behind the shim. The allocators among them are in test_detect.py."""
import os
import pathlib
import shutil
import subprocess
import time

import pytest

BUSY = {"MIN_MB": 0, "TICK_MS": 10, "IDLE_MS": 10, "SLACK_MB": 0, "SLACK_PCT": 0, "BUDGET_PCT": 100}
ORDER = pytest.mark.parametrize("order", ["before", "behind"])
SAID_BARE = {}  # by program


def file_of(package, name):
	listed = subprocess.run(["dpkg", "-L", package], capture_output=True, text=True).stdout.splitlines()
	found = [line for line in listed if pathlib.Path(line).name == name]
	if not found:
		pytest.skip(f"{package} is not installed")
	return found[0]


def chained(library, shim, order):
	return f"{library}:{shim}" if order == "before" else f"{shim}:{library}"


@pytest.fixture
def goes_well(run, env, bare, shim, compile_c, backend):
	"""goes_well(library, order, ...): programs say with both what they say with that library alone, or with nothing."""
	def check(library, order, settings=BUSY, forks=10, **more):
		both = dict(env(**settings), LD_PRELOAD=chained(library, shim, order), **more)
		program = compile_c("cxx_program.cc", "-g0")
		if program not in SAID_BARE:
			SAID_BARE[program] = run([program], bare).stdout
		assert run([program], both).stdout == SAID_BARE[program]
		done = run([compile_c("fork_storm.c"), forks], both, timeout=60)
		assert (done.returncode, done.stdout) == (0, f"{forks} of {forks} children, 0 of 0 spawned\n"), done.stderr
		done = run([compile_c("ends.c"), "keys", 50], both)
		assert (done.returncode, done.stdout) == (0, "2000 handlers\n"), done.stderr
		done = run([compile_c("first_call.c"), "main", "many"], both)
		assert (done.returncode, done.stdout) == (0, "many well\n"), done.stderr
	return check


# ---- libfaketime ----

@pytest.fixture
def faketime():
	"""It never removes its two files of shared memory, which are named after the process that made them."""
	yield file_of("libfaketime", "libfaketimeMT.so.1")
	for file in pathlib.Path("/dev/shm").glob("*faketime_s*_*"):
		if not pathlib.Path("/proc", file.name.rpartition("_")[2]).exists():
			file.unlink(missing_ok=True)


TIMES = {"still": "2031-05-05 12:00:00", "ahead": "+30y", "fast": "+0 x1000"}


@ORDER
@pytest.mark.parametrize("when", TIMES)
def test_programs_work_in_a_time_of_their_own(goes_well, faketime, order, when):
	goes_well(faketime, order, FAKETIME=TIMES[when])


@ORDER
@pytest.mark.parametrize("call", ["many", "large"])
@pytest.mark.parametrize("library", ["libfaketime.so.1", "libfaketimeMT.so.1"])
def test_a_program_that_allocates_much_before_libfaketime_has_begun_ends_well(run, env, shim, compile_c, faketime, backend,
                                                                              library, call, order):
	"""The worker, which began with it, asked for a file's owner: libfaketime's stat made a semaphore then, took it for another's in
	its constructor, and waited for it at the end when it was gone."""
	library = pathlib.Path(faketime).with_name(library)
	settings = dict(env(MIN_MB=0), LD_PRELOAD=chained(library, shim, order))

	for _ in range(5):
		got = run([compile_c("first_call.c"), "preinit", call], settings)
		assert (got.returncode, got.stdout, got.stderr) == (0, f"{call} well\n", "")


def cpu_seconds(pid):
	words = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
	return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
@ORDER
@pytest.mark.parametrize("when", ["still", "fast"])
def test_the_worker_lives_in_real_time(puppet, env, shim, awake, wait_for, faketime, backend, order, when):
	"""By a clock that stood still no pause was ever over: nothing was purged any more, and some waits never ended."""
	settings = dict(env(MIN_MB=0, SLACK_MB=16, SLACK_PCT=0), LD_PRELOAD=chained(faketime, shim, order),
	                FAKETIME=TIMES[when])
	actor = puppet(settings)
	for _ in range(2):
		actor.tell("alloc 40000 4000 4000")
		awake(actor.pid, settings)
		assert actor.number("status RssAnon:") > 150_000
		actor.tell("keep 0")
		wait_for(lambda: actor.number("status RssAnon:") < 60_000, 20)
	before = cpu_seconds(actor.pid)
	time.sleep(2)

	assert cpu_seconds(actor.pid) - before < 0.6, "at rest it does next to nothing"


@ORDER
def test_time_may_leap_while_a_process_runs(puppet, env, shim, awake, control, faketime, tmp_path, order):
	stamp = tmp_path / "stamp"
	stamp.write_text("+0")
	settings = dict(env(MIN_MB=0, TICK_MS=10), LD_PRELOAD=chained(faketime, shim, order),
	                FAKETIME_TIMESTAMP_FILE=str(stamp), FAKETIME_NO_CACHE="1")
	actor = puppet(settings)
	awake(actor.pid, settings)
	for when in ("+40y", "-40y", "1999-01-01 00:00:00", "+1d", "-1d", "+0"):
		stamp.write_text(when)
		actor.tell("alloc 20000 3000 3000")
		actor.tell("keep 0")
		# Asked for twice within a second of real time: the second one waits for the pause to be over.
		for _ in range(2):
			assert control(settings, "trim", actor.pid).returncode == 0
	assert actor.tell("hello") == "hello"
	assert actor.end()[0] == 0


# ---- recorders and wrappers ----

@pytest.mark.long  # it records every call of each
@ORDER
def test_programs_work_with_heaptrack(goes_well, run, env, shim, compile_c, backend, order, tmp_path):
	"""It begins with the first malloc it sees, and allocates then: from the shim that is just choosing its allocator. Behind
	jemalloc it sees none. No forks: of a program whose threads allocate it hangs by itself, 14 times of 15."""
	library = file_of("libheaptrack", "libheaptrack_preload.so")
	record = tmp_path / "record"

	goes_well(library, order, forks=0, DUMP_HEAPTRACK_OUTPUT=str(tmp_path / "record.$$"))
	both = dict(env(**BUSY), LD_PRELOAD=chained(library, shim, order), DUMP_HEAPTRACK_OUTPUT=str(record))
	got = run([compile_c("stranger.c"), 10], both)
	assert (got.returncode, "shim 1" in got.stdout) == (3, True), got.stderr
	if order == "behind" and backend == "jemalloc":
		assert not record.exists()
	else:
		assert record.stat().st_size > 10_000


@ORDER
def test_programs_work_with_eatmydata(goes_well, order):
	goes_well(file_of("libeatmydata1", "libeatmydata.so"), order)


# ---- another copy of the shim ----

@pytest.fixture
def copy_of_shim(shim, tmp_path):
	shutil.copy(shim, tmp_path / "libmtshim.so")
	return tmp_path / "libmtshim.so"


@ORDER
def test_programs_work_with_two_copies_of_the_shim(goes_well, copy_of_shim, order):
	goes_well(copy_of_shim, order)


def test_of_two_copies_the_first_serves(puppet, env, shim, copy_of_shim, awake, control, mt_dir, backend):
	"""Both had a worker, purged each other's heap, and wrote files of the same name."""
	settings = dict(env(MIN_MB=0, BUDGET_PCT=0), LD_PRELOAD=f"{shim}:{copy_of_shim}")
	actor = puppet(settings)
	actor.tell("alloc 40000 4000 4000")
	seen = awake(actor.pid, settings)
	actor.tell("keep 0")

	assert seen["allocator"] == ("jemalloc" if backend == "jemalloc" else "mtshim")
	assert actor.number("status Threads:") == 2
	assert len(list(mt_dir.iterdir())) == 2
	if backend == "jemalloc":
		assert control(settings, "trim", actor.pid).returncode == 0
		assert actor.number("status RssAnon:") < 60_000
	assert actor.end()[0] == 0
	assert list(mt_dir.iterdir()) == []


# ---- sanitizers ----

def runtime_of(name):
	found = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
	if not os.path.isabs(found):
		pytest.skip(f"{name} is not installed")
	return os.path.realpath(found)


SANITIZERS = {"address": "libasan.so", "undefined": "libubsan.so", "thread": "libtsan.so"}
QUIET = {"ASAN_OPTIONS": "detect_leaks=0", "TSAN_OPTIONS": "report_bugs=0"}


@pytest.fixture
def sanitized(run, bare, compile_c):
	"""sanitized(kind, *flags): a program, and what it says without the shim."""
	def build(kind, *flags):
		runtime_of(SANITIZERS[kind])
		program = compile_c("stranger.c", f"-fsanitize={kind}", *flags)
		plain = run([program, 10], dict(bare, **QUIET))
		if plain.returncode != 3:
			pytest.skip(f"does not run here at all: {plain.stderr[:200]}")
		return program, plain.stdout.splitlines()[0]
	return build


@pytest.mark.parametrize("kind", SANITIZERS)
def test_a_sanitized_program_works_behind_its_runtime(sanitized, run, env, shim, backend, kind):
	program, said = sanitized(kind)

	got = run([program, 10], dict(env(**BUSY), **QUIET, LD_PRELOAD=f"{runtime_of(SANITIZERS[kind])}:{shim}"))

	assert (got.returncode, got.stdout.splitlines()[0]) == (3, said), got.stderr
	assert "shim 1" in got.stdout


@pytest.mark.parametrize("kind, flags", [("address", []), ("address", ["-static-libasan"]), ("undefined", []),
                                         ("undefined", ["-static-libubsan"]), ("thread", ["-static-libtsan"]), ("thread", [])],
                         ids=["address", "address-static", "undefined", "undefined-static", "thread-static", "thread"])
def test_a_sanitized_program_works_under_the_shim(sanitized, run, env, backend, kind, flags):
	program, said = sanitized(kind, *flags)

	got = run([program, 10], dict(env(**BUSY), **QUIET))

	assert (got.returncode, got.stdout.splitlines()[0]) == (3, said), got.stderr
	assert "shim 1" in got.stdout
