"""Programs that the shim cannot or must not enter: they do what they do as ever, and only the loader may say so."""
import os
import pathlib
import re
import shutil
import struct
import subprocess

import pytest

import places

SOURCE = pathlib.Path(__file__).with_name("stranger.c")
NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
# From the kernel's vfs_cap_data: revision 2, effective; CAP_NET_RAW.
NET_RAW = struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0)


def test_a_static_program_is_left_alone(run, env, bare, compile_c, mt_dir):
	program = compile_c("stranger.c", "-static")
	expected = run([program, 30], bare)

	got = run([program, 30], env(MIN_MB=0))

	assert (got.returncode, got.stderr) == (expected.returncode, "") == (3, "")
	assert got.stdout.splitlines()[0] == expected.stdout.splitlines()[0]
	assert f"shim 0 euid {os.geteuid()} egid {os.getegid()} preload kept folder {mt_dir}" in got.stdout
	assert list(mt_dir.iterdir()) == []


@pytest.mark.parametrize("kind", ["setuid", "setgid", "capability"])
def test_a_privileged_program_is_left_alone(run, env, compile_c, public_folder, mt_dir, kind):
	"""The loader takes LD_PRELOAD out of such a program, and says nothing of it."""
	if os.geteuid() != 0:
		pytest.skip("needs root")
	program = public_folder / "program"
	shutil.copy(compile_c("stranger.c"), program)
	program.chmod({"setuid": 0o4755, "setgid": 0o2755, "capability": 0o755}[kind])
	if kind == "capability":
		os.setxattr(program, "security.capability", NET_RAW)

	got = run([*AS_NOBODY, program, 30], env())

	other = f"euid {NOBODY} egid {NOBODY}"
	ids = {"setuid": f"euid 0 egid {NOBODY}", "setgid": f"euid {NOBODY} egid 0"}.get(kind, other)
	if "secure 0" in got.stdout:
		pytest.skip("this file system gives no privileges")
	assert (got.returncode, got.stderr) == (3, "")
	assert f"secure 1 shim 0 {ids} preload none folder {mt_dir}" in got.stdout
	assert list(mt_dir.iterdir()) == []


def test_a_program_may_give_up_its_privileges_while_the_worker_runs(run, env, shim, public, backend):
	"""libc has each thread change its ids; the worker had lost the capabilities that its program kept: abort."""
	if os.geteuid() != 0:
		pytest.skip("needs root")

	for _ in range(5):
		got = run([*AS_NOBODY, "id", "-u"], dict(env(MIN_MB=0, TICK_MS=10), LD_PRELOAD=str(public(shim))))
		assert (got.returncode, got.stdout) == (0, f"{NOBODY}\n"), got.stderr
		assert "cannot be preloaded" not in got.stderr


def test_a_child_of_a_privileged_program_has_no_shim_either(run, env, compile_c, public_folder):
	if os.geteuid() != 0:
		pytest.skip("needs root")
	shell = public_folder / "shell"
	shutil.copy("/bin/dash", shell)
	shell.chmod(0o4755)
	shutil.copy(compile_c("stranger.c"), public_folder / "program")

	got = run([*AS_NOBODY, shell, "-pc", f"{public_folder}/program; exit 5"], env(MIN_MB=0))

	if "euid 0" not in got.stdout:
		pytest.skip("this file system gives no privileges")
	# setpriv itself may have become nobody just before it had its files.
	said = [line for line in got.stderr.splitlines() if "running without stats file" not in line]
	assert (got.returncode, said) == (5, [])
	assert "shim 0" in got.stdout and "preload none" in got.stdout


@pytest.fixture
def in_every_program(shim, public, tmp_path):
	"""A shell command's beginning under which /etc/ld.so.preload, in a mount namespace, names the shim."""
	if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
		pytest.skip("may not make a mount namespace here")
	folder = tmp_path / "etc"
	folder.mkdir()
	folder.chmod(0o755)
	(folder / "ld.so.preload").write_text(f"{public(shim)}\n")
	(folder / "passwd").write_text("root:x:0:0::/:/bin/sh\n")
	return ["unshare", "-m", "--propagation", "private", "sh", "-c", f'mount --bind {folder} /etc && exec "$@"', "sh"]


