"""The shim for aarch64: all of it compiles and links with the cross compiler and shows the right names; its dlsym, run by an
emulator, answers as it does at home."""
import os
import pathlib
import shutil
import subprocess

import pytest

from places import ROOT, helper

PREFIX = "aarch64-linux-gnu-"
SYSROOT = "/usr/aarch64-linux-gnu"
BUILT = ROOT / "build" / "aarch64"

pytestmark = [
	pytest.mark.long,
	pytest.mark.skipif(not shutil.which(PREFIX + "gcc"), reason="no aarch64 cross compiler: scripts/bootstrap"),
	pytest.mark.skipif(os.uname().machine == "aarch64", reason="this machine is one: the other tests do it"),
	pytest.mark.xdist_group("aarch64"),  # one worker builds it: two at once would write the same files
]


@pytest.fixture(scope="module")
def cross_shim():
	"""libmtshim.so for aarch64, without jemalloc, of which there is no static library for it here."""
	environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
	done = subprocess.run(["make", "-s", "-j2", f"CC={PREFIX}gcc", "JEMALLOC=none", "CUDA=1", "CFLAGS=-g0", f"B={BUILT.relative_to(ROOT)}",
	                       f"{BUILT.relative_to(ROOT)}/libmtshim.so"], cwd=ROOT, env=environment, capture_output=True,
	                      text=True, timeout=300)
	assert done.returncode == 0, done.stdout + done.stderr
	return BUILT / "libmtshim.so"


@pytest.fixture
def cross(tmp_path):
	"""cross(name, source, *flags): a helper compiled for aarch64."""
	def make(name, source, *flags):
		out = tmp_path / name
		subprocess.run([PREFIX + "gcc", "-std=c11", "-O1", "-D_GNU_SOURCE", "-pthread", "-fno-builtin", f"-I{ROOT / 'shim'}",
		                "-o", out, helper(source), *flags], check=True)
		return out
	return make


@pytest.fixture
def emulate(run, bare):
	"""emulate(command, preload): the command under the emulator."""
	if not shutil.which("qemu-aarch64"):
		pytest.skip("no qemu-aarch64: scripts/bootstrap")

	def one(command, preload=None):
		extra = ["-E", f"LD_PRELOAD={preload}"] if preload else []
		return run(["qemu-aarch64", "-L", SYSROOT, *extra, *command], bare, timeout=60)
	return one


@pytest.mark.parametrize("script", [["check-exports.sh", BUILT], ["check-hardening.sh", BUILT, "libmtshim.so"]], ids=lambda words: words[0])
def test_it_builds_and_is_what_the_scripts_want(cross_shim, script):
	done = subprocess.run([ROOT / "scripts" / script[0], *script[1:]], cwd=ROOT, capture_output=True, text=True,
	                      env=dict(os.environ, NM=PREFIX + "nm"))
	assert done.returncode == 0, done.stdout


LIBRARY = ["-shared", "-fPIC"]


@pytest.mark.parametrize("bound", ["-DNEW", "-DOLD"])
def test_every_caller_gets_what_it_gets_without_the_shim(bound, cross_shim, cross, emulate):
	flags = ['-DBASE="GLIBC_2.17"', bound]
	linked = cross("lib2.so", "lookup_caller.c", *LIBRARY, "-DWHO=2", *flags)
	opened = cross("lib3.so", "lookup_caller.c", *LIBRARY, "-DWHO=3", *flags)
	program = cross("program", "lookup_caller.c", "-DWHO=1", *flags, linked)
	plain, shimmed = emulate([program, opened]), emulate([program, opened], cross_shim)
	assert plain.returncode == 0 and len(plain.stdout.split("\n")) > 200
	assert shimmed.stdout == plain.stdout


def test_each_wrapped_name_is_ours_and_each_other_is_the_drivers_own(cross_shim, cross, emulate):
	driver = cross("libcuda.so.1", "lookup_driver.c", *LIBRARY, "-O0", "-Wl,-Bsymbolic", "-Wl,-soname,libcuda.so.1")
	done = emulate([cross("roads", "lookup_roads.c"), "wrapped", driver], cross_shim)
	assert done.returncode == 0 and int(done.stdout.split()[0]) > 250, done.stdout + done.stderr


def test_dlsym_works_before_the_loader_has_relocated_us(cross_shim, cross, emulate):
	flags = ["-fno-plt", "-Wl,-z,now"]
	library = cross("libearly.so", "lookup_early.c", *LIBRARY, "-DLIBRARY", *flags)
	done = emulate([cross("early", "lookup_early.c", *flags, library)], cross_shim)
	assert done.stdout == "library 1, program 1, preinit 1\n", done.stderr


def test_its_dlopen_opens_as_ever(cross_shim, cross, emulate):
	plugin = cross("plugin.so", "plugin.c", "-shared", "-fPIC")
	program = cross("libraries", "libraries.c")

	# What it grows by is the emulator's.
	assert emulate([program, "cycle", plugin, 20], preload=cross_shim).stdout.startswith("20 well, ")
	assert emulate([program, "deep", plugin], preload=cross_shim).stdout == "200 well, closed: 1\n"
