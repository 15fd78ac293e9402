"""Programs that the shim cannot reach: every command says why, and `mtctl run` says it before it starts one."""
import json
import os
import shutil
import subprocess
import time

import pytest

from mtctl_helpers import NOT_SHIMMED, PYTHON, ctl, plain  # noqa: F401

GROWN = """#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void) { memset(malloc(60 << 20), 1, 60 << 20); (void)!write(1, "ready\\n", 6); return pause(); }
"""
BARE_32 = """void _start(void) { __asm__ volatile("int $0x80" : : "a"(4), "b"(1), "c"("ready\\n"), "d"(6)); for (;;) __asm__ volatile("int $0x80" : : "a"(29)); }
"""
IN_CHROOT = """#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	if (argc < 2 || chroot(argv[1]) || chdir("/") || setgroups(0, NULL) || setgid(65534) || setuid(65534))
		return 1;
	memset(malloc(60 << 20), 1, 60 << 20);
	(void)!write(1, "ready\\n", 6);
	return pause();
}
"""
LATE_CHROOT = """#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	char line[8];
	memset(malloc(60 << 20), 1, 60 << 20);
	(void)!write(1, "grown\\n", 6);
	if (read(0, line, sizeof(line)) < 1 || argc < 2 || chroot(argv[1]) || chdir("/"))
		return 1;
	(void)!write(1, "ready\\n", 6);
	return pause();
}
"""
COMMANDS = (["stat"], ["trim"], ["doctor"], ["advise"], ["sites"], ["diagnose", "--for=1"])


def _built(run, tmp_path, name, text, *command):
	source, program = tmp_path / f"{name}.c", tmp_path / name
	source.write_text(text)
	done = run([*command, "-o", program, source])
	if done.returncode != 0:
		pytest.skip(f"{command[0]} cannot build it: {done.stderr}")
	return program


def _is_named(ctl, mtctl, spawn, plain, program, words):
	said = program.with_suffix(".said")
	with open(said, "w") as errors:
		process = spawn([mtctl, "run", "--", program], plain, stderr=errors)
	assert process.stdout.readline() == "ready\n"
	assert words in said.read_text()
	for command in COMMANDS:
		done = ctl(*command, process.pid)
		assert done.returncode == NOT_SHIMMED and words in done.stderr, (command, done)
	assert f"Not as it is: {words}" in ctl("look", process.pid).stdout
	assert program.name not in ctl("ps").stdout


def test_a_static_program_is_named_by_every_command(ctl, mtctl, spawn, plain, run, tmp_path):
	program = _built(run, tmp_path, "grown", GROWN, "gcc", "-static")
	_is_named(ctl, mtctl, spawn, plain, program, "it is linked statically")


def test_a_program_of_musl_is_named_and_not_called_asleep(ctl, mtctl, spawn, plain, run, tmp_path):
	if not shutil.which("musl-gcc"):
		pytest.skip("musl-gcc is not installed")
	program = _built(run, tmp_path, "grown", GROWN, "musl-gcc")
	_is_named(ctl, mtctl, spawn, plain, program, "its libc is musl")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="another processor has no such programs")
def test_a_program_of_32_bits_is_named(ctl, mtctl, spawn, plain, run, tmp_path):
	program = _built(run, tmp_path, "short", BARE_32, "gcc", "-m32", "-nostdlib", "-static", "-fno-stack-protector")
	_is_named(ctl, mtctl, spawn, plain, program, "it is a program of 32 bits")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a program of another user")
def test_a_setuid_program_is_named(ctl, mtctl, spawn, plain, compile_c, tmp_path, public_folder):
	source, program = tmp_path / "grown.c", public_folder / "grown"
	source.write_text(GROWN)
	shutil.copy(compile_c(source), program)
	os.chown(program, 65534, 65534)
	program.chmod(0o4755)
	if os.statvfs(program).f_flag & os.ST_NOSUID:
		pytest.skip("the file system knows no setuid")
	_is_named(ctl, mtctl, spawn, plain, program, "it runs with another user's or group's rights")


def test_a_program_for_another_processor_is_named_before_its_start(ctl, tmp_path):
	words = bytearray(open(PYTHON, "rb").read(1 << 16))
	words[18:20] = (2).to_bytes(2, "little")  # e_machine: SPARC
	program = tmp_path / "other"
	program.write_bytes(words)
	program.chmod(0o755)

	done = ctl("run", "--", program)

	assert "it is a program for another processor" in done.stderr.splitlines()[0], done


def test_a_script_is_judged_by_its_interpreter_and_a_common_program_is_not_named(ctl, run, tmp_path):
	script = tmp_path / "script"
	script.write_text(f"#!{_built(run, tmp_path, 'shell', GROWN.replace('return pause()', 'return 0'), 'gcc', '-static')}\n")
	script.chmod(0o755)

	assert "it is linked statically" in ctl("run", "--", script).stderr
	assert ctl("run", "--", "true").stderr == "" == ctl("run", "--", PYTHON, "-c", "").stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot takes root")
