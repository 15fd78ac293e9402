"""The machine refuses memory, threads, descriptors, /proc. The program must see the same as without the shim."""
import os
import pathlib
import subprocess

import pytest

SOURCE = pathlib.Path(__file__).with_name("heap_faults.c")
AWAKE = {"MIN_MB": 0, "TICK_MS": 10, "SLACK_MB": 1, "IDLE_MS": 10}
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


WITHOUT = {}  # results by command


def compare(run, env, bare, program, *words, wrapper=(), **settings):
	"""The same transcript and status with the shim as without it. Without it a command runs once."""
	command = (*wrapper, program, *words)
	if command not in WITHOUT:
		WITHOUT[command] = run(command, bare)
	expected = WITHOUT[command]
	got = run([*wrapper, program, *words], env(**settings))
	assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout), got.stderr
	assert len(got.stderr.splitlines()) <= 2, got.stderr
	return expected.stdout


@pytest.mark.parametrize("settings", [AWAKE, {}], ids=["first-malloc", "threshold"])
@pytest.mark.parametrize("words, sure", [(["as", "60"], "refused with ENOMEM, 0 wrong"), (["data"], "refused with ENOMEM"),
                                         (["fds"], "all given"), ([], "all given, 0 wrong")],
                         ids=["as", "data", "fds", "none"])
def test_under_resource_limits_memory_is_refused_properly(run, env, bare, compile_c, backend, words, sure, settings):
	if backend == "system" or sure.startswith("all"):
		assert sure in compare(run, env, bare, compile_c(SOURCE), *words, **settings)
		return
	# Any jemalloc keeps the address space that it has, so at the limit it refuses sooner than libc, and pthread_create
	# with it: what must hold is that it refuses properly and that what it gave is whole.
	got = run([compile_c(SOURCE), *words], env(**settings))

	assert got.returncode == 0, got.stderr
	assert got.stdout.count("refused with ENOMEM, 0 wrong") == 2


@pytest.mark.parametrize("mb", [1, 4, 8, 16, 32])
def test_with_hardly_any_address_space_both_heaps_refuse_alike(run, env, compile_c, backend, mb):
	"""Both heaps may refuse at different sizes, but in the same way."""
	got = run([compile_c(SOURCE), "as", mb], env(**AWAKE))

	assert got.returncode == 0, got.stderr
	assert got.stdout.count(", 0 wrong") == 2
	assert "oddly" not in got.stdout


@pytest.mark.parametrize("kb", [20000, 40000, 80000, 160000])
def test_a_program_born_into_a_small_address_space(run, env, bare, backend, kb):
	"""Under `ulimit -v` even the first mapping of an allocator may be refused."""
	command = ["/bin/bash", "-c", f"ulimit -v {kb}; /bin/ls / >/dev/null; echo $?"]

	got = run(command, env(**AWAKE))

	assert got.stdout == run(command, bare).stdout, got.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become nobody")
def test_a_program_runs_the_same_where_no_thread_can_be_made(run, env, bare, shim, compile_c, public, backend):
	"""The worker's own pthread_create fails. The heap works without it, and the program sees no error."""
	program = public(compile_c(SOURCE))
	settings = env(**AWAKE, DIR=f"/dev/shm/mtshim-fault-{os.getpid()}")
	# Preloaded behind setpriv, which is the subject of the next test.
	wrapper = [*NOBODY, "env", f"LD_PRELOAD={public(shim)}"]
	del settings["LD_PRELOAD"]
	expected = run([*NOBODY, program, "nproc"], bare)

	got = run([*wrapper, program, "nproc"], settings)

	subprocess.run(["rm", "-rf", settings["MT_DIR"]], check=True)
	assert "Resource temporarily unavailable" in expected.stdout
	assert (got.returncode, got.stdout, got.stderr) == (0, expected.stdout, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become nobody")
def test_a_program_that_drops_its_rights(run, env, shim, public, backend):
	"""Capabilities belong to a thread, and libc aborts when setresuid fares differently in two threads of a process.
	Programs that drop capabilities by hand are small when they do it: by default there is no thread of ours yet."""
	got = run([*NOBODY, "/usr/bin/id", "-u"], dict(env(), LD_PRELOAD=str(public(shim))))

	assert (got.returncode, got.stdout, got.stderr) == (0, "65534\n", "")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to unshare")
def test_a_program_runs_the_same_without_proc(run, env, bare, compile_c, backend):
	wrapper = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@"']
	if run([*wrapper, "/bin/true"], bare).returncode != 0:
		pytest.skip("may not hide /proc here")

	compare(run, env, bare, compile_c(SOURCE), wrapper=wrapper, **AWAKE)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to unshare")
def test_a_program_runs_the_same_without_dev_shm(run, env, bare, compile_c):
	wrapper = ["unshare", "--mount", "sh", "-c",
	           'mount -t tmpfs -o ro none /dev/shm && exec env LD_PRELOAD="$SHIM" "$0" "$@"']
	if run([*wrapper, "/bin/true"], bare).returncode != 0:
		pytest.skip("may not hide /dev/shm here")
	settings = env(**AWAKE)
	settings["SHIM"] = settings.pop("LD_PRELOAD")
	del settings["MT_DIR"]

	got = run([*wrapper, compile_c(SOURCE)], settings)

	assert got.returncode == 0
	assert got.stdout == run([compile_c(SOURCE)], bare).stdout
	assert len(got.stderr.splitlines()) <= 1, got.stderr


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_a_program_runs_the_same_with_closed_standard_descriptors(run, env, compile_c, tmp_path, closed):
	"""The shim must not write a line into a file that has descriptor 2."""
	command = ["/bin/sh", "-c", f'"$0" {closed}; echo "status $?" >"$1/status"', compile_c(SOURCE), tmp_path]

	run(command, env(**AWAKE, GC_ROUNDS="rubbish"))

	assert (tmp_path / "status").read_text() == "status 0\n"


def test_a_program_named_by_nothing(run, env):
	"""argv[0] may be missing or empty."""
	got = run(["perl", "-e", 'my $pid = fork; exec {"/bin/true"} "" if !$pid; waitpid $pid, 0; print "$?\\n"'], env(**AWAKE))

	assert got.stdout == "0\n", got.stderr


def test_killed_at_any_moment_leaves_no_trouble(run, env, mt_dir, spawn, compile_c, wait_for, control):
	"""kill -9 while its files are written. The next process sweeps them, and mtctl does not show the ended one."""
	settings = env(**AWAKE)
	for number in range(20):
		process = spawn([compile_c("puppet.c")], settings)
		process.stdin.write("alloc 2000 2000 2000\nkeep 2\n")
		process.stdin.flush()
		process.stdout.readline()
		if number % 2:
			wait_for(lambda: list(mt_dir.iterdir()), 5)
		process.kill()
		process.wait()

	listed = control(settings, "ps", "--json")

	assert listed.returncode in (0, 1)
	assert f'"pid": {process.pid}' not in listed.stdout and f'"pid":{process.pid},' not in listed.stdout
