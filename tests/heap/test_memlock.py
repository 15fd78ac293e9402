"""Programs that lock all of their memory."""
import os
import shutil

import pytest


@pytest.fixture
def nobody():
	"""A command to put before another, which then runs as an ordinary user who may lock so many kB."""
	if os.geteuid() != 0 or not shutil.which("setpriv"):
		pytest.skip("needs root to become nobody")

	def wrapper(kb):
		user = "setpriv --reuid=65534 --regid=65534 --clear-groups"
		return ["sh", "-c", f'ulimit -l {kb} && exec {user} "$0" "$@"']
	return wrapper


@pytest.fixture
def everybodys(shim, compile_c, public):
	"""The library and the program, the second time with the other hash section, where every user can reach them."""
	return [public(path) for path in (shim, compile_c("locks_itself.c"), compile_c("locks_itself.c", "-Wl,--hash-style=sysv"))]


@pytest.mark.parametrize("settings", [{}, {"MT_MIN_MB": "0"}], ids=["asleep", "awake"])
def test_a_program_that_locks_its_memory_within_the_usual_limit_may_do_so(run, bare, nobody, everybodys, settings):
	library, *programs = everybodys
	for program in programs:
		expected = run([*nobody(8192), program], bare)
		got = run([*nobody(8192), "/usr/bin/env", f"LD_PRELOAD={library}", program], dict(bare, **settings))

		assert expected.stdout == "locked, 100 blocks\n"
		assert (got.returncode, got.stdout, got.stderr) == (0, expected.stdout, "")


def test_a_program_that_locks_all_that_it_maps_locks_no_more_than_bare(run, bare, env, compile_c):
	"""A daemon of root's with 60 MB of small blocks: over jemalloc what it maps ahead was locked too, 40 % more."""
	if os.geteuid() != 0:
		pytest.skip("needs root to lock so much")
	command = [compile_c("locks_itself.c"), "60"]

	expected, got = (locked_kb(run(command, settings)) for settings in (bare, env()))

	assert got < expected + 8 * 1024, (got, expected)


def locked_kb(got):
	assert got.returncode == 0 and got.stdout.startswith("locked, 100 blocks\nVmLck:"), got.stdout + got.stderr
	return int(got.stdout.split()[-2])


def test_the_setting_for_jemalloc_is_kept_in_a_program_that_locks_its_memory(run, env, compile_c):
	got = run([compile_c("locks_itself.c")], env(ALLOCATOR="jemalloc", LOG_LEVEL="info"))

	assert "jemalloc (embedded" in got.stderr


def test_a_program_that_does_not_lock_its_memory_keeps_jemalloc(run, bare, nobody, everybodys):
	library = everybodys[0]

	got = run([*nobody(8192), "/usr/bin/env", f"LD_PRELOAD={library}", "MT_LOG_LEVEL=info", "MT_MIN_MB=0", "/bin/true"], bare)

	assert "jemalloc (embedded" in got.stderr


LOCKS = r"""
import ctypes, sys
rows = [{"row": i} for i in range(300000)]
lock = ctypes.CDLL(sys.argv[1] or None, use_errno=True).mlockall
assert lock(1) == 0, ctypes.get_errno()
print(next(line for line in open("/proc/self/status") if line.startswith("VmLck:")))
"""


@pytest.mark.parametrize("library", ["", "libc.so.6"])
def test_python_that_locks_its_memory_locks_no_reserved_address_space(run, env, bare, library):
	"""64 GB counted as locked."""
	if os.geteuid() != 0:
		pytest.skip("needs root to lock so much")

	expected, got = (int(run(["/usr/bin/python3", "-c", LOCKS, library], settings).stdout.split()[1]) for settings in (bare, env()))

	assert got < expected + (100 << 10), (got, expected)


def test_the_reason_for_libcs_malloc_is_mlockall_and_no_other(run, env, compile_c):
	"""libc maps the large block: "does not use the brk heap" was said of every such program, as of memcached."""
	got = run([compile_c("imports_mlockall.c")], env(LOG_LEVEL="info"))

	reasons = [line.partition("for good: ")[2] for line in got.stderr.splitlines() if "for good: " in line]
	assert reasons == ["the program imports mlockall"], got.stderr