def test_a_process_in_a_chroot_is_named_with_its_root_and_not_called_asleep(mtctl, shim, spawn, bare, compile_c, tmp_path):
	source, root, environment = tmp_path / "jailed.c", tmp_path / "jail", dict(bare, LD_PRELOAD=str(shim))
	source.write_text(IN_CHROOT)
	root.mkdir()
	process = spawn([compile_c(source), root], environment)
	assert process.stdout.readline() == "ready\n"

	for command in (["stat"], ["trim"], ["doctor"], ["diagnose", "--for=2"]):
		done = subprocess.run([mtctl, *command, str(process.pid)], env=bare, capture_output=True, text=True, timeout=60)
		assert f"its root is {root} (chroot)" in done.stdout + done.stderr and "asleep: " not in done.stdout, (command, done)


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot takes root")
def test_a_process_that_was_awake_before_its_chroot_is_found_and_its_silence_explained(mtctl, env, awake, spawn, bare, compile_c, tmp_path):
	source, root, environment = tmp_path / "late.c", tmp_path / "jail", env()
	source.write_text(LATE_CHROOT)
	root.mkdir()
	process = spawn([compile_c(source), root], environment, stdin=subprocess.PIPE)
	assert process.stdout.readline() == "grown\n"
	awake(process.pid, environment)
	process.stdin.write("go\n")
	process.stdin.flush()
	assert process.stdout.readline() == "ready\n"

	seen, asked = (subprocess.run([mtctl, *words, str(process.pid)], env=environment | {"LD_PRELOAD": ""}, capture_output=True, text=True,
	                              timeout=60) for words in (["stat", "--cached"], ["trim", "--timeout=2"]))

	assert "awake for" in seen.stdout and "has called chroot since it woke up" in asked.stderr, (seen, asked)


def _is_awake_and_out_of_reach(ctl, pid, words):
	for command in (["stat"], ["trim"], ["doctor"], ["diagnose", "--for=2"]):
		done = ctl(*command, pid)
		said = done.stdout + done.stderr
		assert f"out of reach: it is awake, and purges by itself; {words}" in said and "asleep" not in said, (command, done)
	assert f"{pid}  refused" in ctl("ps").stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="a namespace takes root")
def test_a_process_in_another_time_namespace_is_not_called_asleep(ctl, env, spawn, run, compile_c, tmp_path):
	if run(["unshare", "--time", "--boottime", "1000", "true"]).returncode != 0:
		pytest.skip("there are no time namespaces here")
	source = tmp_path / "grown.c"
	source.write_text(GROWN)
	process = spawn(["unshare", "--time", "--boottime", "1000", "--fork", compile_c(source)], env())
	assert process.stdout.readline() == "ready\n"
	pid = int(run(["pgrep", "-P", process.pid]).stdout)
	time.sleep(3)

	_is_awake_and_out_of_reach(ctl, pid, "its files bear a start time of its own time namespace")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_process_that_found_no_room_for_its_files_is_not_called_asleep(ctl, env, spawn, run, compile_c, tmp_path):
	source, small = tmp_path / "grown.c", tmp_path / "small"
	source.write_text(GROWN)
	small.mkdir()
	if run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", small]).returncode != 0:
		pytest.skip("mount is not permitted here")
	try:
		(small / "full").write_bytes(bytes(4096))
		process = spawn([compile_c(source)], env(DIR=small / "files"))
		assert process.stdout.readline() == "ready\n"
		time.sleep(3)

		_is_awake_and_out_of_reach(lambda *words: ctl(*words, MT_DIR=str(small / "files")), process.pid, "it could not make its files")
	finally:
		run(["umount", "-l", small])


@pytest.fixture
def renamed(shim, tmp_path):
	return shutil.copy(shim, tmp_path / "x.so")


def test_a_library_of_another_name_is_known_while_its_process_is_asleep(ctl, env, spawn, renamed):
	process = spawn(["sleep", "60"], dict(env(), LD_PRELOAD=renamed))
	for command in ("stat", "trim", "doctor"):
		done = ctl(command, process.pid)
		assert "asleep" in done.stdout + done.stderr and "does not carry" not in done.stdout + done.stderr, (command, done)
	assert "carries the shim" in ctl("look", process.pid).stdout
	assert f"{process.pid}  asleep" in ctl("ps").stdout

	renamed.unlink()  # as an upgrade by rename does
	assert "carries the shim" in ctl("look", process.pid).stdout


def test_a_library_of_another_name_is_acted_on_as_any_and_its_own_frames_are_no_sites(env, steer, awake, control, run, compile_c, renamed):
	settings = dict(env(MIN_MB=0, PROF="on"), LD_PRELOAD=renamed)
	one = steer(["env", "-u", "LD_PRELOAD", "sh", "-c", 'LD_PRELOAD=$0 "$1"; true', renamed, compile_c("sites_leak.c")], settings)
	assert one.process.stdout.readline() == "ready\n"
	pid = int(run(["pgrep", "-P", one.pid]).stdout)
	awake(pid, settings)

	for words in (["--all"], ["--tree", one.pid]):
		assert f"process {pid}" in control(settings, "trim", *words).stdout
	assert f"{pid}  sites_leak" in control(settings, "diagnose", "--for=2", "--no-trim", "--tree", one.pid).stdout
	sites = json.loads(control(settings, "sites", pid, "--json").stdout)["sites"]
	assert "early_block" in sites[0]["frames"][0], sites[0]


def test_a_library_of_another_name_that_was_removed_since_is_known_by_its_process_files(spawn, env, awake, control, renamed):
	"""As after an upgrade by rename."""
	settings = dict(env(MIN_MB=0), LD_PRELOAD=renamed)
	process = spawn(["sleep", "60"], settings)
	awake(process.pid, settings)
	renamed.unlink()

	for words in (["stat"], ["trim"], ["doctor"], ["diagnose", "--for=1", "--no-trim"]):
		assert "does not carry" not in control(settings, *words, process.pid).stderr, words
	assert "carries the shim" in control(settings, "look", process.pid).stdout
