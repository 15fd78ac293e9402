"""The embedded jemalloc is whatever the distribution has: the build takes its names from the library, and the start looks whether it fits.
Other libraries than this machine's are made from it: objcopy renames what another version names otherwise."""
import pathlib
import shutil
import subprocess

import pytest

from places import ROOT

PYTHON = "/usr/bin/python3"
GROWS = "import time; kept = [bytearray(1000) for _ in range(50000)]; time.sleep(0.3); print(len(kept))"


@pytest.fixture(scope="module")
def archive():
	found = subprocess.run(["gcc", "-print-file-name=libjemalloc_pic.a"], capture_output=True, text=True).stdout.strip()
	if not pathlib.Path(found).is_file():
		pytest.skip("libjemalloc_pic.a is not installed")
	return found


def make(target, *options, **variables):
	"""Runs make in the source tree, with the library that is embedded below the target's folder."""
	words = [*options, *(f"{name}={value}" for name, value in variables.items())]
	return subprocess.run(["make", "--no-print-directory", *words, str(target)], cwd=ROOT, capture_output=True, text=True, timeout=300)


def build_library(tmp_path, archive):
	"""build_library(...)(**variables): the renamed library of an archive."""
	def build(**variables):
		target = tmp_path / "renamed.a"
		done = make(target, jemalloc_lib=target, **{"jemalloc_archive": archive, **variables})
		return target, done
	return build


@pytest.fixture
def library(tmp_path, archive):
	return build_library(tmp_path, archive)


@pytest.fixture
def changed(tmp_path, archive):
	"""changed(old, new): a copy of the archive in which the name `old` is `new`."""
	def change(old, new):
		copy = tmp_path / "changed.a"
		subprocess.run(["objcopy", "--redefine-sym", f"{old}={new}", archive, copy], check=True)
		return copy
	return change


def names(library):
	lines = subprocess.run(["nm", "-g", "--defined-only", library], capture_output=True, text=True, check=True).stdout.splitlines()
	return {line.split()[2] for line in lines if len(line.split()) == 3}


def test_every_name_of_the_library_is_out_of_the_programs_way(library):
	built, done = library()

	assert done.returncode == 0, done.stderr
	assert {"je_malloc", "je_bare_realloc", "je_mallctl"} <= names(built)
	assert not {name for name in names(built) if not name.startswith(("je_", "mt_je_"))}


def test_a_public_name_that_a_later_version_adds_is_renamed_too(library, changed):
	"""5.3.1 has pvalloc, free_sized and free_aligned_sized: they stood against the shim's own."""
	built, done = library(jemalloc_archive=changed("nallocx", "pvalloc"))

	assert done.returncode == 0, done.stderr
	assert "je_pvalloc" in names(built) and "pvalloc" not in names(built)


def test_a_call_that_a_later_libc_renames_keeps_the_name_that_older_ones_have(library, changed):
	"""glibc's headers from 2.38 on have strtol named __isoc23_strtol."""
	built, done = library(jemalloc_archive=changed("madvise", "__isoc23_madvise"))
	wanted = subprocess.run(["nm", "-g", "--undefined-only", built], capture_output=True, text=True, check=True).stdout

	assert done.returncode == 0, done.stderr
	assert "U madvise" in wanted and "__isoc23" not in wanted


@pytest.mark.parametrize("old", ["xallocx", "secure_getenv"])
def test_a_library_that_lacks_what_is_needed_is_refused_with_its_name(library, changed, old):
	built, done = library(jemalloc_archive=changed(old, "other_name"))

	assert done.returncode != 0 and not built.exists()
	assert f"lacks {old} and cannot be embedded; JEMALLOC=none make goes without" in done.stderr


def test_a_machine_without_the_library_is_told_what_to_run(library):
	built, done = library(jemalloc_archive="libjemalloc_pic.a")

	assert done.returncode != 0 and not built.exists()
	assert "libjemalloc_pic.a is missing: run scripts/bootstrap, or JEMALLOC=none make" in done.stderr


def test_the_build_says_what_is_left_out_where_an_internal_name_is_gone(library, changed):
	_, done = library(jemalloc_archive=changed("je_large_palloc", "je_other_name"))

	assert done.returncode == 0, done.stderr
	assert "lacks the arena of large blocks" in done.stdout and "lacks the end of large blocks" not in done.stdout