def test_a_program_that_stays_on_libcs_malloc_keeps_its_adapting_threshold(run, env, bare, compile_c):
	"""ffmpeg imports mlockall by libjack: libc mapped and unmapped the buffer of each frame, 2.8 times the page faults."""
	program = [compile_c("frames.c")]
	free, shimmed = (int(run(program, settings).stdout) for settings in (bare, env()))

	assert shimmed < 2 * free + 400


@pytest.mark.parametrize("flag, outside, is_mapped", [
	("-DSETS=131072", {}, True), ("-DSETS=33554432", {}, False), ("-DSETS_LATE=131072", {}, True), ("-DPLAIN", {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=131072"}, True),
	("-DPLAIN", {"MALLOC_MMAP_THRESHOLD_": "0x20000"}, True), ("-DPLAIN", {"MALLOC_TOP_PAD_": "131072"}, True),
	("-DPLAIN", {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=131072:glibc.malloc.mmap_threshold=33554432"}, False),
	("-DPLAIN", {"GLIBC_TUNABLES": "glibc.malloc.trim_threshold=0"}, True),
	("-DPLAIN", {"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=8192"}, False)])
def test_what_a_program_or_its_user_sets_for_libcs_malloc_stays(run, env, bare, compile_c, flag, outside, is_mapped):
	"""The defaults took its place once the process stayed: 30 times the CPU, or 69 MB where bare keeps 9."""
	program = [compile_c("frames.c", flag)]
	free, shimmed = (int(run(program, {**settings, **outside}).stdout) for settings in (bare, env()))

	assert (free > 30_000, shimmed > 30_000) == (is_mapped, is_mapped)


@pytest.mark.parametrize("how", ["call", "dlsym", "none", "tunable", "variable", "zero"])
def test_the_number_of_arenas_that_a_program_or_its_user_sets_stays(run, env, bare, compile_c, how):
	"""16 arenas on two processors where it had asked for two; no number is as good as none."""
	outside = {"tunable": {"GLIBC_TUNABLES": "glibc.malloc.arena_max=2"}, "variable": {"MALLOC_ARENA_MAX": "2"},
	           "zero": {"GLIBC_TUNABLES": "glibc.malloc.arena_max=0"}}.get(how, {})
	program = [compile_c("arenas_set.c", "-pthread"), how]
	free, shimmed = (run(program, {**settings, **outside}) for settings in (bare, env()))

	assert (shimmed.returncode, shimmed.stdout, shimmed.stderr) == (0, free.stdout, "")
	assert (int(free.stdout) == 2) == (how not in ("none", "zero"))


@pytest.mark.parametrize("shift", range(4))
def test_a_program_whose_versions_lie_between_its_symbols_and_their_names_wakes_up(run, env, compile_c, shift):
	"""What lld links, rustc's programs too: the versions were read as symbols, and one of four died."""
	program = compile_c("versions_between.c", "-fuse-ld=lld", "-Wl,--hash-style=gnu", f"-DSHIFT={shift}", "-lm")

	got = run([program], env())

	assert (got.returncode, got.stdout, got.stderr) == (0, "goes on\n", "")


@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
@pytest.mark.parametrize("linker", ["bfd", "lld"])
def test_an_import_of_mlockall_is_found_whoever_links(run, env, compile_c, linker, style):
	got = run([compile_c("imports_mlockall.c", f"-fuse-ld={linker}", f"-Wl,--hash-style={style}")], env(LOG_LEVEL="info"))

	assert "for good: the program imports mlockall" in got.stderr


@pytest.mark.parametrize("limit", ["unlimited", "4000000"])
def test_a_program_that_locks_its_memory_keeps_the_blocks_that_it_reuses(run, env, bare, compile_c, limit):
	"""Each 2 MB that were freed were unmapped at once, and mapped, filled and locked again: 240 times the page faults."""
	program = ["sh", "-c", f'ulimit -v {limit}; exec "$@"', "sh", compile_c("reused_blocks.c"), 40, "lock"]
	# The worker's purges, whose number depends on how long the program takes, are left out.
	free, shimmed = (run(program, settings, timeout=120) for settings in (bare, env(TICK_MS=60000)))
	if free.returncode == 77:
		pytest.skip("needs the right to lock memory")

	assert int(shimmed.stdout) < 10 * int(free.stdout), (shimmed.stdout, free.stdout)