def test_a_privileged_program_takes_no_settings_from_its_caller(run, env, compile_c, public_folder, mt_dir, in_every_program):
	"""By way of /etc/ld.so.preload the shim is in it, with the environment that another user has made up: a log file."""
	program = public_folder / "program"
	shutil.copy(compile_c("stranger.c"), program)
	program.chmod(0o4755)
	settings = env(MIN_MB=0, LOG=public_folder / "log", LOG_LEVEL="info", ONLY="program")
	del settings["LD_PRELOAD"]

	got = run([*in_every_program, *AS_NOBODY, program, 30], settings)

	if "secure 0" in got.stdout:
		pytest.skip("this file system gives no privileges")
	assert (got.returncode, "secure 1 shim 1 euid 0" in got.stdout) == (3, True), got.stdout + got.stderr
	assert got.stderr == "" and not (public_folder / "log").exists()
	assert list(mt_dir.iterdir()) == []


def test_a_32_bit_program_gets_the_loaders_own_line_and_nothing_more(run, env, bare, shim, tmp_path):
	library = pathlib.Path("/lib32/libc.so.6")
	if not library.exists():
		pytest.skip("libc6-i386 is not installed")
	program = tmp_path / "program"
	subprocess.run(["gcc", "-m32", "-O1", "-fno-builtin", "-fno-pie", "-no-pie", "-fno-stack-protector", "-nostdlib",
	                "-nostartfiles", "-o", program, SOURCE.with_name("stranger_i386.c"), library,
	                "-Wl,-dynamic-linker,/lib/ld-linux.so.2"], check=True)
	expected = run([program], bare)

	got = run([program], env(MIN_MB=0))

	assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout) == (3, "well\n")
	assert len(got.stderr.splitlines()) == 1, got.stderr
	assert got.stderr.startswith("ERROR: ld.so: object") and "wrong ELF class: ELFCLASS64" in got.stderr


# ---- musl ----

@pytest.fixture
def musl(tmp_path):
	"""musl(source, *flags): a program for musl's libc."""
	if shutil.which("musl-gcc") is None:
		pytest.skip("musl-tools is not installed")

	def build(source, *flags):
		program = tmp_path / "program"
		subprocess.run(["musl-gcc", "-O1", "-D_GNU_SOURCE", "-fno-builtin", "-o", program, source, *flags], check=True)
		return program
	return build


def test_a_static_program_of_musl_is_left_alone(run, env, musl):
	got = run([musl(SOURCE, "-static"), 30], env(MIN_MB=0))

	assert (got.returncode, got.stderr) == (3, "")
	assert "shim 0" in got.stdout


@pytest.mark.parametrize("helper, words", [("stranger.c", [30]), ("fork_storm.c", [40])], ids=["stranger", "forks"])
def test_a_program_of_musl_runs_as_ever(run, env, bare, musl, mt_dir, helper, words):
	"""Its loader starts no program for want of a symbol: the shim asks for none that musl lacks, and serves nothing there."""
	program = musl(places.helper(helper), "-pthread")
	expected = run([program, *words], bare)

	got = run([program, *words], env(MIN_MB=0))

	assert (got.returncode, got.stderr) == (expected.returncode, "")
	assert got.stdout.splitlines()[0] == expected.stdout.splitlines()[0]
	assert list(mt_dir.iterdir()) == []


def test_a_program_of_musl_is_told_once_that_nothing_is_done_there(run, env, musl):
	"""At level info alone, and only where the program is not left out."""
	program = musl(places.helper("stranger.c"), "-pthread")
	line = re.compile(r"mtshim\[\d+\] \S+: info: mtshim \S+ does nothing here: the libc of this program is not glibc\n")

	got = run([program, 30], env(MIN_MB=0, LOG_LEVEL="info"))
	left_out = run([program, 30], env(MIN_MB=0, LOG_LEVEL="info", EXCLUDE="program"))

	assert (got.returncode, left_out.returncode, left_out.stderr) == (3, 3, "")
	assert line.fullmatch(got.stderr), got.stderr


def test_building_for_musl_says_that_it_is_not_supported(tmp_path):
	if shutil.which("musl-gcc") is None:
		pytest.skip("musl-tools is not installed")
	root = pathlib.Path(__file__).resolve().parents[2]

	done = subprocess.run(["musl-gcc", "-std=c11", "-D_GNU_SOURCE", f"-I{root}/shim", "-c", root / "shim/sys/lock.c",
	                       "-o", tmp_path / "lock.o"], capture_output=True, text=True)

	assert done.returncode != 0
	assert "libmtshim.so is for glibc" in done.stderr