@pytest.fixture
def other_shim(tmp_path):
	"""other_shim(**variables): a shim around another library. Only the one object that depends on the library's version is compiled."""
	if not (ROOT / "build/obj/shim/core/init.o").exists():
		pytest.skip("the shim's objects are not built here: make")

	def build(**variables):
		folder = tmp_path / "b"
		shutil.copytree(ROOT / "build/obj/shim", folder / "obj/shim", copy_function=shutil.copy2)
		shutil.copytree(ROOT / "build/gen", folder / "gen", copy_function=shutil.copy2)
		(folder / "obj/shim/heap/jemalloc_thread.o").unlink()
		done = make(folder / "libmtshim.so", f"--old-file={folder}/gen/choice", B=folder, jemalloc_lib=tmp_path / "renamed.a", **variables)
		assert done.returncode == 0, done.stdout + done.stderr
		return folder / "libmtshim.so", done.stdout
	return build


def test_an_unknown_version_serves_without_its_internals(run, env, control, archive, other_shim, spawn, wait_for):
	"""It may have changed what they mean. The heap is purged all the same."""
	library, said = other_shim(jemalloc_archive=archive, jemalloc_known="5.2.1")
	environment = env(MIN_MB=0, TICK_MS=20, IDLE_MS=100, SLACK_MB=1, SLACK_PCT=1)
	environment["LD_PRELOAD"] = str(library)
	program = spawn([PYTHON, "-c", "import ctypes, sys\nlibc = ctypes.CDLL(None)\nlibc.malloc.restype = ctypes.c_void_p\n"
	                 "blocks = [libc.malloc(1000) for _ in range(100000)]\n[ctypes.memset(block, 1, 1000) for block in blocks]\n"
	                 "[libc.free(ctypes.c_void_p(block)) for block in blocks]\nprint('free', flush=True)\nsys.stdin.read()"], environment)
	assert program.stdout.readline() == "free\n"

	assert "is none of 5.2.1: of its internals nothing is used" in said and "lacks the end of large blocks" in said
	wait_for(lambda: resident_mib(program.pid) < 60, what="the freed 100 MB go back")
	assert "jemalloc, embedded" in control(environment, "stat", "--all", program.pid).stdout


def resident_mib(pid):
	return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096 / 2**20


def test_a_library_that_does_not_fit_is_found_at_the_start_and_libc_serves(run, env, archive, other_shim):
	"""It reads its settings by a call that the shim does not see: then it would purge on the program's threads."""
	library, _ = other_shim(jemalloc_archive=archive, jemalloc_hooked="mmap pthread_atfork pthread_key_create pthread_mutex_lock pthread_setspecific readlink "
	                        "syscall sbrk creat _Unwind_Backtrace _Unwind_GetIP log exp round")
	environment = env(MIN_MB=0)
	environment["LD_PRELOAD"] = str(library)

	for allocator in ("auto", "jemalloc"):
		got = run([PYTHON, "-c", GROWS], dict(environment, MT_ALLOCATOR=allocator))
		assert (got.returncode, got.stdout) == (0, "50000\n")
		assert got.stderr.count("\n") == 1 and "the embedded jemalloc does not fit: it does not read its settings by secure_getenv. " \
			"libc's malloc serves" in got.stderr


@pytest.mark.parametrize("allocator", ["auto", "jemalloc"])
@pytest.mark.parametrize("conf", ["", "abort:true"])
def test_pages_larger_than_those_it_was_built_for_are_found_at_the_start(run, env, compile_c, shim, tmp_path, allocator, conf):
	"""jemalloc returns no memory then; with abort:true it ended the program."""
	environment = env(MIN_MB=0, ALLOCATOR=allocator, MALLOC_CONF=conf)
	other = tmp_path / "libmtshim.so"
	other.write_bytes(pathlib.Path(shim).read_bytes().replace(b"\0sysconf\0", b"\0mtpages\0"))
	environment["LD_PRELOAD"] = f"{compile_c('other_pages.c', '-shared', '-fPIC')} {other}"

	got = run([PYTHON, "-c", GROWS], environment)

	assert (got.returncode, got.stdout) == (0, "50000\n"), got.stderr
	assert got.stderr.count("\n") == 1 and "the embedded jemalloc does not fit: it was built for smaller pages than this kernel's. " \
		"libc's malloc serves" in got.stderr
